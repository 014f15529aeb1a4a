package witness

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/lease"
)

func TestConfigNamesEveryFault(t *testing.T) {
	err := Config{Members: 3, Interval: time.Second, Hold: time.Second}.Validate()
	for _, want := range []string{"Host", "Store", "Members", "Interval", "Promise"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not named in: %v", want, err)
		}
	}
}

// sealedPanel is a panel of folk[0].
func sealedPanel(t testing.TB, seq uint64, members ...someone) (lease.Panel, []byte) {
	t.Helper()
	p := lease.Panel{Owner: folk[0].id, Seq: seq, Members: ids(sorted(members)), Issued: time.Now()}
	b, err := lease.SealPanel(p, folk[0].key)
	if err != nil {
		t.Fatal(err)
	}
	p, err = lease.OpenPanel(b)
	if err != nil {
		t.Fatal(err)
	}
	return p, b
}

// A witness refuses for each of its reasons.
func TestGuardRefuses(t *testing.T) {
	cfg := DefaultConfig()
	boot := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	p2, s2 := sealedPanel(t, 2, folk[1:5]...)
	p1, s1 := sealedPanel(t, 1, folk[1:5]...)
	twin, st := sealedPanel(t, 2, folk[1], folk[2])
	other, so := sealedPanel(t, 3, folk[2:6]...)
	one := []step{{subnet, 2}}
	up := boot.Add(cfg.Promise)
	for name, c := range map[string]struct {
		fresh bool
		beat  []byte // with this panel, at the boot
		at    time.Time
		to    someone
		p     lease.Panel
		s     []byte
		want  verdict
	}{
		"votes":                      {false, nil, up, folk[6], p2, s2, votes},
		"not up for long enough":     {false, nil, up.Add(-1), folk[6], p2, s2, young},
		"lost its disk":              {true, nil, boot.Add(ReviveAfter - 1), folk[6], p2, s2, young},
		"lost its disk, long ago":    {true, nil, boot.Add(ReviveAfter), folk[6], p2, s2, votes},
		"hears the owner":            {false, s2, up.Add(-1), folk[6], p2, s2, young},
		"heard the owner once":       {false, s2, up, folk[6], p2, s2, votes},
		"knows a newer panel":        {false, s2, up, folk[6], p1, s1, newer},
		"knows another of equal age": {false, s2, up, folk[6], twin, st, stranger},
		"is no member":               {false, nil, up, folk[6], other, so, stranger},
		"the owner asks":             {false, nil, up, folk[0], p2, s2, stranger},
		"is the candidate":           {false, nil, up, folk[1], p2, s2, votes},
	} {
		g := newGuard(folk[1].id, cfg, boot, 7, c.fresh)
		if c.beat != nil {
			if _, err := g.beat(boot, folk[0].id, beat{Panel: c.beat}); err != nil {
				t.Fatal(err)
			}
		}
		v, _, known := g.vote(c.at, c.to.id, c.p, c.s, one, 1)
		if v != c.want || (v == newer) != bytes.Equal(known, s2) {
			t.Errorf("%s: verdict %d, want %d", name, v, c.want)
		}
	}
	g := newGuard(folk[0].id, cfg, boot, 7, false)
	if v, _, _ := g.vote(up, folk[6].id, p2, s2, one, 1); v != hears {
		t.Errorf("the owner itself: verdict %d", v)
	}
	g = newGuard(folk[1].id, cfg, boot, 7, false)
	if _, err := g.beat(boot, folk[6].id, beat{Panel: s2}); !errors.Is(err, ErrMessage) {
		t.Errorf("another's panel in a heartbeat: %v", err)
	}
}

// One vote a subnet, for as long as its candidate may use it.
func TestGuardVotesOnce(t *testing.T) {
	cfg := DefaultConfig()
	boot := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	p, sealed := sealedPanel(t, 1, folk[1:5]...)
	g := newGuard(folk[1].id, cfg, boot, 7, false)
	up := boot.Add(cfg.Promise)
	gets := func(at time.Time, to someone, epoch uint64) bool {
		v, yes, _ := g.vote(at, to.id, p, sealed, []step{{subnet, epoch}}, 1)
		return v == votes && yes[0]
	}
	for i, c := range []struct {
		at    time.Duration
		to    someone
		epoch uint64
		want  bool
	}{
		{0, folk[2], 2, true}, {0, folk[2], 2, true}, {0, folk[3], 2, false}, {0, folk[3], 3, false},
		{VoteLife - 1, folk[3], 2, false}, {VoteLife, folk[3], 2, true}, {VoteLife, folk[2], 2, false},
	} {
		if gets(up.Add(c.at), c.to, c.epoch) != c.want {
			t.Errorf("%d: at %v, epoch %d: want %v", i, c.at, c.epoch, c.want)
		}
	}
	for _, d := range []struct {
		to  someone
		try uint64
	}{{folk[2], 1}, {folk[3], 2}, {folk[3], 0}} { // another's, of another asking, of none
		if gone := g.drop(d.to.id, folk[0].id, []step{{subnet, 2}}, d.try); len(gone) != 0 {
			t.Errorf("%v drops the vote by name %d", d.to.id, d.try)
		}
	}
	if len(g.expire(up.Add(2*VoteLife-1))) != 0 || len(g.expire(up.Add(2*VoteLife))) != 0 {
		t.Error("forgotten though nobody was told")
	}
	g.settled(subnet, 2)
	if gone := g.expire(up.Add(2 * VoteLife)); len(gone[folk[0].id]) != 1 || g.count != 0 {
		t.Errorf("settled: %v, %d left", gone, g.count)
	}
	if !gets(up.Add(3*VoteLife), folk[4], 2) {
		t.Error("a forgotten vote still binds")
	}
	if gone := g.expire(up.Add(3*VoteLife + Forget + 1)); len(gone) != 1 {
		t.Error("kept for ever")
	}
}

// Two candidates with two votes each do not bind the witnesses: the next one wins.
func TestSplitVotesAreGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, all := company(t, 8)
		defer f.end()
		time.Sleep(30 * time.Second)
		panel := all[0].service().Panel()
		p, _ := lease.OpenPanel(panel)
		all[0].kill()
		time.Sleep(all[0].cfg.Promise + time.Second)
		var by []*node
		for _, n := range all[1:] {
			if !p.Has(n.id) {
				by = append(by, n)
			}
		}
		for i, m := range p.Members { // each reaches two
			f.cut[[2]peer.ID{by[i%2].id, m}] = true
		}
		for _, n := range by[:2] {
			if tally := question(t, n, all[0].id, panel); len(tally.Votes[subnet]) != 2 {
				t.Errorf("%d votes", len(tally.Votes[subnet]))
			}
		}
		if tally := question(t, by[2], all[0].id, panel); len(tally.Votes[subnet]) < 3 {
			t.Errorf("the third gets %d votes", len(tally.Votes[subnet]))
		}
		if tally := question(t, by[0], all[0].id, panel); len(tally.Votes[subnet]) != 0 {
			t.Error("a vote that is in use was given away")
		}
	})
}
