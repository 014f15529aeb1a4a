package lease

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
)

// explore_model_test.go has the states and the rules; this file visits them.

type xMove struct {
	do     func(*xWorld)
	format string // formatted only for a trace
	args   []any
}

func (m *xModel) moves(w *xWorld) (list []xMove) {
	add := func(do func(*xWorld), format string, args ...any) {
		list = append(list, xMove{do, format, args})
	}
	for i, x := range w.net {
		if slices.ContainsFunc(w.net[:i], func(y xMessage) bool { return y.by == x.by }) {
			continue
		}
		rest := func(w *xWorld) { w.net = slices.Delete(w.net, i, i+1) }
		add(func(w *xWorld) { rest(w); m.deliver(w, x) }, "%v arrives", x)
		if w.faults > 0 {
			later := func(w *xWorld) { w.faults--; rest(w); w.late = append(w.late, x) }
			add(func(w *xWorld) { w.faults--; rest(w) }, "%v is lost", x)
			add(later, "%v is late", x)
			add(func(w *xWorld) { later(w); m.deliver(w, x) }, "%v arrives, and later again", x)
		}
	}
	for i, x := range w.late {
		add(func(w *xWorld) { w.late = slices.Delete(w.late, i, i+1); m.deliver(w, x) },
			"late %v arrives", x)
	}
	for p := range m.claimants {
		m.claims(w, p, add)
	}
	if w.acts > 0 && (m.start != nil || m.settledOn(w, 0)) {
		m.attacks(w, add)
	}
	if w.faults > 0 && m.crash {
		add(func(w *xWorld) {
			w.faults--
			for h := range w.holders {
				w.holders[h].seen = [3]int8{-1, -1, -1}
				if m.off == xSaved {
					w.holders[h].bound = -1
				}
			}
		}, "the holders start again")
	}
	if w.ticks > 0 && len(w.net) == 0 {
		add(func(w *xWorld) { w.ticks--; m.tick(w) }, "time passes")
	}
	return list
}

type xAdder func(do func(*xWorld), format string, args ...any)

// claims adds what a claimant can do.
func (m *xModel) claims(w *xWorld, p int8, add xAdder) {
	waits := slices.ContainsFunc(w.net, func(x xMessage) bool { return x.by == p })
	switch w.peers[p].phase {
	case xIdle:
		add(func(w *xWorld) { m.begin(w, p) }, "%c claims", 'A'+p)
	case xCollecting:
		if !waits {
			add(func(w *xWorld) { m.write(w, p) }, "%c writes its claim", 'A'+p)
		}
	case xWritten:
		for h := int8(0); h < m.n() && len(w.net) == 0; h++ {
			add(func(w *xWorld) { m.readBack(w, p, h) }, "%c reads back but from %d", 'A'+p, h)
		}
	}
}

// attacks adds what the stranger can do, once it has seen A's claim at most holders.
func (m *xModel) attacks(w *xWorld, add xAdder) {
	x := m.steal(w)
	for h := range m.n() {
		add(func(w *xWorld) {
			w.acts--
			m.store(w, h, x)
			if m.signs(w, h, xStranger) {
				w.signed |= 1 << h
			}
		}, "the stranger writes to holder %d", h)
	}
	for p := range m.claimants {
		if w.peers[p].phase != xIdle {
			add(func(w *xWorld) { w.acts--; m.learn(w, p, x) }, "the stranger shows it to %c",
				'A'+p)
		}
	}
}

// visit explores what follows from a state.
func (m *xModel) visit(w *xWorld) {
	key := w.key()
	if m.broken != "" || m.seen[key] {
		return
	}
	m.seen[key] = true
	if len(w.net) == 0 {
		if m.check(w.clone()); m.broken != "" {
			return
		}
	}
	for _, mv := range m.moves(w) {
		next := w.clone()
		mv.do(next)
		if m.visit(next); m.broken != "" {
			m.trace = append(m.trace, fmt.Sprintf(mv.format, mv.args...)) // the last move first
			return
		}
	}
}

// check lets a state go on without faults: there is one owner then, and the stranger is none.
func (m *xModel) check(w *xWorld) {
	begun := false
	for p := range m.claimants {
		begun = begun || w.peers[p].phase != xIdle
	}
	if !begun {
		return
	}
	w.late, w.faults, w.acts = nil, 0, 0
	for range 4 {
		for len(w.net) > 0 {
			x := w.net[0]
			w.net = w.net[1:]
			m.deliver(w, x)
		}
		for p := range m.claimants {
			if w.peers[p].phase == xCollecting {
				m.write(w, p)
			}
		}
	}
	for p := range m.claimants {
		if w.peers[p].phase == xWritten {
			m.readBack(w, p, 0)
		}
	}
	for range m.n() + 1 {
		m.tick(w)
	}
	var owners, stolen int
	for p := range m.claimants {
		if w.peers[p].phase == xOwner {
			owners++
		}
	}
	for _, h := range w.holders {
		if h.held.by == xStranger {
			stolen++
		}
	}
	switch {
	case owners > 1:
		m.broken = "two owners"
	case owners == 0 && stolen > 0:
		m.broken = "the stranger has the subnet"
	case owners == 0:
		m.broken = "no owner"
	}
}

func (m *xModel) run() {
	w := &xWorld{xState: xState{faults: m.faults, acts: m.acts, ticks: m.ticks}}
	for h := range w.holders {
		w.holders[h] = xHolder{held: xNone, bound: -1, seen: [3]int8{-1, -1, -1}}
	}
	for p := range w.peers {
		w.peers[p] = xClaimant{known: xNone, seen: [3]int8{-1, -1, -1}}
	}
	if m.start != nil {
		m.start(m, w)
	}
	m.visit(w)
	slices.Reverse(m.trace)
}

// xOverwritten lets A collect all receipts, and the stranger then write its claim to all holders.
func xOverwritten(m *xModel, w *xWorld) {
	m.begin(w, 0)
	for len(w.net) > 0 {
		x := w.net[0]
		w.net = w.net[1:]
		m.deliver(w, x)
	}
	for h := range m.n() {
		m.store(w, h, m.steal(w))
	}
}

func someoneOf(id peer.ID, key crypto.PrivKey) someone { return someone{id, key} }

var xScenarios = []xScenario{
	{name: "stranger", claimants: 1, faults: 1, acts: 2, ticks: 1},
	{name: "fast stranger", claimants: 1, acts: 3, ticks: 1, fast: true},
	{name: "stranger and restart", claimants: 1, faults: 1, acts: 4, crash: true,
		start: xOverwritten},
	{name: "two claims", claimants: 2},
	{name: "two claims, one blind", claimants: 2, blind: true},
	{name: "stranger, a holder with another view", claimants: 1, acts: 3, ticks: 1,
		second: 0b111100, others: map[int8]xView{3: 0b111100}},
	{name: "two claims, nine of twelve in common", claimants: 2, second: 0b11110,
		others: map[int8]xView{3: 0b11110, 4: 0b11110}},
	{name: "two claims, six of twelve in common", claimants: 2, second: 0b111100},
	{name: "two claims, none of twelve in common", claimants: 2, second: 0b11110000},
}

// xSplit is a scenario that leaves two owners: holders differ in the view as the claimants do.
var xSplit = xScenario{name: "two views", claimants: 2, second: 0b111100,
	others: map[int8]xView{4: 0b111100, 5: 0b111100}}

// TestExploreClaims visits all states of the scenarios.
func TestExploreClaims(t *testing.T) {
	t.Parallel()
	exploreClaims(t, xScenarios)
}

func exploreClaims(t *testing.T, scenarios []xScenario) {
	t.Helper()
	for _, sc := range scenarios {
		t.Run(strings.ReplaceAll(sc.name, " ", "-"), func(t *testing.T) {
			began, m := time.Now(), newXModel(sc, xAll)
			m.run()
			t.Logf("%d states, %v", len(m.seen), time.Since(began).Round(time.Millisecond))
			if m.broken != "" {
				t.Errorf("%s after\n%s", m.broken, strings.Join(m.trace, "\n"))
			}
		})
	}
}

// TestExploreClaimsRules shows what each rule is for: without it something breaks. With all of them
// on, two views of holders leave two owners.
func TestExploreClaimsRules(t *testing.T) {
	t.Parallel()
	for rule, name := range map[xRule]string{xReceipts: "stranger", xFirst: "stranger and restart",
		xSaved: "stranger and restart", xOld: "stranger", xAlike: "two claims, one blind",
		xNear: "two claims, six of twelve in common", xAll: xSplit.name} {
		t.Run(xRuleNames[rule], func(t *testing.T) {
			all := append(xScenarios, xSplit)
			i := slices.IndexFunc(all, func(s xScenario) bool { return s.name == name })
			m := newXModel(all[i], rule)
			m.run()
			if m.broken == "" {
				t.Errorf("nothing breaks in %d states", len(m.seen))
			}
			t.Logf("%s after %d states:\n%s", m.broken, len(m.seen), strings.Join(m.trace, "\n"))
		})
	}
}
