package lease

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"peerd/overlay/record"
	"peerd/overlay/record/recordtest"
)

// open returns p's registry over values.
func open(t testing.TB, p someone, values record.Values) *Registry {
	t.Helper()
	return openSettling(t, p, values, DefaultConfig().Settle)
}

// openSettling is open with a wait for claims to settle.
func openSettling(
	t testing.TB, p someone, values record.Values, settle time.Duration,
) *Registry {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Self, cfg.Key, cfg.Values = p.id, p.key, values
	cfg.TTL, cfg.Settle = 10*time.Minute, settle
	return openWith(t, cfg)
}

// openWith is open with a configuration.
func openWith(t testing.TB, cfg Config) *Registry {
	t.Helper()
	r, err := NewRegistry(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// nowLease returns an epoch-1 lease of p for ten minutes from now on.
func nowLease(p someone) Lease {
	l := first(p)
	l.Issued = time.Now()
	l.Expires = l.Issued.Add(10 * time.Minute)
	return l
}

func TestConfigNamesEveryFault(t *testing.T) {
	t.Parallel()
	err := Config{Config: record.Config{Settle: -1, Key: alice.key, Self: bob.id},
		TTL: 2 * MaxTTL}.Validate()
	for _, want := range []string{"Key", "Values", "TTL", "Settle", "CacheSize"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not named in: %v", want, err)
		}
	}
	if _, err := NewRegistry(DefaultConfig()); err == nil {
		t.Error("a registry without key")
	}
}

func TestLookup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		dht := recordtest.New(Validator{}, 5)
		values := dht.Peer()
		r := open(t, bob, values)

		if _, _, err := r.Lookup(ctx, netip.MustParsePrefix("10.0.0.0/8")); !errors.Is(err,
			ErrSubnet) {
			t.Errorf("a /8: %v", err)
		}
		if _, _, err := r.Lookup(ctx, subnet4); !errors.Is(err, ErrUnowned) {
			t.Errorf("lookup of an unowned subnet: %v", err)
		}
		l := nowLease(alice)
		sealed := seal(t, l, alice)
		dht.Plant(Key(subnet4), sealed)
		got, raw, err := r.Lookup(ctx, subnet4)
		if err != nil || got.Owner != alice.id || !bytes.Equal(raw, sealed) {
			t.Fatalf("got %+v, %v", got, err)
		}
		gets := func() int { _, n := values.Calls(); return n }
		if n := gets(); n != 2 {
			t.Fatalf("%d gets before", n)
		}
		if _, _, err := r.Lookup(ctx, subnet4); err != nil || gets() != 2 {
			t.Errorf("a fresh lease is not answered from memory: %d gets, %v", gets(), err)
		}
		// Expired: asked again, but not at every call; still the owner.
		<-time.After(11 * time.Minute)
		for range 3 {
			if got, _, err := r.Lookup(ctx, subnet4); err != nil || got.Owner != alice.id ||
				!got.Expired(time.Now()) {
				t.Errorf("expired: %+v, %v", got, err)
			}
		}
		if gets() != 3 {
			t.Errorf("%d gets for an expired lease, want one more than 2", gets())
		}
		// The DHT away: what is known still stands.
		dht.Cut = func(int, int) bool { return true }
		<-time.After(time.Minute)
		if got, _, err := r.Lookup(ctx, subnet4); err != nil || got.Owner != alice.id {
			t.Errorf("DHT away: %+v, %v", got, err)
		}
		r.Forget(subnet4)
		if _, _, err := r.Lookup(ctx, subnet4); !errors.Is(err, recordtest.ErrOffline) {
			t.Errorf("DHT away, forgotten: %v", err)
		}
		// Past its grace it has no owner.
		dht.Cut = nil
		<-time.After(Grace)
		if _, _, err := r.Lookup(ctx, subnet4); !errors.Is(err, ErrUnowned) {
			t.Errorf("past grace: %v", err)
		}
	})
}

func TestLookupPrefersTheBetterOfMemoryAndDHT(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dht := recordtest.New(Validator{}, 3)
		r := open(t, carol, dht.Peer())
		old := nowLease(alice)
		dht.Plant(Key(subnet4), seal(t, old, alice))
		next := old.Next(bob.id)
		next.Issued, next.Expires = old.Issued, old.Expires
		g, err := old.GrantTo(bob.id, time.Now(), alice.key)
		if err != nil {
			t.Fatal(err)
		}
		next.Grant = g
		if _, err := r.Learn(seal(t, next, bob)); err != nil {
			t.Fatal(err)
		}
		<-time.After(20 * time.Minute)
		if got, _, err := r.Lookup(t.Context(), subnet4); err != nil || got.Epoch != 2 {
			t.Errorf("got epoch %d, %v", got.Epoch, err)
		}
	})
}

func TestLookupIgnoresLies(t *testing.T) {
	t.Parallel()
	other := first(alice)
	other.Subnet = subnet6
	for name, lie := range map[string][]byte{
		"noise":           []byte("noise"),
		"another subnet":  seal(t, other, alice),
		"long expired":    seal(t, first(alice), alice),
		"of another kind": grant(t, alice, bob, 2),
	} {
		cfg := DefaultConfig()
		cfg.Self, cfg.Key, cfg.Values = bob.id, bob.key, fixed{get: lie}
		cfg.Clock = at(noon)
		if name == "long expired" {
			cfg.Clock = at(noon.Add(2 * Grace))
		}
		r, err := NewRegistry(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := r.Lookup(t.Context(), subnet4); !errors.Is(err, ErrUnowned) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// fixed is a DHT that always answers the same.
type fixed struct {
	get           []byte
	acks, rejects int
	err           error
}

func (f fixed) Put(context.Context, string, []byte) (int, int, error) {
	return f.acks, f.rejects, f.err
}
func (f fixed) Get(context.Context, string) ([]byte, error) { return f.get, nil }

func TestLearn(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.Self, cfg.Key, cfg.Values, cfg.Clock = carol.id, carol.key, fixed{}, at(noon)
	cfg.CacheSize = 2
	r, err := NewRegistry(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := r.Cached(subnet4); ok {
		t.Error("something is cached")
	}
	next := seal(t, granted(t, alice, bob, 2), bob)
	if l, err := r.Learn(next); err != nil || l.Owner != bob.id {
		t.Errorf("%+v, %v", l, err)
	}
	if l, err := r.Learn(seal(t, first(alice), alice)); err != nil || l.Owner != bob.id {
		t.Errorf("a worse lease returns %+v, %v, want the better", l, err)
	}
	if l, ok := r.Cached(subnet4); !ok || l.Owner != bob.id {
		t.Errorf("%+v, %v", l, ok)
	}
	if b, ok := r.Sealed(subnet4); !ok || !bytes.Equal(b, next) {
		t.Error("another sealed form")
	}
	early := first(alice)
	early.Issued = noon.Add(Skew + time.Second)
	early.Expires = early.Issued.Add(time.Minute)
	for name, c := range map[string]struct {
		sealed []byte
		want   error
	}{
		"noise":  {[]byte("x"), record.ErrBody},
		"future": {seal(t, early, alice), ErrFuture},
	} {
		if _, err := r.Learn(c.sealed); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, s := range []string{"198.51.100.0/24", "192.0.2.0/24"} {
		l := first(alice)
		l.Subnet = netip.MustParsePrefix(s)
		if _, err := r.Learn(seal(t, l, alice)); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok := r.Cached(subnet4); ok {
		t.Error("three leases in a memory of two")
	}
}

func TestPastGraceALowerEpochCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := open(t, carol, fixed{})
		before := held(bob, 8)
		g, err := before.GrantTo(alice.id, time.Now(), bob.key)
		if err != nil {
			t.Fatal(err)
		}
		high := before.Next(alice.id)
		high.Issued, high.Expires = nowLease(alice).Issued, nowLease(alice).Expires
		high.Grant = g
		if _, err := r.Learn(seal(t, high, alice)); err != nil {
			t.Fatal(err)
		}
		if l, err := r.Learn(seal(t, nowLease(bob), bob)); err != nil || l.Epoch != 9 {
			t.Errorf("within grace: %+v, %v", l, err)
		}
		<-time.After(Grace + time.Hour)
		if l, err := r.Learn(seal(t, nowLease(bob), bob)); err != nil || l.Owner != bob.id {
			t.Errorf("past grace: %+v, %v", l, err)
		}
	})
}
