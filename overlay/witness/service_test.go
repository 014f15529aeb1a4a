package witness

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/lease"
)

var subnet = netip.MustParsePrefix("203.0.113.0/24")

// company starts a network of n peers, of which the first has witnesses.
func company(t *testing.T, n int) (*fakeNet, []*node) {
	f := newNet(1)
	var all []*node
	for i := range n {
		m := f.add(folk[i])
		if i > 0 {
			m.cfg.Members = 0
		}
		all = append(all, m)
	}
	for _, m := range all {
		m.start(t)
	}
	return f, all
}

func TestPanelForms(t *testing.T) {
	for n, members := range map[int]int{1: 0, 2: 0, 3: 2, 4: 2, 5: 4, 8: 4} {
		synctest.Test(t, func(t *testing.T) {
			f, all := company(t, n)
			defer f.end()
			time.Sleep(30 * time.Second)
			s := all[0].service()
			if ok, until := s.Right(); !ok || (members > 0) == until.IsZero() {
				t.Errorf("%d peers: right %v until %v", n, ok, until)
			}
			if members == 0 {
				if s.Panel() != nil {
					t.Errorf("%d peers: there is a panel", n)
				}
				return
			}
			p, err := lease.OpenPanel(s.Panel())
			if err != nil || len(p.Members) != members || p.Owner != all[0].id {
				t.Errorf("%d peers: %+v, %v", n, p, err)
			}
		})
	}
}

// question has one peer ask for the votes on the one subnet.
func question(t *testing.T, by *node, owner peer.ID, panel []byte) Tally {
	t.Helper()
	tally, err := by.service().Ask(t.Context(), owner, panel, []Step{{subnet, 2}})
	if err != nil {
		t.Fatal(err)
	}
	return tally
}

func TestDeadOwnerIsVotedOut(t *testing.T) {
	for _, n := range []int{3, 5, 8} {
		synctest.Test(t, func(t *testing.T) {
			f, all := company(t, n)
			defer f.end()
			time.Sleep(time.Minute)
			panel := all[0].service().Panel()
			if tally := question(t, all[1], all[0].id, panel); len(tally.Hears) == 0 {
				t.Fatalf("%d peers: a living owner: %+v", n, tally)
			} else if _, ok := tally.Takeover(subnet); ok {
				t.Fatalf("%d peers: a living owner is voted out", n)
			}
			all[0].kill()
			died := time.Now()
			for {
				tally := question(t, all[1], all[0].id, panel)
				if e, ok := tally.Takeover(subnet); ok {
					t.Logf("%d peers: voted out after %v", n, time.Since(died))
					l := lease.Lease{Subnet: subnet, Owner: all[1].id, Epoch: 2, Issued: all[1].clock(), Expires: all[1].clock().Add(time.Hour), Takeover: &e}
					if _, err := lease.SealLease(l, all[1].key); err != nil && len(e.Votes) == tally.Needed {
						t.Error(err)
					}
					break
				}
				if time.Since(died) > all[0].cfg.Promise+3*time.Second {
					t.Fatalf("%d peers: still not: %+v", n, tally)
				}
				time.Sleep(time.Second)
			}
		})
	}
}

// Who never met the owner gets its newest panel from those who may be its witnesses.
func TestPanelOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, all := company(t, 8)
		defer f.end()
		time.Sleep(time.Minute)
		want := all[0].service().Panel()
		all[0].kill()
		p, err := lease.OpenPanel(want)
		if err != nil {
			t.Fatal(err)
		}
		all[1+slices.IndexFunc(all[1:], func(n *node) bool { return p.Has(n.id) })].kill()
		for _, n := range all[1:] {
			if n.service() != nil && !bytes.Equal(n.service().PanelOf(t.Context(), all[0].id), want) {
				t.Errorf("%v does not find the panel", n.id)
			}
		}
		for _, n := range all[1:] {
			if n.service() != nil && n.service().PanelOf(t.Context(), all[1].id) != nil {
				t.Error("a panel of a peer that has none")
			}
		}
	})
}
