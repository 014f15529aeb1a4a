package witness

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"peerd/overlay/lease"
)

// An owner that is back is told of all votes, in the end of each once, again after a
// restart of the witness only what it has not said to know, and it is told
// before its right is back.
func TestOwnerIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, all := company(t, 5)
		defer f.end()
		var mu sync.Mutex // guards the next three
		told := map[netip.Prefix]int{}
		refuse := true
		early := false
		all[0].cfg.Revoked = func(_ context.Context, list []Revocation) error {
			mu.Lock()
			defer mu.Unlock()
			s := all[0].service()
			if ok, _ := s.Right(); ok && len(told) < 600 {
				early = true
			}
			if refuse {
				return errors.New("disk full")
			}
			for _, r := range list {
				if r.To != all[1].id || r.Epoch != 2 {
					t.Errorf("%+v", r)
				}
				told[r.Subnet]++
			}
			return nil
		}
		time.Sleep(time.Minute)
		panel := all[0].service().Panel()
		all[0].kill()
		time.Sleep(30 * time.Second)
		for batch := range 3 { // 600 subnets: more than fit into one answer
			var steps []Step
			for i := range 200 {
				steps = append(steps, Step{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(batch), byte(i), 0}), 24), 2})
			}
			tally, err := all[1].service().Ask(t.Context(), all[0].id, panel, steps)
			if err != nil || len(tally.Votes) != 200 {
				t.Fatalf("%d voted on, %v, %+v", len(tally.Votes), err, tally.Failed)
			}
		}
		all[2].kill()
		all[2].start(t)
		s := all[0].start(t)
		time.Sleep(10 * time.Second)
		mu.Lock()
		if ok, _ := s.Right(); ok || len(told) != 0 {
			t.Errorf("what could not be written counts: right %v", ok)
		}
		refuse = false
		mu.Unlock()
		time.Sleep(10 * time.Second)
		mu.Lock()
		if ok, _ := s.Right(); !ok || len(told) != 600 || early {
			t.Errorf("right %v, %d told, early %v", ok, len(told), early)
		}
		mu.Unlock()
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		for p, n := range told {
			if n > 4 {
				t.Fatalf("%v was told %d times by 4 witnesses", p, n)
			}
		}
		n := len(told)
		time.Sleep(2 * VoteLife)
		all[3].kill()
		all[3].start(t) // has forgotten what it needs not know
		if len(all[3].service().guard.wards[all[0].id].ballots) != 0 || n != len(told) {
			t.Error("votes are kept though the owner knows of them")
		}
	})
}

// A living owner keeps its right and is never voted out, on a bad network too; and
// keeps it when its witnesses are replaced.
func TestLivingOwnerStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, all := company(t, 8)
		defer f.end()
		f.mu.Lock()
		f.loss, f.delay = 0.05, 200*time.Millisecond
		f.mu.Unlock()
		time.Sleep(time.Minute)
		s := all[0].service()
		for i := range 600 {
			if ok, _ := s.Right(); !ok {
				t.Fatalf("no right after %d s", i)
			}
			if by := all[1+i%7]; by.service() != nil {
				tally := question(t, by, all[0].id, s.Panel())
				if _, won := tally.Takeover(subnet); won {
					t.Fatalf("voted out after %d s", i)
				}
			}
			if i%100 == 50 { // a witness dies, another comes back
				p, _ := lease.OpenPanel(s.Panel())
				for _, n := range all[1:] {
					if n.service() == nil {
						n.start(t)
					}
				}
				f.nodes[p.Members[i/100%len(p.Members)]].kill()
				t.Logf("panel %d of %d", p.Seq, len(p.Members))
			}
			time.Sleep(time.Second)
		}
	})
}

// Three of four witnesses die at once: no right until one is back, or for an hour;
// then without them, after leases were read again.
func TestOwnerOutlivesItsWitnesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, all := company(t, 8)
		defer f.end()
		doubts := 0
		time.Sleep(30 * time.Second)
		s := all[0].service()
		s.cfg.Doubt = func() { doubts++ }
		p, _ := lease.OpenPanel(s.Panel())
		changed := s.Changed()
		for _, id := range p.Members[:3] {
			f.nodes[id].kill()
		}
		select {
		case <-changed:
		case <-time.After(all[0].cfg.Hold + 100*time.Millisecond):
			t.Error("nobody is told that the right ended")
		}
		if ok, _ := s.Right(); ok {
			t.Error("the right outlives its witnesses")
		}
		time.Sleep(lease.LongSilence - 2*time.Minute)
		if ok, _ := s.Right(); ok || doubts != 0 {
			t.Error("they are given up too soon")
		}
		time.Sleep(4 * time.Minute)
		if ok, _ := s.Right(); !ok || doubts != 1 {
			t.Errorf("right %v, %d doubts, an hour later", ok, doubts)
		}
	})
}

// What was shown to others is known after a restart; a panel that could not be
// written is not shown.
func TestPanelsAreOnTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, all := company(t, 5)
		defer f.end()
		time.Sleep(30 * time.Second)
		before := all[0].service().Panel()
		all[0].kill()
		s := all[0].start(t)
		if !bytes.Equal(s.Panel(), before) {
			t.Error("another panel after a restart")
		}
		if ok, _ := s.Right(); ok {
			t.Error("a right before anybody answered")
		}
		all[0].disk.(*disk).fill(true)
		f.nodes[f.add(folk[5]).id].cfg.Members = 0
		f.nodes[folk[5].id].start(t)
		p, _ := lease.OpenPanel(before)
		f.nodes[p.Members[0]].kill()
		time.Sleep(2 * time.Minute)
		if !bytes.Equal(s.Panel(), before) {
			t.Error("a panel is shown that is not on the disk")
		}
		all[0].disk.(*disk).fill(false)
		time.Sleep(2 * time.Minute)
		p, err := lease.OpenPanel(s.Panel())
		if err != nil || !slices.Contains(p.Members, folk[5].id) {
			t.Errorf("%+v, %v", p, err)
		}
	})
}

// A candidate that knows an old panel only is shown the new one, and asks again.
func TestAskFollowsPanels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, all := company(t, 6)
		defer f.end()
		time.Sleep(30 * time.Second)
		old := all[0].service().Panel()
		p, _ := lease.OpenPanel(old)
		dead := f.nodes[p.Members[0]]
		dead.kill()
		time.Sleep(time.Minute)
		now := all[0].service().Panel()
		all[0].kill()
		time.Sleep(all[0].cfg.Promise + time.Second) // a heartbeat may be on its way
		by := f.nodes[p.Members[1]]
		tally := question(t, by, all[0].id, old)
		if _, won := tally.Takeover(subnet); !won || !bytes.Equal(tally.Panel, now) {
			t.Errorf("votes %d, hear it %v, failed %v", len(tally.Votes[subnet]), tally.Hears, tally.Failed)
		}
	})
}
