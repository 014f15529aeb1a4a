package peers

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/internal/clock"
)

// A meeting is a network of which two sides, a and b, are apart while x joins the one and y the
// other. Then they meet again.
type meeting struct {
	at  map[peer.ID]*clockedDirectory
	who map[peer.ID]*newcomers
}

func sideOf(p peer.ID) byte {
	return map[byte]byte{'a': 'a', 'x': 'a', 'b': 'b', 'y': 'b'}[p[0]]
}

func late(p peer.ID) bool { return p == "x" || p == "y" }

func newMeeting(as, bs int) *meeting {
	m := &meeting{map[peer.ID]*clockedDirectory{}, map[peer.ID]*newcomers{}}
	for i := range as {
		m.join(peer.ID(fmt.Sprint("a", i)))
	}
	for i := range bs {
		m.join(peer.ID(fmt.Sprint("b", i)))
	}
	m.pass(time.Minute, false)
	m.pass(3*time.Minute, true)
	m.join("x")
	m.join("y")
	for p, n := range m.who {
		for _, q := range []peer.ID{"x", "y"} {
			if p != q && sideOf(p) == sideOf(q) {
				m.who[q].told(p, n.absentFor(q))
			}
		}
	}
	m.pass(2*time.Minute, true)
	return m
}

func (m *meeting) join(p peer.ID) {
	m.at[p] = testDirectory(p, 10)
	for _, d := range m.at {
		m.at[p].now = clock.Later(m.at[p].now, d.now)
	}
	m.who[p] = newNewcomers(m.at[p].Directory)
}

// pass lets time go by in which all hear each other, members first, or only those on their own
// side.
func (m *meeting) pass(by time.Duration, apart bool) {
	for i := range int(by / (5 * time.Second)) {
		for _, d := range m.at {
			d.now = d.now.Add(5 * time.Second)
		}
		for p, d := range m.at {
			for q := range m.at {
				if p != q && (sideOf(p) == sideOf(q) || !apart && (i > 0 || !late(q))) {
					d.Touch(q)
				}
			}
		}
	}
}

// tell lets all of both sides meet and tell each other who joined; silent do not tell.
func (m *meeting) tell(silent ...peer.ID) {
	m.pass(10*time.Second, false)
	for _, p := range silent {
		delete(m.who, p)
	}
	for by, n := range m.who {
		for to, o := range m.who {
			if by != to {
				o.toldJoined(by, n.joinedHere())
			}
		}
	}
}

// Members that meet again know who joined on the other side: while the members of this side were
// away. Who joined on this side did so while those of the other one were away.
func TestJoinedElsewhere(t *testing.T) {
	t.Parallel()
	m := newMeeting(3, 2)
	m.tell()
	for p, n := range m.who {
		for q := range m.who {
			_, ok := n.JoinedElsewhere(q)
			if want := sideOf(p) != sideOf(q) && late(q); ok != want {
				t.Errorf("%s: %s joined elsewhere: %t, want %t", string(p), string(q), ok, want)
			}
			for w := range m.who {
				if want := late(q) && !late(w) && sideOf(q) != sideOf(w); p != w &&
					n.Joined(q, w) != want {
					t.Errorf("%s: %s joined while %s was away: %t, want %t", string(p), string(q),
						string(w), !want, want)
				}
			}
		}
	}
	m.who["x"].toldJoined("b0", []peer.ID{"x"})
	m.who["x"].toldJoined("b1", []peer.ID{"x"})
	if _, ok := m.who["x"].JoinedElsewhere("x"); ok {
		t.Error("a peer believes that it joined elsewhere itself")
	}
	m.pass(tellFor, false)
	if _, ok := m.who["a0"].JoinedElsewhere("y"); ok || len(m.who["a0"].joinedHere()) > 0 {
		t.Error("a peer that joined elsewhere is one of those for ever")
	}
}

// One peer that was away is not believed, nor a peer that was not away.
func TestJoinedElsewhereTellers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		as, bs int
		silent []peer.ID
		tell   func(m *meeting)
		want   bool
	}{
		"two of two":   {3, 2, nil, func(*meeting) {}, true},
		"one of one":   {3, 1, nil, func(*meeting) {}, false},
		"two of three": {3, 3, []peer.ID{"b0"}, func(*meeting) {}, true},
		"two of four": {3, 4, nil, func(m *meeting) {
			m.who["a0"].toldJoined("b0", nil)
			m.who["a0"].toldJoined("b1", nil)
		}, false},
		"one, and others that were here": {3, 1, nil, func(m *meeting) {
			m.who["a0"].toldJoined("a1", []peer.ID{"y"})
			m.who["a0"].toldJoined("a2", []peer.ID{"y"})
		}, false},
		"who was known before": {3, 2, nil, func(m *meeting) {
			l := m.at["a0"].lives["y"]
			l.first = l.first.Add(-m.at["a0"].lifetime(l) - 10*time.Second)
		}, false},
		"who is known by a relayed beacon": {3, 2, nil, func(m *meeting) {
			l := m.at["a0"].lives["y"]
			l.first = l.first.Add(-time.Minute)
		}, true},
	} {
		m := newMeeting(c.as, c.bs)
		m.tell(c.silent...)
		c.tell(m)
		if _, ok := m.who["a0"].JoinedElsewhere("y"); ok != c.want {
			t.Errorf("%s: %t, want %t", name, ok, c.want)
		}
	}
}

// More names than may be told, or longer ones, are not kept, and no more than may be told are sent.
func TestJoinedLimits(t *testing.T) {
	t.Parallel()
	for name, all := range map[string][]peer.ID{
		"too many": make([]peer.ID, maxAbsent+1),
		"too long": {peer.ID(strings.Repeat("x", maxName+1))},
	} {
		if err := checkJoined(all); !errors.Is(err, ErrBeacon) {
			t.Errorf("%s: %v, want ErrBeacon", name, err)
		}
	}
	for seconds, want := range map[int]int{30: 0, 40: 10, 2 * maxAbsent: maxAbsent} {
		d := testDirectory("me", 10)
		n := newNewcomers(d.Directory)
		d.Touch("away")
		for i := range seconds {
			d.now = d.now.Add(time.Second)
			d.Touch(peer.ID(fmt.Sprint("new", i+1)))
		}
		d.now = d.now.Add(time.Second)
		d.Touch("away")
		all := n.joinedHere()
		if len(all) != want || want > 0 && all[0] != peer.ID(fmt.Sprint("new", seconds)) {
			t.Errorf("joined in %d s: %v, want the last %d", seconds, all, want)
		}
		if err := checkJoined(all); err != nil {
			t.Error(err)
		}
	}
}
