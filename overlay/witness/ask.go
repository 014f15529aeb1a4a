package witness

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/lease"
	"peerd/overlay/wire"
)

// askRate is how often a candidate may ask: a peer that died with 50,000 subnets
// makes 200 questions.
var askRate = wire.Rate{PerSecond: 8, AtOnce: 64, Together: 8}

// A Step is what a candidate asks votes for: to own Subnet at Epoch.
type Step struct {
	Subnet netip.Prefix
	Epoch  uint64
}

// Tally is how an Ask went.
type Tally struct {
	// Panel is the sealed panel that votes were given under: the one asked with, or
	// a newer one that a witness showed.
	Panel []byte
	// Votes are the sealed votes obtained for each subnet, in the order of voters, as
	// a lease holds them. Needed of them win.
	Votes  map[netip.Prefix][][]byte
	Needed int
	voters map[netip.Prefix][]peer.ID // of Votes
	// Hears are the witnesses that refuse because they hear the owner; Taken those
	// that voted for another candidate in any of the steps; Failed all that gave
	// no usable answer, or were not up for long enough.
	Hears, Taken []peer.ID
	Failed       map[peer.ID]error
	// Until is when the lease has to be published at the latest.
	Until time.Time
}

func newTally(p lease.Panel, a ask) Tally {
	return Tally{
		Panel: a.Panel, Needed: p.Needed(), Votes: map[netip.Prefix][][]byte{},
		Failed: map[peer.ID]error{}, voters: map[netip.Prefix][]peer.ID{},
	}
}

// Takeover returns the evidence for subnet, if there are enough votes.
func (t Tally) Takeover(subnet netip.Prefix) (lease.Takeover, bool) {
	if len(t.Votes[subnet]) < t.Needed || t.Needed == 0 {
		return lease.Takeover{}, false
	}
	return lease.Takeover{Panel: t.Panel, Votes: t.Votes[subnet]}, true
}

// maxPolls is how many panels one Ask tries, each newer than the one before.
const maxPolls = 4

var (
	// ErrVoter is why an answer counts as Failed although it came.
	ErrVoter = errors.New("witness: cannot vote")
	// ErrAsking is returned while another Ask for the same subnet is under way.
	ErrAsking = errors.New("witness: asked for already")
)

// Ask asks the witnesses of owner, all at once, for their votes that this peer owns
// steps, at most MaxAsk of them and each subnet once. panel is owner's, sealed. It
// returns when enough votes for every step are there, or all have answered. Too
// few votes are no error: see the Tally. It fails when panel is not owner's, or
// steps are no good, and with ErrAsking.
//
// The caller reads the leases from the DHT before, and publishes before Until.
func (s *Service) Ask(ctx context.Context, owner peer.ID, panel []byte, steps []Step) (Tally, error) {
	a := ask{Panel: panel, Steps: make([]step, len(steps))}
	for i, st := range steps {
		a.Steps[i] = step(st)
	}
	if err := checkSteps(a.Steps); err != nil {
		return Tally{}, err
	}
	until := s.now().Add(VoteWindow)
	ctx, cancel := context.WithTimeout(ctx, VoteWindow)
	defer cancel()
	if err := s.begin(steps); err != nil {
		return Tally{}, err
	}
	defer s.finish(steps)
	for tries := 1; ; tries++ {
		a.Try = rand.Uint64()>>1 + 1
		p, err := lease.OpenPanel(a.Panel)
		if err == nil && p.Owner != owner {
			err = fmt.Errorf("%w: another's panel", ErrMessage)
		}
		if err != nil {
			return Tally{}, err
		}
		t, next := s.poll(ctx, p, a)
		t.Until = until
		s.giveBack(ctx, p, a, t)
		if next == nil || tries >= maxPolls {
			return t, nil
		}
		a.Panel = next
	}
}

// begin notes that steps are being asked for: two askings for one subnet at once
// could give back each other's votes.
func (s *Service) begin(steps []Step) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range steps {
		if s.asking[st.Subnet] {
			return fmt.Errorf("%w: %v", ErrAsking, st.Subnet)
		}
	}
	for _, st := range steps {
		s.asking[st.Subnet] = true
	}
	return nil
}

func (s *Service) finish(steps []Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range steps {
		delete(s.asking, st.Subnet)
	}
}

// giveBack tells those who voted for steps that did not get enough votes that they
// are free to vote for another: else split votes would bind them for VoteLife. Not
// for steps whose votes, of an earlier asking, may still be used.
func (s *Service) giveBack(ctx context.Context, p lease.Panel, a ask, t Tally) {
	now := s.now()
	voted := map[peer.ID]bool{}
	back := ask{Panel: a.Panel, Try: a.Try, Drop: true}
	s.mu.Lock()
	for subnet, until := range s.won {
		if now.After(until) {
			delete(s.won, subnet)
		}
	}
	for _, st := range a.Steps {
		if len(t.Votes[st.Subnet]) >= t.Needed {
			s.won[st.Subnet] = now.Add(VoteWindow)
			continue
		}
		if _, used := s.won[st.Subnet]; used || len(t.Votes[st.Subnet]) == 0 {
			continue
		}
		back.Steps = append(back.Steps, st)
		for _, raw := range t.Votes[st.Subnet] {
			if v, err := lease.OpenVote(raw); err == nil {
				voted[v.Voter] = true
			}
		}
	}
	s.mu.Unlock()
	if len(back.Steps) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var all sync.WaitGroup
	for _, id := range p.Members {
		if voted[id] {
			all.Go(func() { _, _ = s.question(ctx, id, back) }) // if it is lost, they are free later
		}
	}
	all.Wait()
}

// poll asks all members once. A newer panel that one of them shows is returned.
func (s *Service) poll(ctx context.Context, p lease.Panel, a ask) (t Tally, next []byte) {
	type heardOf struct {
		from peer.ID
		answer
		err error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	got := make(chan heardOf, len(p.Members))
	for _, id := range p.Members {
		go func() { // ends with ctx
			r, err := s.question(ctx, id, a)
			got <- heardOf{id, r, err}
		}()
	}
	t = newTally(p, a)
	for n := range p.Members {
		h := <-got
		if h.err == nil {
			h.err = t.count(p, s.self, h.from, a, h.answer)
		}
		if h.err != nil {
			t.Failed[h.from] = h.err
		}
		if h.Verdict == newer {
			if q, err := lease.OpenPanel(h.Panel); err == nil && q.Owner == p.Owner && q.Seq > p.Seq {
				next = h.Panel
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

// enough reports whether every step has its votes.
func (t *Tally) enough(a ask) bool {
	for _, st := range a.Steps {
		if len(t.Votes[st.Subnet]) < t.Needed {
			return false
		}
	}
	return true
}

// count adds what member from answered, after checking it.
func (t *Tally) count(p lease.Panel, self, from peer.ID, a ask, r answer) error {
	switch r.Verdict {
	case hears:
		t.Hears = append(t.Hears, from)
		return nil
	case votes:
	default:
		return fmt.Errorf("%w: verdict %d", ErrVoter, r.Verdict)
	}
	if len(r.Votes) != len(a.Steps) {
		return fmt.Errorf("%w: %d votes for %d steps", ErrMessage, len(r.Votes), len(a.Steps))
	}
	taken := false
	for i, st := range a.Steps {
		if len(r.Votes[i]) == 0 {
			taken = true
			continue
		}
		v, err := lease.OpenVote(r.Votes[i])
		if err != nil {
			return err
		}
		want := lease.Vote{Voter: from, Subnet: st.Subnet, Epoch: st.Epoch, From: p.Owner, To: self, PanelSeq: p.Seq, Issued: v.Issued}
		if v != want {
			return fmt.Errorf("%w: a vote that was not asked for", ErrMessage)
		}
		at, _ := slices.BinarySearch(t.voters[st.Subnet], from)
		t.voters[st.Subnet] = slices.Insert(t.voters[st.Subnet], at, from)
		t.Votes[st.Subnet] = slices.Insert(t.Votes[st.Subnet], at, r.Votes[i])
	}
	if taken {
		t.Taken = append(t.Taken, from)
	}
	return nil
}

// question asks one member, which may be this peer.
func (s *Service) question(ctx context.Context, id peer.ID, a ask) (answer, error) {
	if id == s.self {
		return s.onAsk(ctx, s.self, a)
	}
	r, err := s.link.call(ctx, id, request{Ask: &a})
	if err != nil {
		return answer{}, err
	}
	if r.Answer == nil {
		return answer{}, ErrMessage
	}
	return *r.Answer, nil
}
