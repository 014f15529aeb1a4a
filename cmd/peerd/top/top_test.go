package top

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"peerd/node/admin"
)

const evil = "\x1b[2J\r\n\tx"

// state returns a state after a number of seconds.
func state(seconds int64) statusMsg {
	s := admin.Status{PeerID: "12D3KooWabcdefghijk", Network: "net" + evil, UptimeS: 60 +
		float64(seconds), Fetches: 35 * seconds, BytesFetched: 2_000_000 * seconds,
		PeersConnected: 7, Blocked: []string{"disk " + evil},
		Health: admin.Health{State: admin.HealthHeldBack, Why: "the disk is full",
			Do: "free some space"}}
	return statusMsg{s, time.Unix(1000+seconds, 0)}
}

// reader is a table of a thousand rows, and what was read of it.
type reader struct{ asked []admin.Selection }

func (r *reader) read(v view, s admin.Selection) tea.Msg {
	r.asked = append(r.asked, s)
	m := rowsMsg{view: v, offset: s.Offset, total: 1000}
	for i := range s.Limit {
		m.rows = append(m.rows, []string{fmt.Sprintf("row%d%s", s.Offset+i, evil), "b", "c", "d"})
	}
	return m
}

// play applies messages and what their commands return. It reports whether the last one quits.
func play(t *testing.T, m model, msgs ...tea.Msg) (model, bool) {
	t.Helper()
	quits := false
	for _, msg := range msgs {
		for msg != nil {
			next, cmd := m.Update(msg)
			m, msg = next.(model), nil
			if cmd != nil {
				msg = cmd()
			}
			if _, quits = msg.(tea.QuitMsg); quits {
				break
			}
		}
	}
	return m, quits
}

func press(k string) tea.Msg {
	special := map[string]rune{"tab": tea.KeyTab, "down": tea.KeyDown, "up": tea.KeyUp,
		"pgdown": tea.KeyPgDown, "end": tea.KeyEnd, "home": tea.KeyHome, "left": tea.KeyLeft}
	if code, ok := special[k]; ok {
		return tea.KeyPressMsg{Code: code}
	}
	return tea.KeyPressMsg{Code: rune(k[0]), Text: k}
}

func size(w, h int) tea.Msg { return tea.WindowSizeMsg{Width: w, Height: h} }

// Every view fits into every screen, shows its contents, and no text from elsewhere controls the
// terminal.
func TestViews(t *testing.T) {
	wants := [views][]string{
		{"fetched", "peers        7 connected", "blocked      disk"},
		{"PEER", "DISTANCE", "row0", "sort: distance"}, {"SUBNET", "row1", "sort: URLs"},
		{"HOST", "row2"}, {"claimed subnet", "10.0.0.0/24"},
	}
	for _, colors := range []bool{false, true} {
		for _, at := range [][2]int{{60, 15}, {80, 24}, {203, 51}} {
			for v, want := range wants {
				m := newModel(colors)
				m.read = (&reader{}).read
				m, _ = play(t, m, size(at[0], at[1]), state(0), state(2),
					eventMsg{Level: "WARN", Subnet: "10.0.0.0/24", Text: "claimed subnet" + evil,
						At: time.Unix(5, 0)}, press(fmt.Sprint(v+1)))
				name := fmt.Sprintf("%s at %v, colors %v", titles[v], at, colors)
				lines := m.lines()
				if len(lines) != at[1] {
					t.Errorf("%s: %d lines", name, len(lines))
				}
				for _, l := range lines {
					if ansi.StringWidth(l) > at[0] || strings.ContainsAny(ansi.Strip(l),
						"\x1b\r\n\t") || strings.Contains(l, "\x1b[2J") {
						t.Errorf("%s: line %q", name, l)
					}
				}
				text := strings.Join(lines, "\n")
				if got := strings.Contains(text, "\x1b[3"); got != colors {
					t.Errorf("%s: has colors: %v", name, got)
				}
				text = ansi.Strip(text)
				for _, part := range append(want, "…defghijk", "up 1m2s", "q quit",
					"HELD BACK: the disk is full", "To do: free some space",
					"35.0 pages/s  2.0 MB/s") {
					if !strings.Contains(text, part) {
						t.Errorf("%s: lacks %q:\n%s", name, part, text)
					}
				}
			}
		}
	}
}

// What keys and messages do.
func TestUpdate(t *testing.T) {
	for name, c := range map[string]struct {
		msgs []tea.Msg
		want func(m model, quits bool, asked []admin.Selection) bool
	}{
		"quit": {[]tea.Msg{press("q")}, func(_ model, quits bool, _ []admin.Selection) bool {
			return quits
		}},
		"tab": {[]tea.Msg{press("tab")}, func(m model, _ bool, asked []admin.Selection) bool {
			return m.view == viewPeers && len(asked) == 1 && asked[0].Sort == "distance_ms" &&
				asked[0].Limit == 17
		}},
		"back": {[]tea.Msg{press("left")}, func(m model, _ bool, asked []admin.Selection) bool {
			return m.view == viewEvents && len(asked) == 0
		}},
		"scroll": {[]tea.Msg{press("3"), press("down"), press("down"), press("up")},
			func(m model, _ bool, asked []admin.Selection) bool {
				return m.tops[viewSubnets] == 1 && asked[len(asked)-1].Offset == 1
			}},
		"not before the first row": {[]tea.Msg{press("3"), press("up")},
			func(m model, _ bool, _ []admin.Selection) bool { return m.tops[viewSubnets] == 0 }},
		"end": {[]tea.Msg{press("3"), press("end"), press("pgdown")},
			func(m model, _ bool, _ []admin.Selection) bool {
				last := m.lines()[headLines+16]
				return m.tops[viewSubnets] == 1000-16 && strings.HasPrefix(last, "row999")
			}},
		"sort starts at the top": {[]tea.Msg{press("4"), press("end"), press("s")},
			func(m model, _ bool, asked []admin.Selection) bool {
				last := asked[len(asked)-1]
				return last.Sort == "-in_flight" && last.Offset == 0 && m.tops[viewQueue] == 0
			}},
		"a state reads the rows again": {[]tea.Msg{press("2"), state(2)},
			func(_ model, _ bool, asked []admin.Selection) bool { return len(asked) == 2 }},
		"no answer": {[]tea.Msg{state(0), lostMsg{errors.New("refused")}},
			func(m model, _ bool, _ []admin.Selection) bool {
				return strings.Contains(m.lines()[1], "DOES NOT ANSWER: refused")
			}},
		"an answer again": {[]tea.Msg{state(0), lostMsg{errors.New("refused")}, state(2)},
			func(m model, _ bool, _ []admin.Selection) bool {
				return strings.Contains(m.lines()[1], "HELD BACK")
			}},
		"no rate after a restart": {[]tea.Msg{state(20), state(0)},
			func(m model, _ bool, _ []admin.Selection) bool { return !m.rates.known }},
		"rows that cannot be read": {
			[]tea.Msg{press("2"), rowsMsg{view: viewPeers, err: errors.New("no rows")}},
			func(m model, _ bool, _ []admin.Selection) bool {
				return strings.Contains(strings.Join(m.lines(), "\n"), "no rows")
			}},
		"a small terminal": {[]tea.Msg{size(59, 15), state(0)},
			func(m model, _ bool, _ []admin.Selection) bool {
				return strings.Contains(m.lines()[1], "At least 60 and 15 are needed")
			}},
		"a tiny terminal": {[]tea.Msg{size(3, 1), press("2"), press("end"), state(0)},
			func(m model, _ bool, _ []admin.Selection) bool { return len(m.lines()) == 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			r := &reader{}
			m := newModel(false)
			m.read = r.read
			m, quits := play(t, m, append([]tea.Msg{size(80, 24)}, c.msgs...)...)
			if !c.want(m, quits, r.asked) {
				t.Errorf("quits %v, asked %+v:\n%s", quits, r.asked, strings.Join(m.lines(), "\n"))
			}
		})
	}
}

// While rows are read, they are not read again; what has changed meanwhile is read afterwards.
func TestOneReadAtATime(t *testing.T) {
	m := newModel(false)
	m.read = (&reader{}).read
	step := func(msg tea.Msg) tea.Cmd {
		next, cmd := m.Update(msg)
		m = next.(model)
		return cmd
	}
	step(size(80, 24))
	first := step(press("2"))
	if first == nil || step(state(0)) != nil || step(press("down")) != nil {
		t.Fatal("the rows are read twice at a time")
	}
	if step(first()) == nil {
		t.Error("the rows are not read after the key")
	}
}

// The events are bounded, and those in sight stay in sight.
func TestEventsAreBounded(t *testing.T) {
	m := newModel(false)
	m, _ = play(t, m, size(80, 24), press("5"))
	for i := range 2 * maxEvents {
		m, _ = play(t, m, eventMsg{Seq: uint64(i), Text: fmt.Sprint("event ", i)})
	}
	if len(m.events) != maxEvents {
		t.Errorf("%d events are kept, want %d", len(m.events), maxEvents)
	}
	m, _ = play(t, m, press("down"))
	before := m.lines()[headLines]
	m, _ = play(t, m, eventMsg{Text: "another"})
	if after := m.lines()[headLines]; after != before {
		t.Errorf("the first line was %q, is %q", before, after)
	}
}
