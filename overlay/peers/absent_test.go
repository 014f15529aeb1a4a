package peers

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// A peer that joins is told of the members that are away and were once connected, and whether they
// may know it.
func TestAbsentFor(t *testing.T) {
	t.Parallel()
	d := testDirectory("me", 10)
	n := newNewcomers(d.Directory)
	begin := d.now
	pass := func(by time.Duration) { d.now = d.now.Add(by) }
	d.Touch("wiped")
	d.Touch("early")
	d.mu.Lock()
	d.hear("hearsay", d.now, d.now)
	d.mu.Unlock()
	pass(time.Second)
	d.Touch("late")
	pass(5 * time.Second)
	d.Touch("soon") // others may have heard of it already
	pass(2 * time.Minute)
	d.Touch("wiped")
	d.Touch("new")
	for to, want := range map[peer.ID]string{
		"wiped":   "[late false early false]",
		"soon":    "[late false early false]",
		"new":     "[late true early true]",
		"unheard": "[late true early true]",
		"late":    "[early false]",
	} {
		var got []string
		for _, a := range n.absentFor(to) {
			if a.Peer != "soon" {
				got = append(got, fmt.Sprint(string(a.Peer), " ", a.Stranger))
			}
		}
		if fmt.Sprint(got) != want {
			t.Errorf("to %s: %v, want %s", string(to), got, want)
		}
	}
	pass(time.Minute)
	d.Touch("late")
	if !n.Joined("new", "late") || n.Joined("wiped", "late") || n.Joined("late", "new") ||
		n.Joined("new", "unheard") {
		t.Error("who joined while another was away is not known when that one is back")
	}
	pass(time.Second)
	d.Touch("newer")
	if n.Joined("newer", "late") {
		t.Error("who joined afterwards has joined while it was away")
	}
	for i := range 2 * maxAbsent {
		d.now = begin.Add(time.Duration(i) * time.Second)
		d.Touch(peer.ID(fmt.Sprint("many", i)))
	}
	pass(time.Hour)
	if got := n.absentFor("new"); len(got) != maxAbsent || got[0].Peer != "newer" {
		t.Errorf("%d names, the first %v, want the last %d", len(got), got[0], maxAbsent)
	}
}

// A peer believes what most of those told it that it met when it joined.
func TestAbsent(t *testing.T) {
	t.Parallel()
	d := testDirectory("me", 10)
	n := newNewcomers(d.Directory)
	check := func(what string, away, stranger bool) {
		t.Helper()
		if a, s := n.Absent("away"); a != away || s != stranger {
			t.Errorf("%s: Absent() = %t, %t, want %t, %t", what, a, s, away, stranger)
		}
	}
	check("none has told", false, false)
	n.told("a", []absent{{Peer: "away"}})
	check("one has told", true, false)
	n.told("a", []absent{{Peer: "away", Stranger: true}})
	check("it has told again", true, true)
	n.told("b", nil)
	check("one of two", false, false)
	n.told("c", []absent{{Peer: "away"}, {Peer: "other"}})
	check("two of three, one of them that it is a stranger", true, false)
	for i := range 2 * maxTellers {
		n.told(peer.ID(fmt.Sprint("liar", i)), []absent{{Peer: "made up"}})
	}
	if len(n.accounts) != maxTellers {
		t.Errorf("%d accounts, want %d", len(n.accounts), maxTellers)
	}
	n = newNewcomers(d.Directory)
	d.now = d.now.Add(JoiningFor)
	n.told("a", []absent{{Peer: "away"}})
	check("after it joined", false, false)
}

// More names than may be told, or longer ones, are not kept.
func TestAbsentLimits(t *testing.T) {
	t.Parallel()
	d := testDirectory("me", 10)
	x := &exchanger{env: &env{dims: testDims}, joining: newNewcomers(d.Directory)}
	for name, all := range map[string][]absent{
		"too many": make([]absent, maxAbsent+1),
		"too long": {{Peer: peer.ID(strings.Repeat("x", maxName+1))}},
	} {
		err := x.finishExchange(Exchange{Peer: "x", At: testBeacon("", 1, d.now).At}, nil,
			thirdPeers{absent: all})
		if !errors.Is(err, ErrBeacon) || len(x.joining.accounts) > 0 {
			t.Errorf("%s: %v, %d accounts, want ErrBeacon and none", name, err,
				len(x.joining.accounts))
		}
	}
	if err := checkAbsent([]absent{{Peer: peer.ID(strings.Repeat("x", maxName))}}); err != nil {
		t.Error(err)
	}
}
