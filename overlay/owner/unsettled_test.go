package owner

import (
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"peerd/overlay/lease"
	"peerd/overlay/overlaytest"
	"peerd/store"
	"peerd/store/kv"
)

// looked is how long it may take until a lease of ours is settled that does not count.
const looked = 3 * time.Minute

// A claim that was written, by a peer that failed before it owned the subnet, is settled by
// the first who sends URLs there.
func TestBrokenClaimIsSettled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dht := newDHT()
		before := join(t, alice, dht, nil, nil)
		if _, _, err := before.cfg.Leases.Claim(t.Context(), subnetA); err != nil { // and no more
			t.Fatal(err)
		}
		m := join(t, alice, dht, nil, nil)
		stop := m.run()
		if ok, _, _ := m.resolver.Accepts(subnetA); ok {
			t.Fatal("URLs of a subnet are taken that is not ours yet")
		}
		for begin := time.Now(); !m.Live(subnetA); time.Sleep(time.Second) {
			if time.Since(begin) > looked {
				t.Fatal("a lease of ours in the DHT keeps a subnet from all peers")
			}
		}
		if _, there := m.stored(subnetA); !there {
			t.Error("it is not on the disk")
		}
		if ok, moving, _ := m.resolver.Accepts(subnetA); !ok || moving {
			t.Error("its URLs are not taken")
		}
		stop()
	})
}

// Subnets that other peers name, without end, do not keep a broken claim from being settled.
func TestReportsLeaveRoomForClaims(t *testing.T) {
	t.Parallel()
	m := join(t, alice, newDHT(), nil, nil)
	for i := range 2 * unsettledMost {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24)
		if i%2 == 0 {
			m.policy.CopyReported(p)
		} else if ok, _, _ := m.resolver.Accepts(p); ok {
			t.Fatalf("URLs of %v are taken", p)
		}
	}
	if n := m.claimer.unsettled.size(); n != unsettledMost/2 {
		t.Errorf("%d leases are to be read, want %d", n, unsettledMost/2)
	}
	m.claimer.brokeOff(subnetA)
	if !m.claimer.broke(subnetA) {
		t.Error("a claim that broke off is forgotten")
	}
}

// A claim that was not acknowledged is settled when the DHT answers again, though
// no peer asks for it any more.
func TestFailedClaimIsSettled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dht := newDHT()
		m := join(t, alice, dht, nil, nil)
		var cut atomic.Bool
		var after atomic.Int64
		after.Store(6) // three replicas are read and written, and not read again
		dht.Cut = func(int, int) bool { return after.Add(-1) < 0 && cut.Load() }
		cut.Store(true)
		if err := m.claimer.Claim(t.Context(), subnetA); err == nil {
			t.Fatal("claimed without the DHT")
		}
		if dht.Held(lease.Key(subnetA))[0] == nil {
			t.Fatal("nothing was written: this test is not about that")
		}
		stop := m.run()
		time.Sleep(time.Minute)
		if m.Live(subnetA) {
			t.Fatal("ours without the DHT")
		}
		cut.Store(false)
		time.Sleep(looked)
		if !m.Live(subnetA) {
			t.Error("what was written before is not settled")
		}
		stop()
	})
}

// A claim that was not acknowledged is also settled if the subnet has just been found not to be
// ours.
func TestFailedClaimOfForeignSubnetIsSettled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dht := newDHT()
		m := join(t, alice, dht, nil, nil)
		stop := m.run()
		defer stop()
		m.resolver.Accepts(subnetA) // the sender of URLs takes it for ours
		time.Sleep(time.Second)
		if e, ok := m.claimer.unsettled.get(subnetA); !ok || e.state != entryDone {
			t.Fatalf("not looked at: %+v", e)
		}
		var cut atomic.Bool
		var after atomic.Int64
		after.Store(6) // three replicas are read and written, and not read again
		dht.Cut = func(int, int) bool { return after.Add(-1) < 0 && cut.Load() }
		cut.Store(true)
		if err := m.claimer.Claim(t.Context(), subnetA); err == nil {
			t.Fatal("claimed without the DHT")
		}
		if dht.Held(lease.Key(subnetA))[0] == nil {
			t.Fatal("nothing was written: this test is not about that")
		}
		if !m.claimer.broke(subnetA) {
			t.Error("it is not known that the claim broke off")
		}
		cut.Store(false)
		time.Sleep(looked)
		if !m.Live(subnetA) {
			t.Error("what was written before is not settled")
		}
	})
}

// An interrupted claim that is made again does not begin at once: a peer that claimed later
// may have won in the meantime and fetch already.
func TestFailedClaimRests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dht := newDHT()
		m := join(t, alice, dht, nil, func(c *Config) { c.Cooldown = 7 * time.Second })
		var cut atomic.Bool
		cut.Store(true)
		dht.Cut = func(int, int) bool { return cut.Load() }
		if err := m.claimer.Claim(t.Context(), subnetA); err == nil {
			t.Fatal("claimed without the DHT")
		}
		cut.Store(false)
		begin := time.Now()
		if err := m.claimer.Claim(t.Context(), subnetA); err != nil || !m.Live(subnetA) {
			t.Fatalf("not claimed again: %v", err)
		}
		if d := time.Since(begin); d < 7*time.Second {
			t.Errorf("begun after %v", d)
		}
		begin = time.Now()
		if err := m.claimer.Claim(t.Context(), subnetB); err != nil || !m.Live(subnetB) ||
			time.Since(begin) > 5*time.Second {
			t.Errorf("one that did not break off, after %v: %v", time.Since(begin), err)
		}
	})
}

// URLs for a subnet without an owner, or with another one, make us claim
// nothing.
func TestForeignURLsCauseNoClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dht := newDHT()
		other := join(t, bob, dht, nil, nil)
		other.claim(subnetB)
		m := join(t, alice, dht, nil, nil)
		stop := m.run()
		m.resolver.Accepts(subnetA)
		m.resolver.Accepts(subnetB)
		time.Sleep(looked)
		if m.Live(subnetA) || m.Live(subnetB) {
			t.Error("claimed for a stranger")
		}
		if _, _, sealed := m.resolver.Accepts(subnetB); sealed == nil {
			t.Error("the owner's lease is not known")
		} else if l, err := lease.OpenLease(sealed); err != nil || l.Owner != bob.id {
			t.Errorf("shown: %v, %v", l.Owner, err)
		}
		for _, held := range dht.Held(lease.Key(subnetA)) {
			if held != nil {
				t.Error("a lease was written")
			}
		}
		if n := len(m.claimer.unsettled.entries); n > 0 {
			t.Errorf("%d subnets are looked at for ever", n)
		}
		stop()
	})
}

// A peer that fails during a claim, and again before it has settled that, does not wait for copies
// of the subnet, which no peer can have. It does not begin with a subnet that another peer owns.
func TestClaimOfEarlierProcessIsSettled(t *testing.T) {
	t.Parallel()
	for name, taken := range map[string]bool{"settled": false, "taken by another peer": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dht, db := newDHT(), openStore(t)
				m, _, _ := guardedOn(t, alice, dht, db, nil)
				m.breakClaim(subnetA, taken)
				if taken {
					join(t, bob, dht, nil, nil).claim(subnetA)
				}
				for range 3 { // fails each time before it settles the claim
					m, _, _ = guardedOn(t, alice, dht, db, nil)
					stop := m.run()
					time.Sleep(unsettledWait / 2)
					stop()
					time.Sleep(m.Manager.cfg.Times.First + m.Manager.cfg.Times.Lost)
				}
				if n := m.claimsOnDisk(); m.Live(subnetA) || n != 1 {
					t.Fatalf("ours %v, %d claims on disk, want false, 1", m.Live(subnetA), n)
				}
				m, r, _ := guardedOn(t, alice, dht, db, func(c *Config) {
					c.Directory = directory{alice, bob, carol}
				})
				r.others = nil // no peer answers whether it has a copy
				stop := m.run()
				time.Sleep(unsettledWait + m.Manager.cfg.Cooldown + 5*time.Second)
				stop()
				if m.Live(subnetA) == taken || m.claimsOnDisk() != 0 {
					t.Errorf("ours %v, %d claims on disk, want %v, 0", m.Live(subnetA),
						m.claimsOnDisk(), !taken)
				}
			})
		})
	}
}

// What a power failure may lose is not the record of a claim.
func TestClaimIsSynced(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		dht, disk := newDHT(), kv.NewDisk()
		m := join(t, alice, dht, overlaytest.StoreOnDisk(t, disk), nil)
		m.breakClaim(subnetA, false)
		disk.Crash(seed)
		m = join(t, alice, dht, overlaytest.StoreOnDisk(t, disk), nil)
		if n := m.claimsOnDisk(); n != 1 {
			t.Errorf("seed %d: %d claims on disk, want 1", seed, n)
		}
	}
}

// A claim that is over is not on disk, and one that a failed process has left there is deleted.
func TestClaimOnDiskIsDeleted(t *testing.T) {
	t.Parallel()
	dht, db := newDHT(), openStore(t)
	m := join(t, alice, dht, db, nil)
	m.claim(subnetA)
	if n := m.claimsOnDisk(); n != 0 {
		t.Errorf("%d claims on disk, want none", n)
	}
	if err := m.claimer.cfg.DB.Update(func(tx *store.Tx) error {
		return tx.PutData(claimSpace+subnetA.String(), nil)
	}); err != nil {
		t.Fatal(err)
	}
	m = join(t, alice, dht, db, nil)
	if n := m.claimsOnDisk(); n != 0 || m.claimer.broke(subnetA) {
		t.Errorf("%d claims on disk, broke() = %v, want none, false", n,
			m.claimer.broke(subnetA))
	}
	join(t, bob, dht, nil, nil).claim(subnetB)
	if err := m.claimer.Claim(t.Context(), subnetB); err != nil || m.claimsOnDisk() != 0 {
		t.Errorf("Claim() = %v of what is another peer's, %d claims on disk", err, m.claimsOnDisk())
	}
}

// breakClaim begins a claim that is written to three holders, or to none, and breaks off.
func (m *member) breakClaim(p netip.Prefix, unwritten bool) {
	m.t.Helper()
	after := 6 // three are read and written, and not read again
	if unwritten {
		after = 0
	}
	m.dht.Cut = func(int, int) bool { after--; return after < 0 }
	if err := m.claimer.Claim(m.t.Context(), p); err == nil {
		m.t.Fatal("claimed without the DHT")
	}
	m.dht.Cut = nil
	if held := m.dht.Held(lease.Key(p))[0]; (held == nil) != unwritten {
		m.t.Fatalf("written: %v", held)
	}
}

func (m *member) claimsOnDisk() (n int) {
	m.t.Helper()
	if err := m.claimer.cfg.DB.EachData(claimSpace, func(string, []byte) error {
		n++
		return nil
	}); err != nil {
		m.t.Fatal(err)
	}
	return n
}
