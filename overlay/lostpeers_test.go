package overlay

import (
	"fmt"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
)

func lostPeerInfo(i int) peer.AddrInfo {
	return peer.AddrInfo{ID: peer.ID(fmt.Sprint("peer ", i)),
		Addrs: []ma.Multiaddr{ma.StringCast("/ip4/192.0.2.1/tcp/1")}}
}

// A lost member is tried soon, then with increasing delay, and forever.
func TestLostPeersRetriedForever(t *testing.T) {
	var l lostPeers
	disconnected := func(peer.ID) bool { return false }
	now := time.Unix(1_800_000_000, 0)
	l.add(lostPeerInfo(1), now, false)
	l.add(peer.AddrInfo{ID: "nowhere"}, now, false)
	var waits []time.Duration
	last := now
	for end := now.Add(24 * time.Hour); now.Before(end); now = now.Add(time.Second) {
		infos, tried := l.due(now, 4, disconnected)
		if len(infos) == 0 {
			continue
		}
		waits = append(waits, now.Sub(last))
		if last = now; tried != len(waits) || infos[0].ID != lostPeerInfo(1).ID || len(infos) != 1 {
			t.Fatalf("due = %v, %d, want only peer 1 and %d tries", infos, tried, len(waits))
		}
	}
	if waits[0] > lostRetryMin*5/4+time.Second {
		t.Errorf("first tried after %v, want about %v", waits[0], lostRetryMin)
	}
	for i, w := range waits[5:] {
		if w < lostRetryMax*3/4 || w > lostRetryMax*5/4+time.Second {
			t.Errorf("attempt %d came after %v, want about %v", i+5, w, lostRetryMax)
		}
	}
	if n := len(waits); n < 24*30*3/4 {
		t.Errorf("tried %d times in a day, want about %d", n, 24*30)
	}
	if infos, _ := l.due(now.Add(time.Hour), 4, func(peer.ID) bool {
		return true
	}); len(infos) != 0 || len(l.list()) != 0 {
		t.Errorf("due = %v with %d remembered, want none: the peer is connected",
			infos, len(l.list()))
	}
}

// Some of many are tried at a time, all in turn, and the oldest are forgotten.
func TestLostPeersBounded(t *testing.T) {
	var l lostPeers
	now := time.Unix(1_800_000_000, 0)
	for i := range maxLost + 8 {
		l.add(lostPeerInfo(i), now.Add(time.Duration(i)*time.Millisecond), false)
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
		t.Errorf("%d of %d were tried, want %d of %d", len(seen), len(l.list()), maxLost, maxLost)
	}
	for i := range 8 {
		if seen[lostPeerInfo(i).ID] {
			t.Errorf("peer %d is remembered, want the oldest forgotten", i)
		}
	}
}

// However many peers are found on the local network, no lost member is forgotten for them.
func TestFoundPeersDisplaceNoMember(t *testing.T) {
	var l lostPeers
	now := time.Unix(1_800_000_000, 0)
	for i := range maxLost {
		l.add(lostPeerInfo(-i), now, true)
	}
	for i := range maxLost {
		now = now.Add(time.Second)
		l.add(lostPeerInfo(1+i), now, false)
		l.add(lostPeerInfo(-maxLost-i), now, true)
	}
	members := 0
	for i := range maxLost {
		if l.all[lostPeerInfo(1+i).ID] != nil {
			members++
		}
	}
	if members != maxLost || len(l.all) != maxLost {
		t.Errorf("%d members of %d peers are remembered, want %d of as many", members, len(l.all),
			maxLost)
	}
}

// A peer that was found is tried for an hour since it was found last.
func TestFoundPeersAreForgotten(t *testing.T) {
	var l lostPeers
	disconnected := func(peer.ID) bool { return false }
	start := time.Unix(1_800_000_000, 0)
	l.add(lostPeerInfo(1), start, true)
	l.add(lostPeerInfo(2), start, true)
	l.add(lostPeerInfo(3), start, false)
	l.add(lostPeerInfo(2), start.Add(53*time.Minute), true)
	last := map[peer.ID]time.Duration{}
	for at := time.Duration(0); at < 3*time.Hour; at += time.Second {
		infos, _ := l.due(start.Add(at), 4, disconnected)
		for _, i := range infos {
			last[i.ID] = at
		}
	}
	for i, want := range []time.Duration{time.Hour, 113 * time.Minute, 3 * time.Hour} {
		if got := last[lostPeerInfo(i+1).ID]; got > want || got < want-3*time.Minute {
			t.Errorf("peer %d was last tried after %v, want about %v", i+1, got, want)
		}
	}
	if len(l.all) != 1 {
		t.Errorf("%d peers are remembered, want the lost member", len(l.all))
	}
}

// A peer that is alone tries all peers it knows of, one batch after the other.
func TestCandidatesTakeTurns(t *testing.T) {
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
	const many = 3*dialBatch + 5
	for i := range many { // the IDs need not be valid
		n.cfg.Known = append(n.cfg.Known, lostPeerInfo(i), lostPeerInfo(i))
	}
	j := newJoiner(n)
	seen := map[peer.ID]int{}
	for range 4 {
		some := j.nextCandidates()
		if len(some) > dialBatch {
			t.Errorf("%d candidates at once, want at most %d", len(some), dialBatch)
		}
		for _, i := range some {
			seen[i.ID] += len(i.Addrs)
		}
	}
	for i := range many {
		if seen[lostPeerInfo(i).ID] != 1 {
			t.Errorf("peer %d was listed with %d addresses, want 1", i, seen[lostPeerInfo(i).ID])
		}
	}
}
