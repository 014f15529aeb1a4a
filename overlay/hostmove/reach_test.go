package hostmove

import (
	"testing"
	"testing/synctest"
	"time"
)

// suspectFor reports a host as silent every few seconds, as a crawler does.
func (m *member) suspectFor(d time.Duration) {
	for range int(d / (5 * time.Second)) {
		m.Suspect(mover)
		wait(5 * time.Second)
	}
}

// TestHostMovesToReachableSubnet verifies that a host with a silent home moves soon to a
// subnet in which it does, and stays there when its old home answers again.
func TestHostMovesToReachableSubnet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := join(t, folk[0], newDHT(), nil, nil)
		m.settle(5)
		m.claim(newNet)
		m.run()
		m.say(mover, oldAddr, newAddr)
		m.kill(oldAddr)
		m.suspectFor(20 * time.Second)
		if p, _ := m.f.in(mover); p != oldNet {
			t.Errorf("in %v too early", p)
		}
		if m.f.held[mover].Before(time.Now()) {
			t.Error("it is asked at the dead address")
		}
		m.suspectFor(25 * time.Second)
		if p, a := m.f.in(mover); p != newNet || a != newAddr {
			t.Fatalf("in %v at %v, want %v", p, a, newNet)
		}
		if _, queued, _ := m.stored(mover); queued != 5 {
			t.Errorf("%d URLs are queued, want 5", queued)
		}
		m.kill()
		m.suspectFor(10 * time.Minute)
		if p, _ := m.f.in(mover); p != newNet {
			t.Errorf("moved back to %v", p)
		}
		m.kill(newAddr)
		m.suspectFor(110 * time.Second)
		if p, _ := m.f.in(mover); p != newNet {
			t.Errorf("the second move came too early: in %v", p)
		}
		m.suspectFor(2 * time.Minute)
		if p, _ := m.f.in(mover); p != oldNet {
			t.Errorf("in %v, want %v: its new home has failed", p, oldNet)
		}
	})
}

// TestUnreachableHostStays verifies that a host stays if its home answers in between, or if nothing
// answers at all.
func TestUnreachableHostStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := join(t, folk[0], newDHT(), nil, nil)
		m.settle(5)
		m.claim(newNet)
		m.run()
		m.say(mover, oldAddr, newAddr)
		m.kill(oldAddr, newAddr)
		m.suspectFor(time.Hour)
		for range 5 {
			m.kill(oldAddr)
			m.suspectFor(20 * time.Second)
			m.kill()
			m.suspectFor(15 * time.Second)
		}
		m.kill(oldAddr)
		m.suspectFor(20 * time.Second)
		m.kill(oldAddr, newAddr) // an outage
		m.suspectFor(time.Hour)
		if p, a := m.f.in(mover); p != oldNet || a != oldAddr {
			t.Errorf("in %v at %v, want %v", p, a, oldNet)
		}
	})
}
