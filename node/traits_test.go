package node

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/overlay/overlaytest"
	"peerd/store"
)

// fakeOwnerMap is an assign.Delegations that returns the same traits for every subnet.
type fakeOwnerMap struct{ proxy *coords.Proxy }

func (k fakeOwnerMap) Within(p netip.Prefix) iter.Seq[assign.Delegation] {
	return func(yield func(assign.Delegation) bool) {
		if k.proxy != nil {
			yield(assign.Delegation{Subnet: p, Owner: "a", Proxy: k.proxy})
		}
	}
}

func memory(t *testing.T) *store.DB { return overlaytest.Store(t, "") }

func subnetNo(i int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24)
}

// A peer publishes how much slower it is than others, when there are new downloads and the owner
// of a server has published something.
func TestTraits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var known atomic.Pointer[coords.Proxy]
		var set []coords.Traits
		l := newTraits(func() assign.Delegations {
			return fakeOwnerMap{known.Load()}
		}, func(x coords.Traits) error {
			set = append(set, x)
			return x.Validate()
		}, 10*time.Second, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx) }()
		fetch := func() {
			for i := range 40 {
				l.observe(subnetNo(i), store.FetchReport{Outcome: store.OutcomeOK, Bytes: 20_000,
					Timing: store.Timing{Connect: 20 * time.Millisecond,
						FirstByte: 320 * time.Millisecond, Body: 60 * time.Millisecond}}, nil)
				l.observe(subnetNo(i), store.FetchReport{Outcome: store.OutcomeTimeout}, nil)
				l.observe(subnetNo(i), store.FetchReport{}, errors.New("not sent"))
			}
		}
		pass := func() {
			time.Sleep(11 * time.Second)
			synctest.Wait()
		}
		fetch()
		pass()
		if len(set) != 0 {
			t.Errorf("published %+v while no server was known, want nothing", set)
		}
		known.Store(&coords.Proxy{Delay: 100, Scale: 1, PerKB: 1})
		fetch()
		pass()
		pass()
		if len(set) != 1 {
			t.Fatalf("published %d times after one change, want once", len(set))
		}
		if lag, rate := set[0].Lag.Mean, set[0].PerKB.Mean; lag < 190 || lag > 210 || rate < 1.9 ||
			rate > 2.1 {
			t.Errorf("published %+v, want about 200 ms, and 2 ms per kB", set[0])
		}
		for _, r := range []store.FetchReport{ // what servers send sooner than pages
			{Outcome: store.OutcomeOK},
			{Outcome: store.OutcomeOK, File: true},
			{Outcome: store.OutcomeRedirect, Bytes: 50},
		} {
			r.Timing.Connect = time.Second
			if r.File || r.Bytes > 0 {
				r.Timing.FirstByte = time.Second
			}
			l.observe(subnetNo(99), r, nil)
		}
		l.observe(subnetNo(99), store.FetchReport{Outcome: store.OutcomeOK, File: true,
			Timing: store.Timing{FirstByte: time.Second}}, nil)
		if ns := l.learner.Subnets(); len(ns) != 40 {
			t.Errorf("the learner has %d subnets, want 40", len(ns))
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
	})
}

func TestOwnerMapStore(t *testing.T) {
	db := memory(t)
	if err := db.Update(func(tx *store.Tx) error {
		return tx.PutData("/record", []byte("r"))
	}); err != nil {
		t.Fatal(err)
	}
	k := ownerMapStore{db}
	all := map[string][]byte{}
	for i := range 2500 {
		all[subnetNo(i).String()] = []byte{byte(i)}
	}
	gone := subnetNo(7).String()
	for _, changes := range []map[string][]byte{all, {gone: nil}} {
		if err := k.Save(changes); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	err := k.Each(func(key string, val []byte) error {
		if n++; key == gone || string(val) != string(all[key]) {
			t.Errorf("value of %q = %v, want %v", key, val, all[key])
		}
		return nil
	})
	if err != nil || n != 2499 {
		t.Errorf("Each() yielded %d keys, %v, want 2499", n, err)
	}
}
