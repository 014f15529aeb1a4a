package hostmove

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/home"
	"peerd/overlay/hosttransfer"
	"peerd/store"
)

// wait lets virtual time pass, and what is under way come to rest.
func wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// A host moves to another subnet of ours with its queue; one that only has another
// address in its home stays.
func TestHostMovesWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := join(t, folk[0], newDHT(), nil, nil)
		m.settle(5)
		m.claim(newNet)
		m.run()
		near := oldNet.Addr().Next()
		m.say(mover, near)
		m.f.beAsked(true)
		m.Suspect(mover)
		wait(0)
		if _, a := m.f.in(mover); a != oldAddr {
			t.Errorf("dialled at %v while it is being asked", a)
		}
		m.f.beAsked(false)
		wait(2 * time.Second)
		if p, a := m.f.in(mover); p != oldNet || a != near {
			t.Errorf("in %v at %v, want %v", p, a, near)
		}
		m.say(mover, newAddr)
		m.Suspect(mover)
		wait(9 * time.Minute)
		if p, _ := m.f.in(mover); p != oldNet {
			t.Errorf("in %v too early", p)
		}
		if m.f.held[mover].Before(time.Now()) {
			t.Error("its URLs are spent on the dead address")
		}
		wait(4 * time.Minute)
		if p, a := m.f.in(mover); p != newNet || a != newAddr {
			t.Errorf("in %v at %v", p, a)
		}
		if h, queued, _ := m.stored(mover); h.Subnet != newNet || h.Addr != newAddr ||
			h.Queued != 5 || queued != 5 {
			t.Errorf("stored %+v, %d queued", h, queued)
		}
		if r := m.home(mover); r.Subnet != newNet || r.Epoch != 2 {
			t.Errorf("home %+v", r)
		}
		if n := m.intents(); n != 0 || m.InTransit(mover) {
			t.Errorf("%d intents are left", n)
		}
		if m.own.entered(oldNet)+m.own.entered(newNet) != 0 {
			t.Error("a subnet is held")
		}
	})
}

// A host that was seen to have left while it still answered is not asked any more once
// it does not, without waiting for the next look-up.
func TestSilentAfterItWasAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := join(t, folk[0], newDHT(), nil, nil)
		m.settle(5)
		m.Sighted(mover)
		m.claim(newNet)
		m.run()
		m.say(mover, newAddr)
		m.f.mu.Lock()
		m.f.stale = []string{mover}
		m.f.mu.Unlock()
		wait(10 * time.Second)
		if _, held := m.f.held[mover]; held {
			t.Error("not asked, although it answers")
		}
		m.Suspect(mover)
		wait(2 * time.Second)
		if until := m.f.held[mover]; !until.After(time.Now()) {
			t.Errorf("its URLs are spent: held until %v", until)
		}
	})
}

// No move begins while a host is put into the frontier, in either direction, and none that is in
// transit is put there.
func TestNoMoveWhileAdded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := join(t, folk[0], newDHT(), nil, nil)
		m.settle(1)
		r := m.Receiver().(receiver)
		ok, err := m.Add(mover, func() error {
			m.relocate(mover, &move{From: oldNet, To: newNet})
			if m.InTransit(mover) || r.arrive(mover) {
				t.Error("a move begins while the host is added")
			}
			return nil
		})
		if !ok || err != nil || !r.arrive(mover) {
			t.Errorf("Add() = %v, %v; want true, and that the host can arrive afterwards", ok, err)
		}
		ok, err = m.Add(mover, func() error { t.Error("a host in transit is added"); return nil })
		if ok || err != nil {
			t.Errorf("Add() of a host in transit = %v, %v", ok, err)
		}
	})
}

// A host that answers, or is shown in its home now and then, stays.
func TestHostStays(t *testing.T) {
	for name, c := range map[string]struct {
		silent bool
		answer func(n int) netip.Addr
	}{
		"geo-DNS, answering": {false, func(int) netip.Addr { return newAddr }},
		"round robin": {true, func(n int) netip.Addr {
			if n%4 == 3 {
				return oldAddr
			}
			return netip.AddrFrom4([4]byte{198, 51, byte(n), 1})
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := join(t, folk[0], newDHT(), nil, nil)
			m.settle(5)
			for n := range 60 {
				m.say(mover, c.answer(n))
				m.look(t.Context(), mover, c.silent)
				wait(m.cfg.Pace.pause(renamed))
			}
			if len(m.moves) != 0 {
				t.Errorf("%s: it moves", name)
			}
		})
	}
}

// A host that cannot leave is not looked up again and again, nor after its home was handed over:
// they would take the places of hosts that have moved.
func TestAbsenceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := join(t, folk[0], newDHT(), nil, nil)
		m.settle(5)
		m.say(mover, newAddr)
		m.look(t.Context(), mover, false)
		if a := m.absenceOf(mover); a != nil {
			t.Errorf("a host that answers and was never seen in its home: %+v, want nil", a)
		}
		m.look(t.Context(), mover, true)
		if m.absenceOf(mover) == nil {
			t.Error("a host that is silent is forgotten")
		}
		if _, err := m.f.EvictHost(t.Context(), mover); err != nil {
			t.Fatal(err)
		}
		delete(m.own.sealed, oldNet)
		m.look(t.Context(), mover, false)
		if a := m.absenceOf(mover); a != nil {
			t.Errorf("after its home was handed over: %+v, want nil", a)
		}
	})
}

// A host is forgotten that seems to have left, and the name of which then stops resolving.
func TestAbsenceOfUnknownNameEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := join(t, folk[0], newDHT(), nil, nil)
		m.settle(5)
		m.say(mover, newAddr)
		m.look(t.Context(), mover, true)
		for range 2 { // it counts when the name resolved last
			m.say(mover)
			wait(longestSpan)
			m.look(t.Context(), mover, true)
			if m.absenceOf(mover) == nil {
				t.Error("forgotten after a day")
			}
			m.say(mover, newAddr)
			m.moves = map[string]*move{}
			m.look(t.Context(), mover, true)
		}
		m.say(mover)
		wait(longestSpan + time.Second)
		m.look(t.Context(), mover, true)
		if m.absenceOf(mover) != nil {
			t.Error("remembered after more than a day")
		}
	})
}

// How long a host must have been away.
func TestSpan(t *testing.T) {
	w := &Monitor{cfg: Config{Pace: Pace{}.withDefaults()}}
	for _, c := range []struct {
		epoch   uint64
		why     cause
		sighted bool
		want    time.Duration
	}{
		{1, silent, false, 10 * time.Minute}, {1, silent, true, 10 * time.Minute},
		{1, renamed, false, 0}, {1, renamed, true, time.Hour},
		{2, silent, false, 40 * time.Minute}, {3, silent, false, 160 * time.Minute},
		{9, silent, false, 24 * time.Hour}, {1 << 30, renamed, true, 24 * time.Hour},
		{1, unreachable, true, 30 * time.Second}, {2, unreachable, false, 2 * time.Minute},
	} {
		if got := w.span(c.epoch, c.why, c.sighted); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// A crash in the middle of a move: the host is fetched from nowhere until the move
// has ended.
func TestMoveGoesOnAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dht := newDHT()
		m := join(t, folk[0], dht, nil, nil)
		m.settle(5)
		m.claim(newNet)
		raw, err := cbor.Marshal(move{From: oldNet, To: newNet, Addr: newAddr})
		if err == nil {
			err = m.cfg.DB.Update(func(tx *store.Tx) error {
				return tx.PutData(moveSpace+mover, raw)
			})
		}
		if err != nil {
			t.Fatal(err)
		}
		again := join(t, folk[0], dht, m.cfg.DB, nil)
		again.own = m.own
		again.cfg.Subnets = m.own
		if p, _ := again.f.in(mover); p.IsValid() || !again.InTransit(mover) {
			t.Error("the host is in the frontier")
		}
		again.run()
		wait(2 * time.Second)
		if p, _ := again.f.in(mover); p != newNet || again.InTransit(mover) {
			t.Errorf("in %v", p)
		}
		if _, queued, _ := again.stored(mover); queued != 5 {
			t.Errorf("%d queued", queued)
		}
	})
}

// A host goes to the owner of its new home before the world is told, and is tried
// again until it is there. A subnet without an owner is claimed first.
func TestHostIsTransferred(t *testing.T) {
	for _, owned := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			dht := newDHT()
			other := join(t, folk[1], dht, nil, nil)
			calls := 0
			var m *member
			m = join(t, folk[0], dht, nil,
				transferFunc(func(_ context.Context, to peer.ID, o hosttransfer.Offer) error {
					calls++
					r, err := home.Open(o.Record)
					if err != nil || to != folk[1].id || r.Subnet != newNet || r.Epoch != 2 ||
						o.Addr != newAddr {
						t.Errorf("carried to %v: %+v, %+v, %v", to, o, r, err)
					}
					if now := m.home(mover); now.Epoch != 1 {
						t.Errorf("told the world before: %+v", now)
					}
					if p, _ := m.f.in(mover); p.IsValid() || m.own.entered(oldNet) != 1 ||
						o.Wait <= 0 {
						t.Errorf("still in %v, its subnet may leave, or it may be asked in %v", p,
							o.Wait)
					}
					if calls < 3 {
						return errors.New("broken off")
					}
					return nil
				}))
			m.settle(5)
			if owned {
				other.claim(newNet)
			}
			m.run()
			m.say(mover, newAddr)
			m.Suspect(mover)
			wait(15 * time.Minute)
			h, queued, here := m.stored(mover)
			if r := other.home(mover); r.Subnet != newNet || m.intents() != 0 ||
				m.InTransit(mover) || m.own.entered(oldNet) != 0 {
				t.Errorf("home %+v, or it is on its way still", r)
			}
			switch {
			case owned && (here || queued != 0 || calls != 3):
				t.Errorf("%+v, %d queued still, carried %d times", h, queued, calls)
			case !owned && (h.Subnet != newNet || queued != 5 || calls != 0):
				t.Errorf("%+v, %d queued, carried %d times", h, queued, calls)
			}
		})
	}
}

// A host goes to the next owner of its new home if the one that is known has failed.
func TestOwnerOfNewHomeHasFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dht := newDHT()
		failed := join(t, folk[1], dht, nil, nil)
		next := join(t, folk[2], dht, nil, nil)
		received := false
		m := join(t, folk[0], dht, nil,
			transferFunc(func(_ context.Context, to peer.ID, _ hosttransfer.Offer) error {
				if to != folk[2].id {
					return errors.New("no route to host")
				}
				received = true
				return nil
			}))
		m.settle(5)
		failed.claim(newNet)
		old, _, err := m.own.leases.Lookup(t.Context(), newNet) // remembered
		if err != nil {
			t.Fatal(err)
		}
		grant, err := old.GrantTo(folk[2].id, time.Now(), folk[1].key)
		if err == nil {
			_, _, err = next.own.leases.Adopt(t.Context(), old, grant, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		m.relocate(mover, &move{From: oldNet, To: newNet, Addr: newAddr})
		m.run()
		wait(time.Minute)
		if !received || m.InTransit(mover) {
			t.Errorf("received %v, in transit %v, want true, false", received, m.InTransit(mover))
		}
	})
}

// A host with so much state that its transfer takes longer than any other step arrives, at once.
func TestLargeHostArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dht := newDHT()
		other := join(t, folk[1], dht, nil, nil)
		calls := 0
		m := join(t, folk[0], dht, nil,
			transferFunc(func(ctx context.Context, _ peer.ID, _ hosttransfer.Offer) error {
				calls++
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(90 * time.Second):
					return nil
				}
			}))
		m.settle(5)
		other.claim(newNet)
		m.relocate(mover, &move{From: oldNet, To: newNet, Addr: newAddr})
		m.run()
		wait(2 * time.Minute)
		if r := other.home(mover); r.Subnet != newNet || m.InTransit(mover) || calls != 1 {
			t.Errorf("home %v, in transit %v, transferred %d times, want %v, false, 1",
				r.Subnet, m.InTransit(mover), calls, newNet)
		}
	})
}

// A move to a subnet that cannot be claimed, or with a record that cannot be published, is tried
// again ever less often.
func TestFailedMoveBacksOff(t *testing.T) {
	for _, ours := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			dht := newDHT()
			m := join(t, folk[0], dht, nil, nil)
			m.settle(1)
			if ours {
				m.claim(newNet)
			}
			m.own.refuse, m.own.claims = errors.New("the disk is full"), 0
			values := &failingPuts{Peer: dht.Peer()}
			cfg := home.DefaultConfig()
			cfg.Self, cfg.Key, cfg.Values = folk[0].id, folk[0].key, values
			homes, err := home.NewRegistry(cfg)
			if err != nil {
				t.Fatal(err)
			}
			m.cfg.Homes = homes
			m.relocate(mover, &move{From: oldNet, To: newNet, Addr: newAddr})
			m.run()
			wait(10 * time.Minute)
			m.own.mu.Lock()
			defer m.own.mu.Unlock()
			if n := m.own.claims + values.puts; n < 10 || n > 20 {
				t.Errorf("ours %v: %d claims and %d writes in ten minutes, want 10 to 20",
					ours, m.own.claims, values.puts)
			}
		})
	}
}

// A host that was settled at two homes is given up by the owner of the worse one,
// when the homes of that time are read again, and not before.
func TestHomeHasRival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dht := newDHT()
		m := join(t, folk[0], dht, nil,
			transferFunc(func(context.Context, peer.ID, hosttransfer.Offer) error {
				t.Error("carried")
				return nil
			}))
		m.settle(5)
		m.run()
		theirs := home.Record{Host: mover, By: folk[1].id, Epoch: 1, Issued: time.Now()}
		ours := m.home(mover)
		// one that wins
		for n := byte(1); theirs.Subnet == (netip.Prefix{}) || home.Better(theirs, ours) <= 0; n++ {
			theirs.Subnet = netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 51, n, 0}), 24)
		}
		sealed, err := home.Seal(theirs, folk[1].key)
		if err != nil {
			t.Fatal(err)
		}
		reread := func(since, pause time.Duration) netip.Prefix {
			now := time.Now()
			m.Reread(now.Add(-since), now)
			wait(pause)
			p, _ := m.f.in(mover)
			return p
		}
		if p := reread(time.Minute, 7*time.Minute); p != oldNet || m.InTransit(mover) {
			t.Error("given up without a rival")
		}
		dht.Plant(home.Key(mover), sealed)
		if p := reread(time.Minute, 3*time.Minute); p != oldNet {
			t.Error("read again, though it was settled before that time")
		}
		if p := reread(time.Hour, 10*time.Second); p != oldNet {
			t.Error("given up for a record of a subnet where it has no address")
		}
		m.say(mover, oldAddr, theirs.Subnet.Addr().Next())
		wait(time.Minute)
		if _, _, here := m.stored(mover); here || m.intents() != 0 || len(m.own.rerouted) != 1 {
			t.Errorf("not given up; rerouted %v", m.own.rerouted)
		}
		if err := m.giveUp(mover, &move{From: oldNet, To: newNet}); err != nil {
			t.Error("not to be repeated:", err)
		}
	})
}

// Homes that were settled are forgotten after a time in which they may have to be read again, and
// make room for others.
func TestSettledIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := join(t, folk[0], newDHT(), nil, nil)
		remembered := func(pause time.Duration) int {
			time.Sleep(pause)
			m.reading = false
			m.due(time.Now())
			return len(m.settled)
		}
		m.Settled("first")
		time.Sleep(time.Minute)
		for i := range maxSettled {
			m.Settled(fmt.Sprint(i))
		}
		if n := remembered(0); n != maxSettled {
			t.Errorf("%d are remembered, want %d", n, maxSettled)
		}
		if n := remembered(SettledFor - time.Second); n != maxSettled-1 {
			t.Errorf("%d are remembered after an hour, want one less", n)
		}
		m.Settled("last")
		if n := remembered(time.Minute); n != 1 {
			t.Errorf("%d are remembered after another minute, want the last one", n)
		}
		m.Reread(time.Now().Add(-SettledFor), time.Now())
		for range 4 {
			if n := remembered(SettledFor); n != 1 {
				t.Error("forgotten before it was read again")
			}
		}
		if n := remembered(SettledFor); n != 0 {
			t.Errorf("%d are remembered when it was read again, want none", n)
		}
	})
}

// While the network of this peer is down, names that do not resolve say nothing about hosts.
func TestOffline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := join(t, folk[0], newDHT(), nil, nil)
		online := false
		m.online = func() bool { return online }
		m.settle(1)
		m.say(mover, newAddr)
		m.Suspect(mover)
		if tasks := m.due(time.Now().Add(time.Hour)); len(tasks) > 0 {
			t.Errorf("%d tasks while offline, want none", len(tasks))
		}
		online = true
		if tasks := m.due(time.Now().Add(time.Hour)); len(tasks) == 0 {
			t.Error("no task after the network is back")
		}
	})
}

func TestConfig(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Error("made of nothing")
	}
}
