package home

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"peerd/overlay/record"
	"peerd/overlay/record/recordtest"
)

func open(t testing.TB, p someone, values record.Values) *Registry {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Self, cfg.Key, cfg.Values = p.id, p.key, values
	r, err := NewRegistry(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestConfigNamesEveryFault(t *testing.T) {
	err := Config{Settle: -1, Key: alice.key, Self: bob.id}.Validate()
	for _, want := range []string{"Key", "Values", "Settle", "CacheSize"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not named in: %v", want, err)
		}
	}
	if _, err := NewRegistry(DefaultConfig()); err == nil {
		t.Error("a registry without key")
	}
}

func TestSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		dht := recordtest.New(Validator{}, 5)
		values := dht.Peer()
		r := open(t, alice, values)
		begin := time.Now()
		if p, err := r.Settle(ctx, host, here); err != nil || p != here {
			t.Fatalf("got %v, %v", p, err)
		}
		if d := time.Since(begin); d != DefaultConfig().Settle {
			t.Errorf("took %v", d)
		}
		// Known now: no wait, no call, whatever is proposed.
		puts, gets := values.Calls()
		if p, err := r.Settle(ctx, host, there); err != nil || p != here {
			t.Errorf("again: %v, %v", p, err)
		}
		if p, g := values.Calls(); p != puts || g != gets {
			t.Error("the DHT was asked again")
		}
		// Another peer with another answer of DNS follows: after a wait, for the
		// record might still lose; at once when it is older.
		begin = time.Now()
		if p, err := open(t, folk[2], dht.Peer()).Settle(ctx, host, there); err != nil ||
			p != here || time.Since(begin) != DefaultConfig().Settle {
			t.Errorf("a fresh home: %v, %v after %v", p, err, time.Since(begin))
		}
		<-time.After(time.Minute)
		begin = time.Now()
		other := open(t, bob, dht.Peer())
		if p, err := other.Settle(ctx, host, there); err != nil || p != here ||
			time.Since(begin) != 0 {
			t.Errorf("bob: %v, %v after %v", p, err, time.Since(begin))
		}
		if p, ok := other.Cached(host); !ok || p != here {
			t.Errorf("bob remembers %v, %v", p, ok)
		}
		a, _ := r.Sealed(host)
		if b, ok := other.Sealed(host); !ok || !bytes.Equal(a, b) {
			t.Error("another record")
		}
	})
}

// A write that reached no replica stays in this peer's own copy: it must not count
// as settled.
func TestSettleAgainAfterFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dht := recordtest.New(Validator{}, 3)
		values := dht.Peer()
		r := open(t, alice, values)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.Settle(short, host, here); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("no time to settle: %v", err)
		}
		if _, ok := r.Cached(host); ok {
			t.Error("remembered")
		}
		dht.Plant(Key(host), nil) // no other peer has it
		<-time.After(time.Hour)
		if p, err := r.Settle(t.Context(), host, there); err != nil || p != here {
			t.Errorf("again: %v, %v", p, err)
		}
		for i, held := range dht.Held(Key(host)) {
			if held == nil {
				t.Errorf("replica %d has nothing", i)
			}
		}
	})
}

func TestSettleLiteral(t *testing.T) {
	r := open(t, alice, recordtest.New(Validator{}, 0).Peer())
	for h, want := range map[string]netip.Prefix{"203.0.113.77": here, "2001:db8:7::1": there} {
		if p, err := r.Settle(t.Context(), h, netip.Prefix{}); err != nil || p != want {
			t.Errorf("%s: %v, %v", h, p, err)
		}
		if _, ok := r.Sealed(h); ok {
			t.Errorf("%s has a record", h)
		}
	}
}

// With every message faster than a sixth of the settle time all agree, whoever
// proposes what and when.
func TestSettleRaceAgrees(t *testing.T) {
	subnets := []netip.Prefix{here, there, netip.MustParsePrefix("192.0.2.0/24")}
	rapid.Check(t, func(rt *rapid.T) {
		k := rapid.IntRange(1, 5).Draw(rt, "replicas")
		reach := rapid.IntRange(k/2+1, k).Draw(rt, "reach")
		seed := rapid.Uint64().Draw(rt, "seed")
		delay := time.Duration(rapid.IntRange(1, 250).Draw(rt, "delay ms")) * time.Millisecond
		starts := rapid.SliceOfN(rapid.IntRange(0, 600), 2, 4).Draw(rt, "start ms")
		var err error
		synctest.Test(t, func(t *testing.T) {
			dht := recordtest.New(Validator{}, k)
			dht.Seed, dht.Reach, dht.MaxDelay = seed, reach, delay
			err = settleRace(t, dht, starts, subnets)
		})
		if err != nil {
			rt.Fatal(err)
		}
	})
}

// settleRace lets some peers settle one host, and afterwards asks a newcomer.
func settleRace(t *testing.T, dht *recordtest.DHT, starts []int, subnets []netip.Prefix) error {
	got := make([]netip.Prefix, len(starts))
	var wg sync.WaitGroup
	for i, start := range starts {
		r := open(t, folk[i], dht.Peer())
		wg.Go(func() {
			<-time.After(time.Duration(start) * time.Millisecond)
			p, err := r.Settle(context.Background(), host, subnets[i%len(subnets)])
			if err != nil {
				t.Error(err)
			}
			got[i] = p
		})
	}
	wg.Wait()
	want, err := open(t, folk[7], dht.Peer()).Settle(context.Background(), host, subnets[0])
	if err != nil {
		return err
	}
	for i, p := range got {
		if p != want {
			return fmt.Errorf("peer %d settled on %v, the DHT says %v", i, p, want)
		}
	}
	return nil
}

func TestSettleFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dht := recordtest.New(Validator{}, 3)
		dht.Cut = func(int, int) bool { return true }
		r := open(t, alice, dht.Peer())
		for name, c := range map[string]struct {
			host   string
			subnet netip.Prefix
			want   error
		}{
			"host":     {"a b", here, ErrHost},
			"DHT away": {host, here, recordtest.ErrOffline},
		} {
			if _, err := r.Settle(t.Context(), c.host, c.subnet); !errors.Is(err, c.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
		dht.Cut = nil
		if _, err := r.Settle(t.Context(), host, netip.MustParsePrefix("10.0.0.0/8")); !errors.Is(
			err, ErrSubnet) {
			t.Errorf("subnet: %v", err)
		}
		if _, err := open(t, alice, refusing{}).Settle(t.Context(), host, here); !errors.Is(err,
			record.ErrContested) {
			t.Errorf("refused: %v", err)
		}
		if _, ok := r.Cached(host); ok {
			t.Error("an unsettled home is remembered")
		}
	})
}

// refusing is a DHT that lies and takes nothing.
type refusing struct{}

func (refusing) Put(context.Context, string, []byte) (int, int, error) { return 0, 3, nil }
func (refusing) Get(context.Context, string) ([]byte, error) {
	return []byte("noise"), nil
}

func TestLearn(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Self, cfg.Key, cfg.Values = bob.id, bob.key, refusing{}
	cfg.Clock, cfg.CacheSize = at(noon), 2
	r, err := NewRegistry(cfg)
	if err != nil {
		t.Fatal(err)
	}
	better, worse := Record{Host: host, Subnet: here, By: alice.id, Issued: noon, Epoch: 1},
		Record{Host: host, Subnet: there, By: alice.id, Issued: noon, Epoch: 1}
	if Better(worse, better) > 0 {
		better, worse = worse, better
	}
	for _, rec := range []Record{worse, better, worse} {
		want := better
		if _, ok := r.Cached(host); !ok {
			want = worse
		}
		if got, err := r.Learn(seal(t, rec, alice)); err != nil || got != want {
			t.Errorf("learnt %+v, %v, want %+v", got, err, want)
		}
	}
	for name, c := range map[string]struct {
		sealed []byte
		want   error
	}{
		"noise": {[]byte("x"), record.ErrBody},
		"future": {seal(t, Record{Host: host, Subnet: here, By: alice.id,
			Issued: noon.Add(time.Hour), Epoch: 1}, alice), ErrTime},
	} {
		if _, err := r.Learn(c.sealed); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, h := range []string{"a.org", "b.org"} {
		if _, err := r.Learn(seal(t, Record{Host: h, Subnet: here, By: alice.id, Issued: noon,
			Epoch: 1}, alice)); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok := r.Cached(host); ok {
		t.Error("three homes in a memory of two")
	}
}
