package owner

import (
	"net/netip"
	"testing"
	"time"

	"peerd/coords"
	"peerd/overlay/ownership"
	"peerd/store"
)

// Each subnet counts once, whatever applies to it.
func TestCounts(t *testing.T) {
	w := &fakeWitness{right: true}
	m := &table{subnets: map[netip.Prefix]*subnet{},
		env: newEnv(Config{FailoverConfig: FailoverConfig{Witness: w}})}
	for i, u := range []ownership.Unit{
		{State: ownership.Deciding},
		{State: ownership.Closed, To: "b"},
		{State: ownership.Deciding, Doubt: ownership.Stale},
		{State: ownership.Owned, Decided: true},
		{State: ownership.Copying, Decided: true, To: "b"},
		{State: ownership.Yielding, Decided: true},
		{State: ownership.Closed, Decided: true, To: "b", Doubt: ownership.VotedAway},
		{State: ownership.Granted, Decided: true, To: "b"},
		{State: ownership.Closed, Decided: true, To: "b"},
	} {
		m.subnets[store.SubnetOf(netip.AddrFrom4([4]byte{192, 0, byte(i), 1}))] = &subnet{unit: u}
	}
	want := Counts{Estimating: 1, Owned: 2, Leaving: 3, Unverified: 3}
	if got := m.Counts(); got != want {
		t.Errorf("Counts() = %+v, want %+v", got, want)
	}
	unverified := func() (n int) {
		for _, i := range m.List() {
			if i.Unverified {
				n++
			}
		}
		return n
	}
	if n := unverified(); n != want.Unverified {
		t.Errorf("List() has %d unverified subnets, want %d", n, want.Unverified)
	}
	w.right = false // others may own all of them by now
	if got, n := m.Counts(), unverified(); got != (Counts{Unverified: 9}) || n != 9 {
		t.Errorf("without a quorum lease Counts() = %+v, List() has %d unverified subnets", got, n)
	}
	if n := testing.AllocsPerRun(10, func() { m.Counts() }); n != 0 {
		t.Errorf("Counts() allocates %v times", n)
	}
}

func TestPredict(t *testing.T) {
	t.Parallel()
	m := &Placement{table: &table{
		env: newEnv(Config{Self: alice.id,
			PlacementConfig: PlacementConfig{Directory: directory{alice}}}),
		subnets: map[netip.Prefix]*subnet{},
	}}
	here, ok := m.cfg.Directory.At(m.self)
	if !ok {
		t.Fatal("the directory lacks this peer")
	}
	s := &subnet{prefix: subnetA}
	m.subnets[subnetA] = s
	if _, ok := m.Predict(subnetA, 1000); ok {
		t.Error("Predict() without a proxy coordinate returned true")
	}
	s.lease.Proxy = &coords.Proxy{At: here, Delay: 30, Scale: 1, PerKB: 2}
	want := s.lease.Proxy.Predict(here, 5000)
	if got, ok := m.Predict(subnetA, 5000); !ok || got != want || got < 40*time.Millisecond {
		t.Errorf("Predict() = %v, %v, want %v", got, ok, want)
	}
	if _, ok := m.Predict(subnetB, 1000); ok {
		t.Error("Predict() for a subnet of another peer returned true")
	}
}

func BenchmarkCounts(b *testing.B) {
	m := &table{subnets: map[netip.Prefix]*subnet{}}
	for i := range 10_000 {
		p := store.SubnetOf(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1}))
		m.subnets[p] = &subnet{prefix: p,
			unit: ownership.Unit{State: ownership.Owned, Decided: true}}
	}
	for b.Loop() {
		m.Counts()
	}
}
