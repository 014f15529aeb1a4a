package node

import (
	"context"
	"iter"
	"log/slog"
	"math"
	"net/netip"
	"slices"
	"sync"
	"testing"
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

func page(took time.Duration) store.FetchReport {
	return store.FetchReport{Outcome: store.OutcomeOK, Bytes: 1000,
		Timing: store.Timing{FirstByte: took / 2, Body: took / 2}}
}

func subnetNo(i int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24)
}

// learning is a traits with what it published.
type learning struct {
	*traits
	mu  sync.Mutex
	set []coords.Traits
}

func learn(t *testing.T, db *store.DB, known assign.Delegations) *learning {
	t.Helper()
	l := new(learning)
	var err error
	l.traits, err = newTraits("me", db, func() assign.Delegations {
		return known
	}, func(x coords.Traits) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.set = append(l.set, x)
		return x.Validate()
	}, 50*time.Millisecond, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *learning) published() []coords.Traits {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.set)
}

// run runs l until stop is called.
func (l *learning) run(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// A peer publishes what it has learned when something has changed, and continues after a
// restart.
func TestTraits(t *testing.T) {
	db := memory(t)
	host := coords.LocateTraits([]coords.TraitRow{{Peer: coords.InitialTraits("x"),
		Time: coords.LogTime(200 * time.Millisecond)}})
	known := fakeOwnerMap{&coords.Proxy{Traits: host}}
	expect := func(x coords.Traits) float64 {
		f, ok := x.Predict(host)
		if !ok {
			t.Fatalf("%v.Predict() = false", x)
		}
		return f.Mean
	}
	l := learn(t, db, known)
	stop := l.run(t)
	until(t, time.Minute, "published at the start", func() bool {
		return len(l.published()) == 1
	})
	stop()
	l.publish(false)
	if n := len(l.published()); n != 1 {
		t.Errorf("published %d times without a change, want once", n)
	}
	for i := range 40 {
		for range 3 {
			l.observe(subnetNo(i), page(20*time.Millisecond), nil) // a tenth of the usual time
		}
		l.observe(subnetNo(i), store.FetchReport{Outcome: store.OutcomeTimeout}, nil)
	}
	l.observe(subnetNo(99), store.FetchReport{Outcome: store.OutcomeOK,
		Timing: store.Timing{Connect: time.Second}}, nil)
	l.publish(false)
	l.publish(false)
	set := l.published()
	if len(set) != 2 {
		t.Fatalf("published %d times, want twice", len(set))
	}
	before, after := set[0], set[1]
	if expect(after) > expect(before)-0.5 {
		t.Errorf("predicted log ms = %.2f before and %.2f after fast downloads, want a decrease",
			expect(before), expect(after))
	}
	if ns := l.learner.Subnets(); len(ns) != 40 {
		t.Errorf("the learner has %d subnets, want 40", len(ns))
	}
	l = learn(t, db, known)
	if l.run(t)(); len(l.learner.Subnets()) != 0 {
		t.Error("the learner has subnets that were not saved")
	}

	l = learn(t, db, known)
	stop = l.run(t)
	until(t, time.Minute, "published at the start", func() bool {
		return len(l.published()) == 1
	})
	for i := range 40 {
		l.observe(subnetNo(i), page(20*time.Millisecond), nil)
	}
	until(t, time.Minute, "published", func() bool { return len(l.published()) > 1 })
	stop() // saves
	l.publish(true)
	set = l.published()
	want := expect(set[len(set)-1])
	again := learn(t, db, fakeOwnerMap{}) // no owner has published anything yet
	again.publish(true)
	if got := expect(again.published()[0]); math.Abs(got-want) > 0.3 || got > expect(before)-0.5 {
		t.Errorf("prediction after a restart = %.2f, want about %.2f", got, want)
	}
}

// The history is bounded in memory and in the store.
func TestTraitsAreBounded(t *testing.T) {
	db := memory(t)
	l := learn(t, db, fakeOwnerMap{})
	for i := range 5000 {
		l.observe(subnetNo(i), page(time.Millisecond), nil)
	}
	for range 100 {
		l.observe(subnetNo(4999), page(time.Millisecond), nil)
	}
	if n := len(l.history); n > 2*coords.LearnerSubnets {
		t.Errorf("history of %d subnets, want at most %d", n, 2*coords.LearnerSubnets)
	}
	if err := l.save(); err != nil {
		t.Fatal(err)
	}
	var all []subnetHistory
	if err := db.View(func(tx *store.Tx) error { return tx.Meta(metaTraits, &all) }); err != nil {
		t.Fatal(err)
	}
	if n := len(all); n != coords.LearnerSubnets || all[n-1].Subnet != subnetNo(4999).String() ||
		len(all[n-1].Durations) > 2*coords.LearnerPerSubnet {
		t.Errorf("saved %d subnets, the last %+v", n, all[n-1])
	}
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
