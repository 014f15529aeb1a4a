package witness

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/lease"
	"peerd/overlay/wire"
)

// voteRate is how often a candidate may ask: the takeover of 50,000 subnets needs 200
// requests.
var voteRate = wire.Rate{PerSecond: 8, Burst: 64, TotalFactor: 8}

// A Proposal is what a candidate asks votes for: to own Subnet at Epoch.
type Proposal struct {
	Subnet netip.Prefix
	Epoch  uint64
	// Ended is the digest of the lease that it ends.
	Ended lease.Digest
}

// Tally is the result of a RequestVotes.
type Tally struct {
	// WitnessSet is the sealed set under which votes were given: the given one, or a
	// newer one that a witness sent.
	WitnessSet []byte
	// Votes are the sealed votes for each subnet, in the order of voters, as a lease
	// contains them. Needed of them suffice.
	Votes  map[netip.Prefix][][]byte
	Needed int
	voters map[netip.Prefix][]peer.ID // of Votes
	// HeardOwner are the witnesses that refused because they hear the owner; VotedOther
	// those that voted for another candidate in any of the proposals; Failed those
	// without a usable reply, or that had not run for long enough.
	HeardOwner, VotedOther []peer.ID
	Failed                 map[peer.ID]error
	// Until is when the lease must have been published.
	Until time.Time
}

func newTally(p lease.WitnessSet, a voteRequest) Tally {
	return Tally{
		WitnessSet: a.Set, Needed: p.TakeoverQuorum(), Votes: map[netip.Prefix][][]byte{},
		Failed: map[peer.ID]error{}, voters: map[netip.Prefix][]peer.ID{},
	}
}

// Takeover returns the evidence for subnet, if there are enough votes.
func (t Tally) Takeover(subnet netip.Prefix) (lease.Takeover, bool) {
	if len(t.Votes[subnet]) < t.Needed || t.Needed == 0 {
		return lease.Takeover{}, false
	}
	return lease.Takeover{WitnessSet: t.WitnessSet, Votes: t.Votes[subnet]}, true
}

// maxRounds is how many witness sets one RequestVotes tries, each newer than the last.
const maxRounds = 4

var (
	// ErrCannotVote is the reason in Tally.Failed if a witness replied without a vote.
	ErrCannotVote = errors.New("witness: cannot vote")
	// ErrVoteRunning is returned while another RequestVotes for the same subnet runs.
	ErrVoteRunning = errors.New("witness: a vote is running already")
)

// RequestVotes asks all witnesses of owner at once for their votes that this peer owns
// the given subnets: at most MaxProposals, and each subnet once. sealed is the owner's
// witness set. It returns when there are enough votes for every proposal, or all
// witnesses have replied. Too few votes are not an error: see Tally. It fails if the set
// is not the owner's, if the proposals are not valid, and with ErrVoteRunning.
//
// The caller reads the leases from the DHT before, and publishes its own before
// Tally.Until.
func (s *Service) RequestVotes(
	ctx context.Context, owner peer.ID, sealed []byte, proposals []Proposal,
) (Tally, error) {
	a := voteRequest{Set: sealed, Proposals: make([]proposal, len(proposals))}
	for i, st := range proposals {
		a.Proposals[i] = proposal(st)
	}
	if err := checkProposals(a.Proposals); err != nil {
		return Tally{}, err
	}
	until := s.clock.Now().Add(VoteWindow)
	ctx, cancel := context.WithTimeout(ctx, VoteWindow)
	defer cancel()
	if err := s.beginVote(proposals); err != nil {
		return Tally{}, err
	}
	defer s.endVote(proposals)
	for tries := 1; ; tries++ {
		a.Attempt = s.nextAttempt()
		p, err := openSet(s.cfg.Network, a.Set)
		if err == nil && p.Owner != owner {
			err = fmt.Errorf("%w: the witness set is of another owner", ErrMessage)
		}
		if err != nil {
			return Tally{}, err
		}
		t, next := s.poll(ctx, p, a)
		t.Until = until
		s.releaseVotes(ctx, p, a, t)
		if next == nil || tries >= maxRounds {
			return t, nil
		}
		a.Set = next
	}
}

// nextAttempt returns the number of a new request for votes: later ones have higher numbers, also
// after a restart unless the clock was set back. Then witnesses that have voted do so again after
// VoteLife.
func (s *Service) nextAttempt() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempt = max(s.attempt+1, uint64(max(s.clock.Now().UnixNano(), 1)))
	return s.attempt
}

// beginVote records that a vote runs: two votes for the same subnet at once could release
// each other's votes.
func (s *Service) beginVote(proposals []Proposal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range proposals {
		if s.voting[st.Subnet] {
			return fmt.Errorf("%w: %v", ErrVoteRunning, st.Subnet)
		}
	}
	for _, st := range proposals {
		s.voting[st.Subnet] = true
	}
	return nil
}

func (s *Service) endVote(proposals []Proposal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range proposals {
		delete(s.voting, st.Subnet)
	}
}

// releaseVotes tells the witnesses that voted for a proposal without enough votes that
// they may vote for another candidate; otherwise split votes would bind them for
// VoteLife. It does not release votes for a subnet if votes of an earlier attempt may
// still be in use.
func (s *Service) releaseVotes(ctx context.Context, p lease.WitnessSet, a voteRequest, t Tally) {
	now := s.clock.Now()
	voted := map[peer.ID]bool{}
	back := voteRequest{Set: a.Set, Attempt: a.Attempt, Release: true}
	s.mu.Lock()
	for subnet, until := range s.wonUntil {
		if now.After(until) {
			delete(s.wonUntil, subnet)
		}
	}
	for _, st := range a.Proposals {
		if len(t.Votes[st.Subnet]) >= t.Needed {
			s.wonUntil[st.Subnet] = now.Add(VoteWindow)
			continue
		}
		if _, used := s.wonUntil[st.Subnet]; used || len(t.Votes[st.Subnet]) == 0 {
			continue
		}
		back.Proposals = append(back.Proposals, st)
		for _, raw := range t.Votes[st.Subnet] {
			if v, err := lease.OpenVote(raw); err == nil {
				voted[v.Voter] = true
			}
		}
	}
	s.mu.Unlock()
	if len(back.Proposals) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var all sync.WaitGroup
	for _, id := range p.Members {
		if voted[id] {
			// A lost release only delays other candidates.
			all.Go(func() { _, _ = s.requestVote(ctx, id, back) })
		}
	}
	all.Wait()
}

// poll asks all members once. It returns a newer witness set if one of them sent it.
func (s *Service) poll(
	ctx context.Context, p lease.WitnessSet, a voteRequest,
) (t Tally, next []byte) {
	type result struct {
		from peer.ID
		voteReply
		err error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	got := make(chan result, len(p.Members))
	for _, id := range p.Members {
		go func() { // ends with ctx
			r, err := s.requestVote(ctx, id, a)
			got <- result{id, r, err}
		}()
	}
	t = newTally(p, a)
	for n := range p.Members {
		h := <-got
		if h.err == nil {
			h.err = t.count(p, s.self, h.from, a, h.voteReply)
		}
		if h.err != nil {
			t.Failed[h.from] = h.err
		}
		if h.Status == statusNewerSet {
			if q, err := openSet(s.cfg.Network, h.Set); err == nil && q.Owner == p.Owner &&
				q.Seq > p.Seq {
				next = h.Set
			}
		}
		if next != nil || t.enough(a) {
			cancel()
			for range len(p.Members) - n - 1 {
				<-got
			}
			return t, next
		}
	}
	return t, nil
}

// enough reports whether every proposal has enough votes.
func (t *Tally) enough(a voteRequest) bool {
	for _, st := range a.Proposals {
		if len(t.Votes[st.Subnet]) < t.Needed {
			return false
		}
	}
	return true
}

// count adds the reply of a member after checking it.
func (t *Tally) count(p lease.WitnessSet, self, from peer.ID, a voteRequest, r voteReply) error {
	switch r.Status {
	case statusHeardOwner:
		t.HeardOwner = append(t.HeardOwner, from)
		return nil
	case statusVoted:
	default:
		return fmt.Errorf("%w: status %d", ErrCannotVote, r.Status)
	}
	if len(r.Votes) != len(a.Proposals) {
		return fmt.Errorf("%w: %d votes for %d proposals", ErrMessage,
			len(r.Votes), len(a.Proposals))
	}
	votedOther := false
	for i, st := range a.Proposals {
		if len(r.Votes[i]) == 0 {
			votedOther = true
			continue
		}
		v, err := lease.OpenVote(r.Votes[i])
		if err != nil {
			return err
		}
		want := lease.Vote{Voter: from, Subnet: st.Subnet, Epoch: st.Epoch, From: p.Owner, To: self,
			SetSeq: p.Seq, Ended: st.Ended, Issued: v.Issued}
		if v != want {
			return fmt.Errorf("%w: a vote that was not requested", ErrMessage)
		}
		at, _ := slices.BinarySearch(t.voters[st.Subnet], from)
		t.voters[st.Subnet] = slices.Insert(t.voters[st.Subnet], at, from)
		t.Votes[st.Subnet] = slices.Insert(t.Votes[st.Subnet], at, r.Votes[i])
	}
	if votedOther {
		t.VotedOther = append(t.VotedOther, from)
	}
	return nil
}

// requestVote asks one member, which may be this peer.
func (s *Service) requestVote(ctx context.Context, id peer.ID, a voteRequest) (voteReply, error) {
	if id == s.self {
		return s.onVoteRequest(ctx, s.self, a)
	}
	r, err := s.transport.call(ctx, id, request{Vote: &a})
	if err != nil {
		return voteReply{}, err
	}
	if r.Vote == nil {
		return voteReply{}, ErrMessage
	}
	return *r.Vote, nil
}
