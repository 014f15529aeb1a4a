package owner

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords/assign"
	"peerd/overlay/estimate"
	"peerd/overlay/lease"
	"peerd/store"
)

// Connect makes a fetchFunc answer both kinds of requests.
func (f fetchFunc) Connect(
	ctx context.Context, to peer.ID, sealed []byte, r store.FetchRequest,
) (store.FetchReport, error) {
	return f(ctx, to, sealed, r)
}

// in asks for the steps in order, and then decides for this peer.
func in(steps ...assign.Step) func(assign.Evidence) (assign.Step, error) {
	return func(e assign.Evidence) (assign.Step, error) {
		if n := len(e.Samples); n < len(steps) {
			return steps[n], nil
		}
		return assign.Step{Choice: e.Self}, nil
	}
}

// Probes are counted one by one, whoever makes them and however; of what was
// fetched besides, the first of each peer.
// A file over an old connection shows nothing of the server, and a failed one that it failed.
func TestFileOverOldConnection(t *testing.T) {
	t.Parallel()
	m := join(t, alice, newDHT(), nil, func(c *Config) { c.Directory = directory{alice, bob} })
	m.claim(subnetA)
	old := store.Timing{FirstByte: time.Millisecond}
	for i, r := range []store.FetchReport{
		{Outcome: store.OutcomeOK, File: true, Timing: old},
		{Outcome: store.OutcomeOK, File: true, Timing: store.Timing{Connect: time.Millisecond,
			FirstByte: time.Millisecond}},
		{Outcome: store.OutcomeTimeout, File: true},
	} {
		m.placement.Observe(subnetA, "", r, nil)
		h := m.table.subnets[subnetA].history
		if len(h) != i || i > 0 && h[i-1].firstByte != 0 {
			t.Errorf("samples %+v after %d files, want %d, without a page", h, i+1, i)
		}
	}
}

func TestProbesAreCounted(t *testing.T) {
	t.Parallel()
	m := join(t, alice, newDHT(), nil, func(c *Config) {
		c.Directory = directory{alice, bob, carol}
	})
	robots := assign.Step{Probe: alice.id.String()} // a measurement not asked for
	m.strategy.next = in(
		robots,
		assign.Step{Probe: alice.id.String(), Via: assign.ViaConnect},
		assign.Step{Probe: bob.id.String(), Via: assign.ViaConnect},
		assign.Step{Probe: bob.id.String()},
		assign.Step{Probe: alice.id.String()},
	)
	m.claim(subnetA)
	if m.placement.Connects(subnetA) {
		t.Error("connects before it was asked who does")
	}
	// a robots.txt
	m.placement.Observe(subnetA, "", store.FetchReport{Outcome: store.OutcomeOK}, nil)
	connected := store.FetchReport{Outcome: store.OutcomeOK,
		Timing: store.Timing{Connect: time.Millisecond}}
	page := store.FetchReport{Outcome: store.OutcomeOK, Bytes: 100,
		Timing: store.Timing{FirstByte: time.Millisecond}}
	for i, want := range []struct {
		who     string
		connect bool
		rep     store.FetchReport
		probes  int64
	}{
		{"", true, connected, 2}, {bob.id.String(), true, connected, 4},
		{bob.id.String(), false, page, 6}, {"", false, page, 7},
	} {
		who, hold := m.placement.Where(subnetA)
		if who != want.who || hold || m.placement.Connects(subnetA) != want.connect {
			t.Fatalf("step %d: %q, hold %v, connects %v", i, who, hold,
				m.placement.Connects(subnetA))
		}
		if who == bob.id.String() {
			// carol was not asked: hers is her first
			m.placement.Observe(subnetA, carol.id.String(), page, nil)
			m.table.subnets[subnetA].history = m.table.subnets[subnetA].history[:i+1]
		}
		m.placement.Observe(subnetA, who, want.rep, nil)
		if c := m.cfg.DB.Counters(); c.Probes != want.probes {
			t.Errorf("step %d: %d probes counted", i, c.Probes)
		}
	}
	m.placement.Where(subnetA)
	if m.phase(subnetA) != store.PhaseOwned || m.placement.Connects(subnetA) {
		t.Errorf("phase %v, connects %v", m.phase(subnetA), m.placement.Connects(subnetA))
	}
	m.placement.Observe(subnetA, "", page, nil)
	if c := m.cfg.DB.Counters(); c.Probes != 7 {
		t.Errorf("%d probes after the decision", c.Probes)
	}
	for _, i := range m.List() {
		if i.Estimations != 3 { // two of carol, one of bob
			t.Errorf("%d estimations", i.Estimations)
		}
	}
	for _, s := range m.subnets[subnetA].history.samples() {
		if time.Since(s.Taken) > time.Hour {
			t.Errorf("a sample was taken at %v", s.Taken)
		}
	}
}

// Who cannot be reached for a connection is not asked again, and no probe.
func TestConnectNotSent(t *testing.T) {
	t.Parallel()
	var asked []peer.ID
	m := join(t, alice, newDHT(), nil, func(c *Config) {
		c.Directory = directory{alice, bob}
		c.Estimate = fetchFunc(func(_ context.Context, to peer.ID, sealed []byte,
			r store.FetchRequest) (store.FetchReport, error) {
			asked = append(asked, to)
			l, err := lease.OpenLease(sealed)
			if err != nil || l.Subnet != subnetA || l.Owner != alice.id || r.Addr != addrA {
				t.Errorf("asked with %+v, %+v, %v", l, r, err)
			}
			return store.FetchReport{}, estimate.ErrNotSent
		})
	})
	m.strategy.next = func(e assign.Evidence) (assign.Step, error) {
		if !e.Exclude[bob.id.String()] {
			return assign.Step{Probe: bob.id.String(), Via: assign.ViaConnect}, nil
		}
		return assign.Step{Choice: e.Self}, nil
	}
	r := store.FetchRequest{URL: "http://a.test/", Addr: addrA}
	if _, err := m.placement.Connect(t.Context(), subnetA, bob.id.String(), r); !errors.Is(err,
		estimate.ErrNotSent) || len(asked) > 0 {
		t.Errorf("not ours: %v", err)
	}
	m.claim(subnetA)
	if _, err := m.placement.Connect(t.Context(), subnetA, "invalid", r); !errors.Is(err,
		estimate.ErrNotSent) || len(asked) > 0 {
		t.Errorf("Connect(invalid peer): %v", err)
	}
	who, _ := m.placement.Where(subnetA)
	rep, err := m.placement.Connect(t.Context(), subnetA, who, r)
	if !errors.Is(err, estimate.ErrNotSent) || len(asked) != 1 || asked[0] != bob.id {
		t.Fatalf("asked %v, %v", asked, err)
	}
	m.placement.Observe(subnetA, who, rep, err)
	if who, hold := m.placement.Where(subnetA); who != "" || hold ||
		m.phase(subnetA) != store.PhaseOwned {
		t.Errorf("%q, hold %v, %v", who, hold, m.phase(subnetA))
	}
	if c := m.cfg.DB.Counters(); c.Probes != 0 {
		t.Errorf("%d probes", c.Probes)
	}
}

// The strategy is shown what is known and what time it is; others may hear of a
// subnet when it is decided and its lease says so.
func TestKnownAndDecided(t *testing.T) {
	t.Parallel()
	known := assign.Delegations(nil)
	m := join(t, alice, newDHT(), nil, func(c *Config) {
		c.Directory = directory{alice, bob}
		c.OwnerMap = ownerMap{&known}
	})
	m.strategy.next = probeFirst(alice)
	m.claim(subnetA)
	if len(m.Decided()) != 0 {
		t.Error("decided already")
	}
	for range 2 {
		who, _ := m.placement.Where(subnetA)
		m.placement.Observe(subnetA, who, store.FetchReport{Outcome: store.OutcomeOK}, nil)
	}
	m.placement.Where(subnetA)
	if d := m.Decided(); len(d) != 1 || d[0].Subnet != subnetA || d[0].Sealed != nil {
		t.Errorf("decided, and the lease not yet signed: %+v", d)
	}
	m.run()
	until(t, "signed again", func() bool {
		d := m.Decided()
		return len(d) == 1 && d[0].Sealed != nil
	})
	l, err := lease.OpenLease(m.Decided()[0].Sealed)
	if err != nil || l.Proxy == nil || l.Proxy.Samples != 2 {
		t.Errorf("%+v, %v", l, err)
	}
	m.strategy.mu.Lock()
	defer m.strategy.mu.Unlock()
	for _, e := range m.strategy.seen {
		if e.Delegations != known || time.Since(e.Now) > time.Hour {
			t.Errorf("%v, %v", e.Delegations, e.Now)
		}
	}
}
