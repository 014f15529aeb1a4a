package lease

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"pgregory.net/rapid"

	"peerd/internal/clock"
	"peerd/overlay/record"
	"peerd/overlay/record/recordtest"
)

func TestWitnessSetQuorums(t *testing.T) {
	t.Parallel()
	for members, want := range map[int][2]int{0: {1, 0}, 1: {1, 0}, 2: {2, 1}, 3: {3, 1},
		4: {3, 2}} {
		p := WitnessSet{Owner: alice.id, Seq: 1, Members: ids(folk[1 : 1+members]), Issued: noon}
		if got := [2]int{p.TakeoverQuorum(), p.HoldQuorum()}; got != want {
			t.Errorf("%d members: %v, want %v", members, got, want)
		}
	}
}

func TestWitnessSetAndVoteRefuse(t *testing.T) {
	t.Parallel()
	forged := func(k record.Kind, body any) []byte {
		b, err := k.Seal(body, alice.key)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	asSet := func(seq uint64, issued int64, members ...peer.ID) error {
		_, err := OpenWitnessSet(forged(witnessSetKind.Kind, witnessSetBody{seq, members, issued,
			""}))
		return err
	}
	two := ids(folk[1:3])
	ms := noon.UnixMilli()
	asVote := func(edit func(*voteBody)) error {
		b := voteBody{subnet4, 2, bob.id, carol.id, 7, make([]byte, 32), ms}
		edit(&b)
		_, err := OpenVote(forged(voteKind.Kind, b))
		return err
	}
	for name, c := range map[string]struct{ got, want error }{
		"good witness set": {asSet(1, ms, two...), nil},
		"no members":       {asSet(1, ms), nil},
		"number 0":         {asSet(0, ms, two...), ErrWitnessSet},
		"number too high":  {asSet(MaxEpoch+1, ms, two...), ErrWitnessSet},
		"five members":     {asSet(1, ms, ids(folk[1:6])...), ErrWitnessSet},
		"itself":           {asSet(1, ms, alice.id), ErrWitnessSet},
		"out of order":     {asSet(1, ms, two[1], two[0]), ErrWitnessSet},
		"twice":            {asSet(1, ms, two[0], two[0]), ErrWitnessSet},
		"issued never":     {asSet(1, 0, two...), ErrTimes},
		"good vote":        {asVote(func(*voteBody) {}), nil},
		"of a /8": {asVote(func(b *voteBody) {
			b.Subnet = subnet6
			b.Epoch = 0
		}), ErrEpoch},
		"for a claim":       {asVote(func(b *voteBody) { b.Epoch = 1 }), ErrEpoch},
		"from itself":       {asVote(func(b *voteBody) { b.From = alice.id }), ErrVote},
		"from and to same":  {asVote(func(b *voteBody) { b.To = b.From }), ErrVote},
		"of no witness set": {asVote(func(b *voteBody) { b.SetSeq = 0 }), ErrVote},
		"issued never too":  {asVote(func(b *voteBody) { b.Issued = 0 }), ErrTimes},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("%s: got %v, want %v", name, c.got, c.want)
		}
	}
	if _, err := OpenWitnessSet(votes(t, sealedVote(), carol)[0]); !errors.Is(err,
		record.ErrEnvelope) {
		t.Errorf("a vote as a set: %v", err)
	}
	if _, err := SealVote(Vote{Voter: carol.id, Subnet: subnet4, Epoch: 2, From: alice.id,
		To: bob.id, SetSeq: 1, Issued: noon}, bob.key); !errors.Is(err, ErrSigner) {
		t.Errorf("a vote with another's key: %v", err)
	}
}

func TestTakeoverNeedsItsVotes(t *testing.T) {
	t.Parallel()
	with := func(edit func(l *Lease)) []byte {
		l := taken(t)
		edit(&l)
		return forge(t, bodyOf(l), bob)
	}
	voted := func(edit func(*Vote), voters ...someone) []byte {
		return with(func(l *Lease) {
			b := sealedVote()
			edit(&b)
			l.Takeover.Votes = votes(t, b, voters...)
		})
	}
	same := func(*Vote) {}
	three := []someone{folk[2], folk[3], folk[4]}
	for name, c := range map[string]struct {
		sealed []byte
		want   error
	}{
		"good":       {with(func(*Lease) {}), nil},
		"two votes":  {voted(same, three[:2]...), ErrTakeover},
		"four votes": {voted(same, folk[2:6]...), ErrTakeover},
		"no votes":   {with(func(l *Lease) { l.Takeover.Votes = nil }), ErrTakeover},
		"one twice": {with(func(l *Lease) {
			l.Takeover.Votes[1] = l.Takeover.Votes[0]
		}), ErrTakeover},
		"out of order": {with(func(l *Lease) {
			slices.Reverse(l.Takeover.Votes)
		}), ErrTakeover},
		"a stranger's":       {voted(same, folk[2], folk[3], folk[6]), ErrTakeover},
		"for another subnet": {voted(func(v *Vote) { v.Subnet = subnet6 }, three...), ErrTakeover},
		"for another epoch":  {voted(func(v *Vote) { v.Epoch = 3 }, three...), ErrTakeover},
		"for another":        {voted(func(v *Vote) { v.To = folk[6].id }, three...), ErrTakeover},
		"from another": {voted(func(v *Vote) {
			v.From = folk[6].id
		}, three...), ErrTakeover},
		"under another witness set": {voted(func(v *Vote) { v.SetSeq = 8 }, three...), ErrTakeover},
		"long after": {voted(func(v *Vote) {
			v.Issued = noon.Add(time.Hour)
		}, three...), ErrTakeover},
		"noise for a vote": {with(func(l *Lease) {
			l.Takeover.Votes[2] = []byte{1}
		}), ErrTakeover},
		"noise for a witness set": {with(func(l *Lease) {
			l.Takeover.WitnessSet = []byte{1}
		}), ErrTakeover},
		"no witness set": {with(func(l *Lease) { l.Takeover.WitnessSet = nil }), ErrTakeover},
		"its own witness set": {with(func(l *Lease) {
			l.Takeover.WitnessSet = witnessSet(t, bob, 7, folk[2], folk[3], folk[4], folk[5])
		}),
			ErrTakeover},
		"witness set of one": {with(func(l *Lease) {
			l.Takeover.WitnessSet, l.Takeover.Votes = witnessSet(t, alice, 7), nil
		}), ErrTakeover},
		"both kinds": {with(func(l *Lease) {
			l.Takeover.Last = inherited(t).Takeover.Last
		}), ErrTakeover},
		"at epoch 3":    {with(func(l *Lease) { l.Epoch = 3 }), ErrChain},
		"and a time":    {with(func(l *Lease) { l.Takeover.At = noon }), ErrTakeover},
		"by the winner": {with(func(l *Lease) { l.Owner = carol.id }), ErrSigner},
	} {
		if _, err := OpenLease(c.sealed); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

func TestSlowTakeoverNeedsSilence(t *testing.T) {
	t.Parallel()
	with := func(edit func(l *Lease)) []byte {
		l := inherited(t)
		edit(&l)
		return forge(t, bodyOf(l), bob)
	}
	last := func(edit func(*Lease), by someone) []byte {
		old := first(by)
		old.Issued = noon.Add(-LongSilence)
		edit(&old)
		return with(func(l *Lease) {
			s, err := split(forge(t, bodyOf(old), by))
			if err != nil {
				t.Fatal(err)
			}
			l.Takeover.Last = s.Envelope
		})
	}
	for name, c := range map[string]struct {
		sealed []byte
		want   error
	}{
		"good": {with(func(*Lease) {}), nil},
		"renewed": {with(func(l *Lease) {
			l.Issued, l.Expires = noon.Add(MaxTTL), noon.Add(2*MaxTTL)
		}), nil},
		"too soon": {last(func(o *Lease) {
			o.Issued = noon.Add(time.Minute - LongSilence)
		}, alice), ErrTakeover},
		"its own":        {last(func(*Lease) {}, bob), ErrTakeover},
		"another subnet": {last(func(o *Lease) { o.Subnet = subnet6 }, alice), ErrTakeover},
		"not the last":   {with(func(l *Lease) { l.Epoch = 3 }), ErrChain},
		"after the lease": {with(func(l *Lease) {
			l.Takeover.At = noon.Add(time.Hour)
		}), ErrTakeover},
		"noise":   {with(func(l *Lease) { l.Takeover.Last = []byte{1} }), ErrTakeover},
		"no time": {with(func(l *Lease) { l.Takeover.At = time.Time{} }), ErrTimes},
	} {
		if _, err := OpenLease(c.sealed); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

// evidences draws sealed leases of every kind, many of one epoch.
func evidences(t testing.TB) (all [][]byte) {
	for _, p := range folk[:3] {
		all = append(all, seal(t, first(p), p))
	}
	add := func(l Lease, by someone) {
		for _, later := range []time.Duration{0, time.Second} {
			l.Issued = noon.Add(later)
			all = append(all, seal(t, l, by))
		}
	}
	other := taken(t)
	other.Takeover = &Takeover{WitnessSet: other.Takeover.WitnessSet,
		Votes: votes(t, sealedVote(), folk[2], folk[3], folk[5])}
	add(taken(t), bob)
	add(other, bob)
	add(inherited(t), bob)
	add(granted(t, alice, bob, 2), bob)
	add(granted(t, alice, carol, 2), carol)
	add(granted(t, bob, carol, 3), carol)
	return all
}

func TestSelectJoinsEveryEvidence(t *testing.T) {
	t.Parallel()
	all := evidences(t)
	v := Validator{Clock: at(noon)}
	join := func(a, b []byte) []byte {
		i, err := v.Select("", [][]byte{a, b})
		if err != nil {
			t.Fatal(err)
		}
		return [][]byte{a, b}[i]
	}
	one := rapid.SampledFrom(all)
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := one.Draw(t, "a"), one.Draw(t, "b"), one.Draw(t, "c")
		if !slices.Equal(join(a, a), a) || !slices.Equal(join(a, b), join(b, a)) ||
			!slices.Equal(join(a, join(b, c)), join(join(a, b), c)) {
			t.Fatal("not a join")
		}
		x, _ := OpenLease(a)
		y, _ := OpenLease(b)
		if (Better(x, y) == 0) != reflect.DeepEqual(x, y) {
			t.Fatalf("%+v and %+v compare as %d", x, y, Better(x, y))
		}
	})
}

// What cannot prove its epoch never replaces what is known.
func TestLearnNeedsEvidence(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.Self, cfg.Key, cfg.Values, cfg.Clock = carol.id, carol.key, fixed{}, at(noon)
	r, err := NewRegistry(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Learn(seal(t, first(alice), alice)); err != nil {
		t.Fatal(err)
	}
	bare := first(bob)
	bare.Epoch = 2
	short := taken(t)
	short.Takeover = &Takeover{WitnessSet: short.Takeover.WitnessSet,
		Votes: short.Takeover.Votes[:2]}
	for name, l := range map[string]Lease{"nothing": bare, "two votes": short} {
		if _, err := r.Learn(forge(t, bodyOf(l), bob)); err == nil {
			t.Errorf("%s is enough", name)
		}
		if l, _ := r.Cached(subnet4); l.Owner != alice.id {
			t.Fatalf("%s: %v is believed", name, l.Owner)
		}
	}
	if l, err := r.Learn(seal(t, taken(t), bob)); err != nil || l.Owner != bob.id {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestTakeOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		dht := recordtest.New(Validator{}, 5)
		a, b, c := open(t, alice, dht.Peer()), open(t, bob, dht.Peer()), open(t, carol, dht.Peer())
		old, _, err := a.Claim(ctx, subnet4)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.Lookup(ctx, subnet4); err != nil {
			t.Fatal(err)
		}
		now := sealedVote()
		now.Issued, now.Ended = time.Now(), old.Digest()
		e := Takeover{WitnessSet: witnessSet(t, alice, 7, folk[2:6]...),
			Votes: votes(t, now, folk[2:6]...)}
		slices.Reverse(e.Votes) // in any order, and one more than needed
		begin := time.Now()
		l, sealed, err := b.TakeOver(ctx, old, e, somewhere())
		if err != nil || l.Owner != bob.id || l.Epoch != 2 || time.Since(begin) != 0 {
			t.Fatalf("%+v, %v after %v", l, err, time.Since(begin))
		}
		t.Logf("taken over by three votes: %d bytes", len(sealed))
		if _, _, err := b.TakeOver(ctx, old, e, nil); err != nil {
			t.Errorf("again: %v", err)
		}
		var beat *BeatenError
		if _, _, err := a.Renew(ctx, old); !errors.As(err, &beat) || beat.By.Owner != bob.id {
			t.Errorf("the old owner renews: %v", err)
		}
		// What is cached is used; Refresh sees the change.
		if l, _, err := c.Lookup(ctx, subnet4); err != nil || l.Owner != alice.id {
			t.Errorf("%v, %v", l.Owner, err)
		}
		if l, _, err := c.Refresh(ctx, subnet4); err != nil || l.Owner != bob.id {
			t.Errorf("refreshed: %v, %v", l.Owner, err)
		}
		now.To = folk[6].id
		late := Takeover{WitnessSet: e.WitnessSet, Votes: votes(t, now, folk[2:6]...)}
		if _, _, err := open(t, folk[6], dht.Peer()).TakeOver(ctx, old, late,
			nil); !errors.As(err, &beat) || beat.By.Owner != bob.id {
			t.Errorf("a second, whoever wins the tie: %v", err)
		}
		if l, _, err := b.Renew(ctx, l); err != nil || l.Takeover == nil {
			t.Errorf("renewal keeps the evidence: %+v, %v", l, err)
		}
	})
}

func TestTakeOverRefuses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, old := open(t, bob, fixed{acks: 3}), first(alice)
		if _, _, err := b.TakeOver(t.Context(), old, Takeover{}, nil); !errors.Is(err,
			ErrTakeover) {
			t.Errorf("no evidence: %v", err)
		}
		now := sealedVote()
		now.Issued = time.Now()
		e := Takeover{WitnessSet: witnessSet(t, alice, 7, folk[2:6]...),
			Votes: votes(t, now, folk[2:5]...)}
		if _, _, err := b.TakeOver(t.Context(), held(alice, 2), e, nil); !errors.Is(err,
			ErrTakeover) {
			t.Errorf("votes for another epoch: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := b.TakeOver(ctx, old, e, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("too late: %v", err)
		}
		if _, _, err := b.Lookup(t.Context(), subnet4); !errors.Is(err, ErrUnowned) {
			t.Errorf("what came too late is believed: %v", err)
		}
		dead := errors.New("dead")
		if _, _, err := open(t, bob, blind{dead}).TakeOver(t.Context(), old, e,
			nil); !errors.Is(err, dead) {
			t.Errorf("blind: %v", err)
		}
	})
}

// blind is a DHT that cannot be read.
type blind struct{ err error }

func (b blind) Put(context.Context, string, []byte) (int, int, error) { return 0, 0, nil }
func (b blind) Get(context.Context, string) ([]byte, error)           { return nil, b.err }

func TestSlowTakeOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		seen := &contacts{}
		j := NewJudge(clock.Clock{}, seen)
		dht := recordtest.New(Validator{Judge: j}, 5)
		cfg := DefaultConfig()
		cfg.Self, cfg.Key, cfg.Values = alice.id, alice.key, dht.Peer()
		a, b := openWith(t, cfg), open(t, bob, dht.Peer())
		old, last, err := a.Claim(ctx, subnet4)
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(LongSilence / 2)
		if _, _, err := b.TakeOver(ctx, old, Takeover{Last: last}, nil); !errors.Is(err,
			ErrTakeover) {
			t.Errorf("after half the silence: %v", err)
		}
		<-time.After(LongSilence)
		if _, _, err := b.TakeOver(ctx, old, Takeover{Last: last}, nil); err == nil {
			t.Error("replicas hear the owner")
		}
		seen.silent = true
		begin := time.Now()
		l, _, err := b.TakeOver(ctx, old, Takeover{Last: last}, nil)
		if err != nil || l.Owner != bob.id || time.Since(begin) != b.cfg.Settle {
			t.Errorf("%+v, %v after %v", l, err, time.Since(begin))
		}
		seen.silent = false // alice is back: no reason to refuse renewals
		<-time.After(70 * time.Minute)
		if _, _, err := b.Renew(ctx, l); err != nil {
			t.Error(err)
		}
	})
}
