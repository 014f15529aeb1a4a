package owner

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/handover"
	"peerd/overlay/home"
	"peerd/overlay/hosttransfer"
	"peerd/overlay/lease"
	"peerd/overlay/outbox"
	"peerd/overlay/ownership"
	"peerd/overlay/record"
)

// plantRival has the DHT say that a subnet which m has claimed is another's.
func plantRival(t *testing.T, m *member) {
	t.Helper()
	_, sealed := rival(t, subnetA, m.me)
	m.dht.Plant(lease.Key(subnetA), sealed)
}

// readAt carries out what is to be read at a time, and says how much that was.
func (m *member) readAt(now time.Time) (n int) {
	_, before := m.values.Calls()
	for _, task := range m.leases.toRead(now) {
		task(m.t.Context())
	}
	_, after := m.values.Calls()
	return after - before
}

// What was claimed is read again some times, and given up when it has a rival.
func TestReadAgain(t *testing.T) {
	t.Parallel()
	m := join(t, bob, newDHT(), nil, nil)
	m.claim(subnetA)
	m.claim(subnetB)
	m.plant("a.test", subnetA, addrA, 3)
	now := time.Now()
	for i, after := range []time.Duration{4 * time.Second, 30 * time.Second, 90 * time.Second,
		5 * time.Minute} {
		if n := m.readAt(now.Add(after - time.Second)); n != 0 {
			t.Errorf("read %d: %d leases too early", i, n)
		}
		if n := m.readAt(now.Add(after + after/2)); n != 2 {
			t.Errorf("read %d: %d leases, want 2", i, n)
		}
	}
	if n := m.readAt(now.Add(24 * time.Hour)); n != 0 {
		t.Errorf("read once more: %d leases", n)
	}
	plantRival(t, m)
	m.presence.armSince(time.Time{}, now.Add(time.Minute), "the test")
	m.readAt(now.Add(2 * time.Minute))
	a, b := m.subnets[subnetA].unit.State, m.subnets[subnetB].unit.State
	if a != ownership.Yielding || b == ownership.Yielding {
		t.Error("the wrong one is given up, or none")
	}
	for _, c := range []struct {
		after   time.Duration
		renewed bool
	}{{3 * time.Minute, true}, {4 * time.Minute, true}, {10 * time.Minute, false}} {
		m.table.subnets[subnetB].renewAt = now.Add(time.Hour)
		m.readAt(now.Add(c.after))
		if at := m.subnets[subnetB].renewAt; c.renewed == at.After(now.Add(c.after)) {
			t.Errorf("%v after the start, and a minute less after a peer was back: renewed is %t",
				c.after, !c.renewed)
		}
	}
	m.run()
	until(t, "it yields", func() bool { return !m.Live(subnetA) })
	if m.routedURLs() != 3 {
		t.Errorf("%d URLs go to the winner", m.routedURLs())
	}
}

// Who may not act as an owner claims nothing.
func TestClaimWithoutQuorumLease(t *testing.T) {
	t.Parallel()
	m, _, w := guardedBy(t, bob, nil, nil)
	w.right = false
	if err := m.claimer.Claim(t.Context(), subnetA); !errors.Is(err, errNoQuorumLease) ||
		m.Live(subnetA) {
		t.Error("claimed:", err)
	}
	if puts, _ := m.values.Calls(); puts != 0 {
		t.Errorf("%d writes", puts)
	}
}

// A rival that others talk of is believed when the DHT has it.
func TestObserveLease(t *testing.T) {
	t.Parallel()
	m := join(t, bob, newDHT(), nil, nil)
	m.claim(subnetA)
	s := m.subnets[subnetA]
	_, sealed := rival(t, subnetA, bob)
	l, err := lease.OpenLease(sealed)
	if err != nil {
		t.Fatal(err)
	}
	worse := l
	worse.Owner, worse.Epoch = carol.id, 0
	if m.ObserveLease(worse); !s.suspected.IsZero() {
		t.Error("a worse one counts")
	}
	m.run()
	m.ObserveLease(l)
	// A decision in between is published with one renewal more.
	until(t, "it is renewed", func() bool { puts, _ := m.values.Calls(); return puts >= 2 })
	if m.mu.Lock(); s.unit.State == ownership.Yielding {
		t.Error("believed unseen")
	}
	s.suspected = time.Time{}
	m.mu.Unlock()
	m.dht.Plant(lease.Key(subnetA), sealed)
	m.ObserveLease(l)
	until(t, "it yields", func() bool { return !m.Live(subnetA) })
	if len(m.announced) > 0 {
		t.Errorf("the outbox heard of %q, want nothing of its own subnet", m.announced)
	}
	m.ObserveLease(l)
	if want := []string{fmt.Sprint(subnetA, " ", l.Owner)}; !slices.Equal(m.announced, want) {
		t.Errorf("the outbox heard of %q, want %q", m.announced, want)
	}
}

// Who is back has read what came while it was away, and shortly before.
func TestPresence(t *testing.T) {
	t.Parallel()
	const young, old = 10 * time.Minute, 2 * time.Hour // ages of B and A
	for name, c := range map[string]struct {
		silent          time.Duration // of carol, before she is heard again
		never           bool          // heard before
		noRight         time.Duration
		running         time.Duration
		wantOld, wantNo bool
	}{
		"nothing":         {running: old, wantNo: true},
		"a short absence": {running: old, silent: 5 * time.Minute, wantNo: true},
		"an absence":      {running: old, silent: 10 * time.Minute},
		"a very long one": {running: old, silent: lease.LongSilence + time.Minute,
			wantOld: true},
		"a new peer":            {running: old, never: true},
		"a new peer at a start": {running: 5 * time.Second, never: true, wantNo: true},
		"the right":             {running: old, noRight: 10 * time.Minute},
	} {
		now := time.Now()
		var over []Absence
		m, _, w := guardedBy(t, bob, nil, func(c *Config) {
			contactsOf(c).absences = func(time.Time) []Absence { return over }
			c.Adapt = hasty()
		})
		m.started = now.Add(-c.running)
		m.claim(subnetA)
		m.claim(subnetB)
		for p, age := range map[netip.Prefix]time.Duration{subnetA: old, subnetB: young} {
			s := m.subnets[p]
			s.since, s.rereads = now.Add(-age), record.Rereads{}
		}
		if c.noRight > 0 {
			w.right = false
			m.presence.observePresence(now.Add(-c.noRight))
			w.right = true
		}
		switch {
		case c.never:
			over = []Absence{{To: now}}
		case c.silent > 0:
			over = []Absence{{From: now.Add(-c.silent), To: now}}
		}
		m.presence.observePresence(now)
		armed := func(p netip.Prefix) bool { return m.subnets[p].rereads.Planned() }
		if armed(subnetA) != c.wantOld || armed(subnetB) == c.wantNo {
			t.Errorf("%s: old %v, young %v", name, armed(subnetA), armed(subnetB))
		}
		others := func(p netip.Prefix) bool { return m.subnets[p].watch.CanScout(*m.cfg.Adapt) }
		if others(subnetA) != c.wantOld || others(subnetB) == c.wantNo {
			t.Errorf("%s: looks at peers without a page: old %v, young %v", name, others(subnetA),
				others(subnetB))
		}
	}
}

// Who was stopped for long has not acted meanwhile, reads all leases again, and fetches nothing in
// between, also if the quorum lease is there again before its end is seen.
func TestAsleep(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pause         time.Duration
		idle, suspect bool
		old, young    bool // leases that are read
	}{
		"not":         {pause: 10 * time.Second},
		"for minutes": {pause: 20 * time.Minute, idle: true, young: true},
		"for long":    {pause: 2 * time.Hour, idle: true, suspect: true, old: true, young: true},
	} {
		now := time.Now()
		m, _, _ := guardedBy(t, bob, nil, func(c *Config) { contactsOf(c) })
		m.started = now.Add(-24 * time.Hour)
		m.claim(subnetA)
		m.claim(subnetB)
		for p, age := range map[netip.Prefix]time.Duration{
			subnetA: 20 * time.Hour, subnetB: c.pause / 2,
		} {
			s := m.subnets[p]
			s.since, s.rereads = now.Add(-age), record.Rereads{}
		}
		m.presence.observePresence(now.Add(-c.pause))
		awake := m.started
		if c.idle {
			awake = now
		}
		if got := m.AwakeSince(now); !got.Equal(awake) {
			t.Errorf("%s: awake since %v before that is noticed, want %v", name, got, awake)
		}
		if m.Woke(now) != c.idle {
			t.Errorf("%s: woke is %v before that is noticed", name, !c.idle)
		}
		m.presence.observePresence(now)
		if m.Woke(now.Add(wakingFor-1)) != c.idle || m.Woke(now.Add(wakingFor)) {
			t.Errorf("%s: it woke, or not, or for too long", name)
		}
		if got := m.Inactive(now.Add(-c.pause+time.Second), now.Add(-time.Second)); got != c.idle {
			t.Errorf("%s: inactive is %v", name, got)
		}
		if m.Inactive(now.Add(-c.pause-time.Second), now.Add(-time.Second)) {
			t.Errorf("%s: inactive before", name)
		}
		a, b := m.subnets[subnetA], m.subnets[subnetB]
		if a.rereads.Planned() != c.old || b.rereads.Planned() != c.young {
			t.Errorf("%s: old %v, young %v", name, a.rereads.Planned(), b.rereads.Planned())
		}
		if a.unit.Works() == c.suspect || b.unit.Works() == c.suspect {
			t.Errorf("%s: work goes on: %v, %v", name, a.unit.Works(), b.unit.Works())
		}
		m.presence.observePresence(now.Add(time.Second))
		if got := m.AwakeSince(now.Add(time.Second)); !got.Equal(awake) {
			t.Errorf("%s: awake since %v, want %v", name, got, awake)
		}
		if m.Inactive(now.Add(-c.pause+time.Second), now.Add(time.Second)) {
			t.Errorf("%s: inactive afterwards", name)
		}
	}
}

// What is another's by now is not given away.
func TestHandoverReadsFirst(t *testing.T) {
	t.Parallel()
	var sent atomic.Int32
	m := join(t, bob, newDHT(), nil, func(c *Config) {
		c.Sender = sendFunc(func(context.Context, peer.ID, handover.Offer, func() ([]byte, error)) (
			[]byte, error) {
			sent.Add(1)
			return nil, handover.ErrBroken
		})
	})
	m.claim(subnetA)
	plantRival(t, m)
	m.mu.Lock()
	s := m.subnets[subnetA]
	m.table.close(s, carol)
	s.moving = true
	m.mu.Unlock()
	m.departures.move(t.Context(), s, carol.id.String())
	if sent.Load() != 0 || s.unit.State != ownership.Yielding {
		t.Errorf("offered %d times, is %v", sent.Load(), s.unit)
	}
}

// A host that was settled at two homes is given up by the owner of the worse one.
func TestHomeHasRival(t *testing.T) { synctest.Test(t, homeHasRival) }

func homeHasRival(t *testing.T) {
	dht := newDHT()
	other := join(t, folk[1], dht, nil, nil)
	other.claim(newNet)
	m, f := joinHosts(t, folk[0], dht, nil, func(c *Config) {
		c.Transferrer = transferFunc(func(context.Context, peer.ID, hosttransfer.Offer) error {
			t.Error("carried")
			return nil
		})
	})
	m.claim(oldNet)
	now := time.Now()
	var host string
	var sealed []byte
	for i := 0; sealed == nil; i++ { // a name for which the other subnet wins
		host = fmt.Sprintf("host%d.test", i)
		theirs := home.Record{Host: host, Subnet: newNet, By: folk[1].id, Issued: now, Epoch: 1}
		ours := home.Record{Host: host, Subnet: oldNet, By: folk[0].id, Issued: now, Epoch: 1}
		if home.Better(theirs, ours) > 0 {
			var err error
			if sealed, err = home.Seal(theirs, folk[1].key); err != nil {
				t.Fatal(err)
			}
		}
	}
	m.say(host, oldAddr, newAddr)
	if r, err := m.resolver.Resolve(t.Context(), host, netip.Addr{}); err != nil ||
		r.Kind != outbox.Own {
		t.Fatal(r, err)
	}
	m.plant(host, oldNet, oldAddr, 5)
	m.run()
	m.presence.armSince(now.Add(-time.Minute), now, "the test")
	time.Sleep(10 * time.Second)
	if f.in(host) != oldNet || m.hosts.hostMoves.InTransit(host) {
		t.Error("given up without a rival")
	}
	dht.Plant(home.Key(host), sealed)
	until(t, "the host is given up", func() bool {
		_, ok := m.storedHost(host)
		return !ok && !m.hosts.hostMoves.InTransit(host)
	})
	if m.routedURLs() != 5 || m.queued(host) != 0 {
		t.Errorf("%d URLs of 5 go there, %d are queued", m.routedURLs(), m.queued(host))
	}
	until(t, "it is the other's", func() bool {
		r, err := m.resolver.Resolve(t.Context(), host, netip.Addr{})
		return err == nil && r.Kind == outbox.Foreign && r.Owner == folk[1].id
	})
}
