package overlay

import (
	"fmt"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
)

func lostInfo(i int) peer.AddrInfo {
	return peer.AddrInfo{ID: peer.ID(fmt.Sprint("peer ", i)), Addrs: []ma.Multiaddr{ma.StringCast("/ip4/192.0.2.1/tcp/1")}}
}

// A lost member is tried soon, then ever seldomer, and never given up.
func TestLostAreTriedForEver(t *testing.T) {
	var l lost
	nobody := func(peer.ID) bool { return false }
	now := time.Unix(1_800_000_000, 0)
	l.note(lostInfo(1), now)
	l.note(peer.AddrInfo{ID: "nowhere"}, now)
	var waits []time.Duration
	last := now
	for end := now.Add(24 * time.Hour); now.Before(end); now = now.Add(time.Second) {
		infos, tried := l.due(now, 4, nobody)
		if len(infos) == 0 {
			continue
		}
		waits = append(waits, now.Sub(last))
		if last = now; tried != len(waits) || infos[0].ID != lostInfo(1).ID || len(infos) != 1 {
			t.Fatalf("%v, tried %d times, after %d", infos, tried, len(waits))
		}
	}
	if waits[0] > lostFirst*5/4+time.Second {
		t.Errorf("first tried after %v", waits[0])
	}
	for i, w := range waits[5:] {
		if w < lostLast*3/4 || w > lostLast*5/4+time.Second {
			t.Errorf("attempt %d after %v", i+5, w)
		}
	}
	if n := len(waits); n < 24*30*3/4 {
		t.Errorf("tried %d times in a day", n)
	}
	if infos, _ := l.due(now.Add(time.Hour), 4, func(peer.ID) bool { return true }); len(infos) != 0 || len(l.list()) != 0 {
		t.Error("tried, or remembered, although it is back")
	}
}

// Of many some are tried at a time, all in turn, and the oldest are forgotten.
func TestLostAreBounded(t *testing.T) {
	var l lost
	now := time.Unix(1_800_000_000, 0)
	for i := range maxLost + 8 {
		l.note(lostInfo(i), now.Add(time.Duration(i)*time.Millisecond))
	}
	now = now.Add(time.Minute)
	seen := map[peer.ID]bool{}
	for range maxLost / 4 {
		infos, _ := l.due(now, 4, func(peer.ID) bool { return false })
		for _, i := range infos {
			seen[i.ID] = true
		}
	}
	if len(seen) != maxLost || len(l.list()) != maxLost {
		t.Errorf("%d of %d tried", len(seen), len(l.list()))
	}
	for i := range 8 {
		if seen[lostInfo(i).ID] {
			t.Errorf("the %d. is still there", i)
		}
	}
}

// Who is alone turns to everybody it knows of, one after the other.
func TestEverybodyHasHisTurn(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Key, cfg.Network, cfg.Listen = testKey(t, 1), "test-net", []string{"/ip4/127.0.0.1/tcp/0"}
	n, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	const many = 3*dialAtMost + 5
	for i := range many { // they need not be names that anybody could dial
		n.cfg.Known = append(n.cfg.Known, lostInfo(i), lostInfo(i))
	}
	j := newJoiner(n)
	seen := map[peer.ID]int{}
	for range 4 {
		some := j.everybody()
		if len(some) > dialAtMost {
			t.Errorf("%d at once", len(some))
		}
		for _, i := range some {
			seen[i.ID] += len(i.Addrs)
		}
	}
	for i := range many {
		if seen[lostInfo(i).ID] != 1 {
			t.Errorf("peer %d was named %d times", i, seen[lostInfo(i).ID])
		}
	}
}
