package witness

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/lease"
)

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	err := Config{Members: 3, Interval: time.Second, Hold: time.Second}.Validate()
	for _, want := range []string{"Host", "Store", "Members", "Interval", "Promise"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate() = %v, want an error about %s", err, want)
		}
	}
}

// newSealedSet returns a witness set of testPeers[0].
func newSealedSet(t testing.TB, seq uint64, members ...testPeer) (lease.WitnessSet, []byte) {
	t.Helper()
	p := lease.WitnessSet{Owner: testPeers[0].id, Seq: seq, Members: ids(sorted(members)),
		Issued: time.Now()}
	b, err := lease.SealWitnessSet(p, testPeers[0].key)
	if err != nil {
		t.Fatal(err)
	}
	p, err = lease.OpenWitnessSet(b)
	if err != nil {
		t.Fatal(err)
	}
	return p, b
}

// A witness refuses to vote for each of its reasons.
func TestVoteRefused(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	boot := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	p2, s2 := newSealedSet(t, 2, testPeers[1:5]...)
	p1, s1 := newSealedSet(t, 1, testPeers[1:5]...)
	twin, st := newSealedSet(t, 2, testPeers[1], testPeers[2])
	other, so := newSealedSet(t, 3, testPeers[2:6]...)
	one := []proposal{{Subnet: subnet, Epoch: 2}}
	up := boot.Add(cfg.Promise)
	for name, c := range map[string]struct {
		fresh bool
		beat  []byte // witness set of a heartbeat at the start
		at    time.Time
		to    testPeer
		p     lease.WitnessSet
		s     []byte
		want  voteStatus
	}{
		"votes": {false, s2, up, testPeers[6], p2, s2, statusVoted},
		"not up for long enough": {false, nil, up.Add(-1), testPeers[6], p2, s2,
			statusTooEarly},
		"lost its disk": {true, nil, boot.Add(ReviveAfter - 1), testPeers[6], p2, s2,
			statusTooEarly},
		"lost its disk, long ago": {true, s2, boot.Add(ReviveAfter), testPeers[6], p2, s2,
			statusVoted},
		"hears the owner":            {false, s2, up.Add(-1), testPeers[6], p2, s2, statusTooEarly},
		"heard the owner once":       {false, s2, up, testPeers[6], p2, s2, statusVoted},
		"knows a newer set":          {false, s2, up, testPeers[6], p1, s1, statusNewerSet},
		"knows another of equal age": {false, s2, up, testPeers[6], twin, st, statusNotMember},
		"is no member":               {false, nil, up, testPeers[6], other, so, statusNotMember},
		"the owner asks":             {false, nil, up, testPeers[0], p2, s2, statusNotMember},
		"never heard of the owner":   {false, nil, up, testPeers[6], p2, s2, statusNotMember},
		"is the candidate":           {false, s2, up, testPeers[1], p2, s2, statusVoted},
	} {
		g := newWitnessState(testPeers[1].id, cfg, boot, 7, c.fresh)
		if c.beat != nil {
			if _, err := g.onHeartbeat(boot, testPeers[0].id, netip.Prefix{},
				heartbeat{Set: c.beat}); err != nil {
				t.Fatal(err)
			}
		}
		v, _, known := g.vote(c.at, c.to.id, c.p, c.s, one, 1)
		if v != c.want || (v == statusNewerSet) != bytes.Equal(known, s2) {
			t.Errorf("%s: vote() = status %d with set %x, want status %d", name, v, known, c.want)
		}
	}
	g := newWitnessState(testPeers[0].id, cfg, boot, 7, false)
	if v, _, _ := g.vote(up, testPeers[6].id, p2, s2, one, 1); v != statusHeardOwner {
		t.Errorf("vote() = status %d at the owner itself, want %d", v, statusHeardOwner)
	}
	g = newWitnessState(testPeers[1].id, cfg, boot, 7, false)
	if _, err := g.onHeartbeat(boot, testPeers[6].id, netip.Prefix{},
		heartbeat{Set: s2}); !errors.Is(err,
		ErrMessage) {
		t.Errorf("onHeartbeat() = %v for a set of another owner, want ErrMessage", err)
	}
}

// A candidate that the witness has not known for long gets no vote before others had time to ask.
func TestStrangerAsksLast(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	stranger, old := testPeers[5].id, testPeers[6].id
	cfg.Node = &fakeNode{origin: func(id peer.ID) Origin { return Origin{Old: id == old} }}
	boot := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	p, sealed := newSealedSet(t, 1, testPeers[1:5]...)
	one := []proposal{{Subnet: subnet, Epoch: 2}}
	heard := boot.Add(time.Hour)
	for name, c := range map[string]struct {
		silent time.Duration
		to     peer.ID
		want   voteStatus
	}{
		"stranger, at once":        {cfg.Promise, stranger, statusStranger},
		"stranger, too early":      {cfg.Promise + StrangerAfter - 1, stranger, statusStranger},
		"stranger, after a minute": {cfg.Promise + StrangerAfter, stranger, statusVoted},
		"old, at once":             {cfg.Promise, old, statusVoted},
		"the witness itself":       {cfg.Promise, testPeers[1].id, statusVoted},
		"stranger, owner is heard": {cfg.Promise - 1, stranger, statusHeardOwner},
	} {
		g := newWitnessState(testPeers[1].id, cfg, boot, 7, false)
		if _, err := g.onHeartbeat(heard, testPeers[0].id, netip.Prefix{},
			heartbeat{Set: sealed}); err != nil {
			t.Fatal(err)
		}
		if v, _, _ := g.vote(heard.Add(c.silent), c.to, p, sealed, one, 1); v != c.want {
			t.Errorf("%s: vote() = status %d, want %d", name, v, c.want)
		}
	}
}

// There is one vote for a subnet as long as its candidate may use it.
func TestOneVotePerSubnet(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	boot := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	p, sealed := newSealedSet(t, 1, testPeers[1:5]...)
	g := newWitnessState(testPeers[1].id, cfg, boot, 7, false)
	if _, err := g.onHeartbeat(boot, testPeers[0].id, netip.Prefix{},
		heartbeat{Set: sealed}); err != nil {
		t.Fatal(err)
	}
	up := boot.Add(cfg.Promise)
	gets := func(at time.Time, to testPeer, epoch uint64) bool {
		v, yes, _ := g.vote(at, to.id, p, sealed, []proposal{{Subnet: subnet, Epoch: epoch}}, 1)
		return v == statusVoted && yes[0]
	}
	for i, c := range []struct {
		at    time.Duration
		to    testPeer
		epoch uint64
		want  bool
	}{
		{0, testPeers[2], 2, true}, {0, testPeers[2], 2, true}, {0, testPeers[3], 2, false},
		{0, testPeers[3], 3, false},
		{VoteLife - 1, testPeers[3], 2, false}, {VoteLife, testPeers[3], 2, true},
		{VoteLife, testPeers[2], 2, false},
	} {
		if gets(up.Add(c.at), c.to, c.epoch) != c.want {
			t.Errorf("request %d, after %v, epoch %d: vote granted = %v, want %v",
				i, c.at, c.epoch, !c.want, c.want)
		}
	}
	for _, d := range []struct {
		to  testPeer
		try uint64
		// of another candidate, of another attempt, of none
	}{{testPeers[2], 1}, {testPeers[3], 2}, {testPeers[3], 0}} {
		if gone := g.release(d.to.id, testPeers[0].id, []proposal{{Subnet: subnet, Epoch: 2}},
			d.try); len(gone) != 0 {
			t.Errorf("release(%v, attempt %d) = %v, want none", d.to.id, d.try, gone)
		}
	}
	expire := func(after time.Duration) map[peer.ID][]netip.Prefix {
		gone, _ := g.expire(up.Add(after))
		return gone
	}
	if len(expire(2*VoteLife-1)) != 0 || len(expire(2*VoteLife)) != 0 {
		t.Error("expire() deleted a vote that is not acknowledged")
	}
	g.watched[testPeers[0].id].acknowledged = g.lastNum
	if gone := expire(2 * VoteLife); len(gone[testPeers[0].id]) != 1 || g.voteCount != 0 {
		t.Errorf("expire() = %v with %d left after the owner acknowledged, want the vote deleted",
			gone, g.voteCount)
	}
	if !gets(up.Add(3*VoteLife), testPeers[4], 2) {
		t.Error("vote() refused although the earlier vote is deleted")
	}
	if gone := expire(3*VoteLife + NoticeLife + 1); len(gone) != 1 {
		t.Error("expire() kept a vote longer than NoticeLife")
	}
}

// A request that arrives after a later one of the same candidate, and its release, do not end the
// vote that the candidate uses.
func TestLateRequestKeepsVote(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	boot := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	p, sealed := newSealedSet(t, 1, testPeers[1:5]...)
	g := newWitnessState(testPeers[1].id, cfg, boot, 7, false)
	if _, err := g.onHeartbeat(boot, testPeers[0].id, netip.Prefix{},
		heartbeat{Set: sealed}); err != nil {
		t.Fatal(err)
	}
	up, one := boot.Add(cfg.Promise), []proposal{{Subnet: subnet, Epoch: 2}}
	for _, c := range []struct {
		attempt uint64
		want    bool
	}{{5, true}, {4, false}, {5, true}} {
		_, yes, _ := g.vote(up, testPeers[2].id, p, sealed, one, c.attempt)
		if yes[0] != c.want {
			t.Errorf("attempt %d: vote granted = %v, want %v", c.attempt, yes[0], c.want)
		}
	}
	if gone := g.release(testPeers[2].id, testPeers[0].id, one, 4); len(gone) != 0 {
		t.Errorf("release of an earlier attempt deleted the vote for %v", gone)
	}
	if _, yes, _ := g.vote(up, testPeers[3].id, p, sealed, one, 9); yes[0] {
		t.Error("another candidate has a vote as well")
	}
}

// Two candidates with two votes each release them, so that the next candidate wins.
func TestSplitVotesReleased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, all := startPeers(t, 8)
		defer f.end()
		time.Sleep(30 * time.Second)
		set := all[0].service().WitnessSet()
		p, _ := lease.OpenWitnessSet(set)
		all[0].kill()
		time.Sleep(all[0].cfg.Promise + time.Second)
		var by []*node
		for _, n := range all[1:] {
			if !p.Has(n.id) {
				by = append(by, n)
			}
		}
		for i, m := range p.Members { // each reaches two members
			f.cut[[2]peer.ID{by[i%2].id, m}] = true
		}
		for _, n := range by[:2] {
			if tally := requestVotes(t, n, all[0].id, set); len(tally.Votes[subnet]) != 2 {
				t.Errorf("%d votes, want 2", len(tally.Votes[subnet]))
			}
		}
		if tally := requestVotes(t, by[2], all[0].id, set); len(tally.Votes[subnet]) < 3 {
			t.Errorf("the third candidate got %d votes, want 3 or more", len(tally.Votes[subnet]))
		}
		if tally := requestVotes(t, by[0], all[0].id, set); len(tally.Votes[subnet]) != 0 {
			t.Error("a vote in use was given to another candidate")
		}
	})
}

// Strangers cannot fill a witness: what it remembers is bounded by owner and by prefix, ends, and
// needs owners that have sent heartbeats.
func TestWitnessIsNotFilled(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	boot := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	_, sealed := newSealedSet(t, 1, testPeers[1:5]...)
	g := newWitnessState(testPeers[1].id, cfg, boot, 7, false)
	home := netip.MustParsePrefix("203.0.113.0/24")
	accepted := 0
	for i := range 2 * maxWatchedOfPrefix {
		_, err := g.onHeartbeat(boot, peer.ID(fmt.Sprint("sybil ", i)), home, heartbeat{})
		if err == nil {
			accepted++
		}
	}
	if accepted != maxWatchedOfPrefix {
		t.Errorf("%d owners of one prefix, want %d", accepted, maxWatchedOfPrefix)
	}
	again := newWitnessState(testPeers[1].id, cfg, boot, 8, false) // it has read the owners
	for owner := range g.watched {
		again.watched[owner] = &watchedPeer{votes: map[netip.Prefix]*voteRecord{}, since: boot}
		if _, err := again.onHeartbeat(boot, owner, home, heartbeat{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := again.onHeartbeat(boot, "another sybil", home, heartbeat{}); err == nil {
		t.Errorf("after a restart there are more than %d owners of one prefix", accepted)
	}
	if _, err := g.onHeartbeat(boot, testPeers[0].id, netip.MustParsePrefix("198.51.100.0/24"),
		heartbeat{Set: sealed}); err != nil {
		t.Errorf("an owner of another prefix: %v", err)
	}
	many := make([]proposal, MaxProposals)
	votes := 0
	p, err := lease.OpenWitnessSet(sealed)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < 2*maxVotesOfOwner; i += len(many) {
		for k := range many {
			n := i + k
			many[k] = proposal{Epoch: 2, Subnet: netip.PrefixFrom(netip.AddrFrom4(
				[4]byte{10 + byte(n>>16), byte(n >> 8), byte(n), 0}), 24)}
		}
		v, _, _ := g.vote(boot.Add(time.Hour), testPeers[6].id, p, sealed, many, 1)
		if v == statusVoted {
			votes += len(many)
		}
	}
	if votes != maxVotesOfOwner {
		t.Errorf("%d votes against one owner, want %d", votes, maxVotesOfOwner)
	}
	g.expire(boot.Add(VoteLife + 1))
	if n := len(g.watched); n != 1 {
		t.Errorf("%d owners after VoteLife, want the one with a witness set", n)
	}
	g.expire(boot.Add(time.Hour + NoticeLife + 1)) // the votes
	if _, gone := g.expire(boot.Add(time.Hour + NoticeLife + 2)); len(g.watched) != 0 {
		t.Errorf("%d owners left, %v forgotten", len(g.watched), gone)
	}
}
