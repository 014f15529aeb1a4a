package wire

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"pgregory.net/rapid"
)

func member(i int, near int, old bool) party {
	w := party{peer: peer.ID(fmt.Sprint("peer", i)), met: true, old: old}
	if near > 0 {
		w.near = netip.PrefixFrom(netip.AddrFrom4([4]byte{11, 0, byte(near), 0}), 24)
	}
	return w
}

// No share is ever exceeded but by one that has all of it, nothing is lost, and after all was
// released everything can be taken again.
func TestSharesAreKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &shares{total: 100, peer: 25, near: 50, young: 75}
		type holding struct {
			w party
			n int
		}
		var held []holding
		sum := func(match func(party) bool) (n int) {
			for _, h := range held {
				if match(h.w) {
					n += h.n
				}
			}
			return n
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(held) > 0 && rapid.Bool().Draw(t, "release") {
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				s.release(held[i].w, held[i].n)
				held = append(held[:i], held[i+1:]...)
				continue
			}
			i := rapid.IntRange(0, 9).Draw(t, "peer")
			h := holding{member(i, i%4, i > 6), rapid.IntRange(1, 25).Draw(t, "n")}
			before := map[string][2]int{
				"total": {sum(func(party) bool { return true }), s.total},
				"peer":  {sum(func(w party) bool { return w.peer == h.w.peer }), s.peer},
			}
			if h.w.near.IsValid() {
				inNear := func(w party) bool { return w.near == h.w.near }
				before["near"] = [2]int{sum(inNear), s.near}
			}
			if !h.w.old {
				before["young"] = [2]int{sum(func(w party) bool { return !w.old }), s.young}
			}
			want := true
			for _, b := range before {
				want = want && b[0]+h.n <= b[1]
			}
			if got := s.take(h.w, h.n, 0); got != want {
				t.Fatalf("take(%v, %d) = %v with %v, want %v", h.w, h.n, got, before, want)
			} else if got {
				held = append(held, h)
			}
		}
		for _, h := range held {
			s.release(h.w, h.n)
		}
		if s.used != 0 || s.recent != 0 || len(s.peers) != 0 || len(s.nears) != 0 {
			t.Fatalf("after all releases %+v is left", s)
		}
	})
}

// However many keys and networks an attacker has, a peer that was met long ago finds room.
func TestReserveForOldFriends(t *testing.T) {
	s := placeShares(maxConversations)
	taken := 0
	for i := range 10 * maxConversations {
		if s.take(member(i, 1+i%250, false), 1, 0) {
			taken++
		}
	}
	if want := maxConversations * 7 / 8; taken != want {
		t.Errorf("new peers took %d places, want %d", taken, want)
	}
	if !s.take(member(-1, 251, true), 1, 0) {
		t.Error("take() = false for a peer that was met long ago, want true")
	}
	one := placeShares(maxConversations)
	for i := range 10 * maxConversations {
		one.take(member(i, 1, false), 1, 0) // many keys at one site
	}
	if !one.take(member(-1, 2, false), 1, 0) {
		t.Error("take() = false for a new peer of another network, want true")
	}
}

// A large message passes alone, and a waiting one when there is room again.
func TestSharesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memoryShares(400)
		a, b := member(1, 0, false), member(2, 0, false)
		if !s.take(a, 100, 0) || s.take(a, 1, 0) || !s.take(a, 90, 100) {
			t.Error("a peer could not take its share, or more with another message, " +
				"or not more for the same one")
		}
		if !s.take(b, 100, 0) {
			t.Error("another peer could not take its share")
		}
		go func() {
			time.Sleep(time.Second)
			s.release(b, 100)
		}()
		begin := time.Now()
		if !s.takeWithin(t.Context(), b, 50, 0, time.Minute) || time.Since(begin) != time.Second {
			t.Errorf("waited %v, want until the release after 1s", time.Since(begin))
		}
		if s.takeWithin(t.Context(), b, 60, 0, time.Minute) ||
			time.Since(begin) != time.Second+time.Minute {
			t.Errorf("waited %v in vain, want a minute longer", time.Since(begin))
		}
	})
}
