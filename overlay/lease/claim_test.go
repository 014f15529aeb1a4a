package lease

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"peerd/internal/clock"
	"peerd/overlay/record"
	"peerd/overlay/record/recordtest"
)

// result is what one claimant was told.
type result struct {
	lease  Lease
	sealed []byte
	err    error
}

// race lets n peers claim one subnet, each after its start, and returns what
// they were told and what a newcomer finds afterwards.
func race(
	t *testing.T, dht *recordtest.DHT, starts []time.Duration,
) (told []result, after Lease) {
	told = make([]result, len(starts))
	var wg sync.WaitGroup
	for i, start := range starts {
		r := open(t, folk[i], dht.Peer())
		wg.Go(func() {
			<-time.After(start)
			l, sealed, err := r.Claim(context.Background(), subnet4)
			told[i] = result{l, sealed, err}
		})
	}
	wg.Wait()
	after, _, err := open(t, folk[7], dht.Peer()).Lookup(context.Background(), subnet4)
	if err != nil {
		t.Error(err)
	}
	return told, after
}

// outcomeOf tells what is wrong with the outcome of a race.
func outcomeOf(told []result, after Lease) error {
	winners := 0
	for i, r := range told {
		var b *BeatenError
		switch {
		case r.err == nil:
			winners++
			if r.lease.Owner != folk[i].id || after.Owner != r.lease.Owner {
				return fmt.Errorf("peer %d won with %v, the DHT says %v", i, r.lease.Owner,
					after.Owner)
			}
		case !errors.As(r.err, &b):
			return fmt.Errorf("peer %d: %w", i, r.err)
		case b.By.Owner == folk[i].id: // not necessarily after.Owner: that one may have come later
			return fmt.Errorf("peer %d was beaten by itself", i)
		}
	}
	if winners != 1 {
		return fmt.Errorf("%d peers believe they won", winners)
	}
	return nil
}

// With every message faster than a sixth of the settle time, and every
// operation reaching some majority of the replicas, exactly one of several
// claimants wins, whoever starts when.
func TestClaimRaceHasOneWinner(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		k := rapid.IntRange(1, 5).Draw(rt, "replicas")
		reach := rapid.IntRange(k/2+1, k).Draw(rt, "reach")
		seed := rapid.Uint64().Draw(rt, "seed")
		delay := rapid.IntRange(1, 250).Draw(rt, "delay ms")
		starts := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.IntRange(0, 600).Draw(t, "start ms")) * time.Millisecond
		}), 2, 4).Draw(rt, "starts")
		var err error
		synctest.Test(t, func(t *testing.T) {
			dht := recordtest.New(Validator{}, k)
			dht.Seed, dht.Reach, dht.MaxDelay = seed, reach, time.Duration(delay)*time.Millisecond
			err = outcomeOf(race(t, dht, starts))
		})
		if err != nil {
			rt.Fatal(err)
		}
	})
}

// Settling is what it takes: without it two may win.
func TestClaimWithoutSettlingCanHaveTwoWinners(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dht := recordtest.New(Validator{}, 3)
		loser, winner := alice, bob
		if Better(first(alice), first(bob)) > 0 {
			loser, winner = bob, alice
		}
		hasty := openSettling(t, loser, dht.Peer(), 0)
		slow := &gate{Values: dht.Peer(), open: make(chan struct{})}
		var wg sync.WaitGroup
		var late error
		r := open(t, winner, slow)
		wg.Go(func() { _, _, late = r.Claim(context.Background(), subnet4) })
		synctest.Wait() // has read, not written
		l, _, err := hasty.Claim(t.Context(), subnet4)
		close(slow.open)
		wg.Wait()
		if err != nil || late != nil {
			t.Fatalf("the two were told %v and %v", err, late)
		}
		// The beaten one learns of it no later than at its renewal.
		var b *BeatenError
		if _, _, err := hasty.Renew(t.Context(), l); !errors.As(err, &b) ||
			b.By.Owner != winner.id {
			t.Errorf("renewal: %v", err)
		}
	})
}

// gate holds back writes.
type gate struct {
	record.Values
	open chan struct{}
}

func (g *gate) Put(ctx context.Context, key string, val []byte) (int, int, error) {
	<-g.open
	return g.Values.Put(ctx, key, val)
}

// openApart is open for a peer that was out of touch with all others when it claimed.
func openApart(t *testing.T, p someone, values record.Values) *Registry {
	cfg := DefaultConfig()
	cfg.Self, cfg.Key, cfg.Values = p.id, p.key, values
	cfg.Judge = NewJudge(clock.Clock{}, &contacts{silent: true, apart: true})
	return openWith(t, cfg)
}

func TestPartitionHeals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		dht := recordtest.New(Validator{}, 6)
		dht.MaxDelay = 50 * time.Millisecond
		dht.Cut = func(peer, replica int) bool { return peer%2 != replica%2 }
		a, b := openApart(t, alice, dht.Peer()), openApart(t, bob, dht.Peer())
		la, _, err := a.Claim(ctx, subnet4)
		if err != nil {
			t.Fatal(err)
		}
		lb, _, err := b.Claim(ctx, subnet4)
		if err != nil {
			t.Fatalf("cut off, bob must win too: %v", err)
		}
		dht.Cut = nil
		win, wl, lose, ll := a, la, b, lb
		if Better(lb, la) > 0 {
			win, wl, lose, ll = b, lb, a, la
		}
		<-time.After(3 * time.Minute)
		var beat *BeatenError
		if _, _, err := lose.Renew(ctx, ll); !errors.As(err, &beat) || beat.By.Owner != wl.Owner {
			t.Errorf("the loser's renewal: %v", err)
		}
		if _, _, err := win.Renew(ctx, wl); err != nil {
			t.Errorf("the winner's renewal: %v", err)
		}
		for i, held := range dht.Held(Key(subnet4)) {
			if l, err := OpenLease(held); err != nil || l.Owner != wl.Owner {
				t.Errorf("replica %d holds %v's, %v", i, l.Owner, err)
			}
		}
	})
}

func TestClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		dht := recordtest.New(Validator{}, 3)
		r := open(t, alice, dht.Peer())
		begin := time.Now()
		l, sealed, err := r.Claim(ctx, subnet4)
		if err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begin); d != DefaultConfig().Settle {
			t.Errorf("settled for %v", d)
		}
		if l.Epoch != 1 || l.Owner != alice.id || l.Subnet != subnet4 ||
			l.Expires.Sub(l.Issued) != 10*time.Minute {
			t.Errorf("%+v", l)
		}
		if back, err := OpenLease(sealed); err != nil || Better(back, l) != 0 {
			t.Errorf("sealed form: %+v, %v", back, err)
		}
		if b, ok := r.Sealed(subnet4); !ok || !bytes.Equal(b, sealed) {
			t.Error("a won claim is not remembered")
		}
		// Again: a renewal, at once.
		<-time.After(time.Minute)
		begin = time.Now()
		again, _, err := r.Claim(ctx, subnet4)
		if err != nil || again.Epoch != 1 || !again.Issued.After(l.Issued) ||
			time.Since(begin) != 0 {
			t.Errorf("claimed again: %+v, %v after %v", again, err, time.Since(begin))
		}
		// After a restart too.
		<-time.After(time.Hour)
		begin = time.Now()
		l, _, err = open(t, alice, dht.Peer()).Claim(ctx, subnet4)
		if err != nil || l.Expired(time.Now()) || time.Since(begin) != DefaultConfig().Settle {
			t.Errorf("after a restart: %+v, %v after %v", l, err, time.Since(begin))
		}
		// Another is beaten, also when the lease has expired.
		<-time.After(time.Hour)
		var b *BeatenError
		if _, _, err := open(t, bob, dht.Peer()).Claim(ctx, subnet4); !errors.As(err, &b) {
			t.Fatalf("bob: %v", err)
		}
		if b.By.Owner != alice.id || !b.By.Expired(time.Now()) {
			t.Errorf("beaten by %+v", b.By)
		}
		if back, err := OpenLease(b.Sealed); err != nil || Better(back, b.By) != 0 {
			t.Errorf("sealed form of the winner: %v", err)
		}
		// Past its grace it is free.
		<-time.After(Grace)
		if l, _, err := open(t, bob, dht.Peer()).Claim(ctx, subnet4); err != nil || l.Epoch != 1 {
			t.Errorf("past grace: %+v, %v", l, err)
		}
	})
}

// While a claim settles, or after it failed half-way, no peer may take it for
// ownership; claiming again settles it.
func TestUnsettledClaimIsNotOwnership(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		dht := recordtest.New(Validator{}, 3)
		r := open(t, alice, dht.Peer())
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, _, err := r.Claim(short, subnet4); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("no time to settle: %v", err)
			}
		})
		synctest.Wait()
		if held := dht.Held(Key(subnet4)); held[0] == nil {
			t.Fatal("the claim is not written")
		}
		if _, _, err := r.Lookup(ctx, subnet4); !errors.Is(err, ErrUnowned) {
			t.Errorf("settling: %v", err)
		}
		wg.Wait()
		if _, _, err := r.Lookup(ctx, subnet4); !errors.Is(err, ErrUnowned) {
			t.Errorf("failed: %v", err)
		}
		begin := time.Now()
		if _, _, err := r.Claim(ctx, subnet4); err != nil || time.Since(begin) != r.cfg.Settle {
			t.Errorf("claimed again: %v after %v", err, time.Since(begin))
		}
		if l, _, err := r.Lookup(ctx, subnet4); err != nil || l.Owner != alice.id {
			t.Errorf("won: %+v, %v", l, err)
		}
	})
}

func TestClaimInANetworkOfOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := open(t, alice, recordtest.New(Validator{}, 0).Peer())
		if l, _, err := r.Claim(t.Context(), subnet4); err != nil || l.Owner != alice.id {
			t.Errorf("%+v, %v", l, err)
		}
	})
}

func TestClaimFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dht := recordtest.New(Validator{}, 3)
		dht.Cut = func(int, int) bool { return true }
		if _, _, err := open(t, alice, dht.Peer()).Claim(t.Context(), subnet4); !errors.Is(err,
			recordtest.ErrOffline) {
			t.Errorf("DHT away: %v", err)
		}
		if _, _, err := open(t, alice, fixed{acks: 2, rejects: 1}).Claim(t.Context(),
			subnet4); !errors.Is(err, record.ErrContested) {
			t.Errorf("one replica refuses: %v", err)
		}
		dead := errors.New("dead")
		if _, _, err := open(t, alice, fixed{err: dead}).Claim(t.Context(), subnet4); !errors.Is(
			err, dead) {
			t.Errorf("no write: %v", err)
		}
		if _, _, err := open(t, alice, fixed{}).Claim(t.Context(), Lease{}.Subnet); !errors.Is(err,
			ErrSubnet) {
			t.Errorf("no subnet: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r := open(t, alice, fixed{acks: 3})
		if _, _, err := r.Claim(ctx, subnet4); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("no time: %v", err)
		}
		if _, ok := r.Cached(subnet4); ok {
			t.Error("an unsettled claim is remembered")
		}
	})
}

// What arrives by another way while a claim settles counts as well.
func TestClaimLosesToWhatIsLearnt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := open(t, alice, fixed{acks: 3})
		next := nowLease(carol).Next(bob.id)
		next.Issued, next.Expires = nowLease(bob).Issued, nowLease(bob).Expires
		g, err := nowLease(carol).GrantTo(bob.id, time.Now(), carol.key)
		if err != nil {
			t.Fatal(err)
		}
		next.Grant = g
		sealed := seal(t, next, bob)
		var wg sync.WaitGroup
		wg.Go(func() {
			<-time.After(time.Second)
			if _, err := r.Learn(sealed); err != nil {
				t.Error(err)
			}
		})
		var b *BeatenError
		if _, _, err := r.Claim(t.Context(), subnet4); !errors.As(err, &b) || b.By.Owner != bob.id {
			t.Errorf("got %v", err)
		}
		wg.Wait()
	})
}

func TestHandover(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		dht := recordtest.New(Validator{}, 5)
		dht.MaxDelay = 30 * time.Millisecond
		a, b := open(t, alice, dht.Peer()), open(t, bob, dht.Peer())
		old, _, err := a.Claim(ctx, subnet4)
		if err != nil {
			t.Fatal(err)
		}
		g, err := old.GrantTo(bob.id, time.Now(), alice.key)
		if err != nil {
			t.Fatal(err)
		}
		l, sealed, err := b.Adopt(ctx, old, g, somewhere())
		if err != nil || l.Owner != bob.id || l.Epoch != 2 || l.Proxy == nil {
			t.Fatalf("%+v, %v", l, err)
		}
		if _, _, err := b.Adopt(ctx, old, g, nil); err != nil {
			t.Errorf("adopted again: %v", err)
		}
		var beat *BeatenError
		if _, _, err := a.Renew(ctx, old); !errors.As(err, &beat) || beat.By.Owner != bob.id {
			t.Errorf("the old owner renews: %v", err)
		}
		if got, err := a.Learn(sealed); err != nil || got.Owner != bob.id {
			t.Errorf("the old owner knows %+v, %v", got, err)
		}
		// The successor renews with a newer proxy, and the grant stays with it.
		l.Proxy = somewhere()
		l.Proxy.Samples = 99
		renewed, _, err := b.Renew(ctx, l)
		if err != nil || renewed.Proxy.Samples != 99 || !bytes.Equal(renewed.Grant, g) ||
			!renewed.Issued.After(l.Issued) {
			t.Errorf("%+v, %v", renewed, err)
		}
		// It may forget all and still keeps epoch and grant.
		if back, _, err := open(t, bob, dht.Peer()).Claim(ctx, subnet4); err != nil ||
			back.Epoch != 2 || !bytes.Equal(back.Grant, g) {
			t.Errorf("after a restart: %+v, %v", back, err)
		} else {
			renewed = back
		}
		if got, _, err := open(t, carol, dht.Peer()).Lookup(ctx, subnet4); err != nil ||
			Better(got, renewed) != 0 {
			t.Errorf("a third finds %+v, %v", got, err)
		}
	})
}

func TestAdoptRefuses(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.Self, cfg.Key, cfg.Values, cfg.Clock = bob.id, bob.key, fixed{acks: 1}, at(noon)
	r, err := NewRegistry(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		old   Lease
		grant []byte
		want  error
	}{
		"no grant":                {held(alice, 1), nil, ErrEvidence},
		"grant to another":        {held(alice, 1), grant(t, alice, carol, 2), ErrGrant},
		"grant for another epoch": {held(alice, 2), grant(t, alice, bob, 2), ErrGrant},
		"grant by another":        {held(carol, 1), grant(t, alice, bob, 2), ErrGrant},
		"no old lease":            {Lease{}, grant(t, alice, bob, 2), ErrSubnet},
	} {
		if _, _, err := r.Adopt(t.Context(), c.old, c.grant, nil); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
	bad, old := somewhere(), held(alice, 1)
	bad.Delay = -1
	if _, _, err := r.Adopt(t.Context(), old, grant(t, alice, bob, 2), bad); !errors.Is(err,
		ErrProxy) {
		t.Errorf("bad proxy: %v", err)
	}
	if _, err := r.Learn(seal(t, granted(t, bob, carol, 3), carol)); err != nil {
		t.Fatal(err)
	}
	var b *BeatenError
	if _, _, err := r.Adopt(t.Context(), old, grant(t, alice, bob, 2), nil); !errors.As(err,
		&b) || b.By.Epoch != 3 {
		t.Errorf("a later epoch is known: %v", err)
	}
}

func TestRenew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		r := open(t, alice, fixed{acks: 4, rejects: 1})
		mine := nowLease(alice)
		if _, _, err := r.Renew(ctx, nowLease(bob)); !errors.Is(err, ErrNotOwner) {
			t.Errorf("another's: %v", err)
		}
		l, _, err := r.Renew(ctx, mine)
		if err != nil {
			t.Errorf("one of five refuses and shows nothing: %v", err)
		}
		again, _, err := r.Renew(ctx, mine)
		if err != nil || !again.Issued.After(l.Issued) {
			t.Errorf("at the same instant: %v after %v, %v", again.Issued, l.Issued, err)
		}
		if _, _, err := open(t, alice, fixed{rejects: 5}).Renew(ctx, mine); !errors.Is(err,
			record.ErrContested) {
			t.Errorf("all refuse: %v", err)
		}
		dead := errors.New("dead")
		if _, _, err := open(t, alice, fixed{err: dead}).Renew(ctx, mine); !errors.Is(err, dead) {
			t.Errorf("no write: %v", err)
		}
	})
}

func TestRenewPastGraceGivesWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		dht := recordtest.New(Validator{}, 3)
		old := nowLease(carol)
		g, err := old.GrantTo(alice.id, time.Now(), carol.key)
		if err != nil {
			t.Fatal(err)
		}
		a := open(t, alice, dht.Peer())
		l, _, err := a.Adopt(ctx, old, g, nil)
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(Grace + time.Hour)
		if r, _, err := a.Renew(ctx, l); err != nil || r.Epoch != 2 {
			t.Errorf("claim in a network of one: %+v, %v", r, err)
		}
		<-time.After(Grace + time.Hour)
		if _, _, err := open(t, bob, dht.Peer()).Claim(ctx, subnet4); err != nil {
			t.Fatal(err)
		}
		var beat *BeatenError
		if _, _, err := a.Renew(ctx, l); !errors.As(err, &beat) || beat.By.Owner != bob.id {
			t.Errorf("bob has it now: %v", err)
		}
	})
}
