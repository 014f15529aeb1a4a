package lease

import (
	"crypto/ed25519"
	"flag"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/overlaytest"
)

var claimStates = flag.Int("claim-states", 10_000, "most states of a scenario; 0: no bound")

// The explorer of claims visits every state of two peers that claim a subnet, a stranger that makes
// a rival claim with a better key, and four record holders, each of which stands for three of the
// twelve. It uses the Judge and the rules of receipts of live peers. Messages of one
// claimant arrive in their order; that one is lost, arrives any time later, or twice, is a fault.

const (
	xHolders  = 4
	xPerOne   = maxReceipts / xHolders
	xTick     = 20 * time.Second
	xStranger = 2
)

// xRule is a rule that can be off, so that the explorer shows what it is for.
type xRule uint8

const (
	xAll      xRule = iota
	xReceipts       // claims have receipts
	xFirst          // a holder signs for the first claim only
	xSaved          // also after a restart
	xOld            // a stranger's keys are told from those of old members
	xAlike          // peers that do not know the holders count receipts
	xRules
)

var xRuleNames = []string{"all", "receipts", "first", "saved", "old", "alike"}

// xPhase is how far a claimant is.
type xPhase int8

const (
	xIdle xPhase = iota
	xCollecting
	xWritten
	xOwner
	xLost
)

// xLease is a lease: a claimant, the holders of its receipts, and whether it has some by made-up
// keys.
type xLease struct {
	by     int8
	signed uint8
	forged bool
	late   bool // the second record of the claim
}

var xNone = xLease{by: -1}

type xHolder struct {
	held  xLease
	bound int8 // the claim that it signs for, or -1
	seen  [3]int8
}

type xClaimant struct {
	phase  xPhase
	known  xLease // its own claim, or a better one
	signed uint8
	seen   [3]int8
}

type xWhat uint8

const (
	xSign xWhat = iota // a claim, to be signed
	xReceipt
	xPut
)

type xMessage struct {
	what   xWhat
	by     int8
	holder int8
	lease  xLease
	yes    bool
}

func (m xMessage) String() string {
	return fmt.Sprintf("%s %c holder %d",
		[]string{"claim to sign of", "receipt for", "record of"}[m.what], 'A'+m.by, m.holder)
}

type xWorld struct {
	xState
	net, late []xMessage
}

type xState struct {
	holders [xHolders]xHolder
	peers   [2]xClaimant
	signed  uint8 // for the stranger
	now     int8  // ticks
	faults  int8
	acts    int8 // of the stranger
	ticks   int8
}

// xKey is a world that can be compared.
type xKey struct {
	xState
	net  [12]xMessage
	late [3]xMessage
}

func (w *xWorld) key() xKey {
	k := xKey{xState: w.xState}
	copy(k.net[:], w.net)
	copy(k.late[:], w.late)
	return k
}

func (w *xWorld) clone() *xWorld {
	c := *w
	c.net, c.late = slices.Clone(w.net), slices.Clone(w.late)
	return &c
}

// xScenario bounds what happens.
type xScenario struct {
	name                string
	claimants           int8
	faults, acts, ticks int8
	crash               bool
	fast                bool // the stranger writes before a claim has reached all holders
	blind               bool // the second claimant knows none of the holders
	start               func(*xModel, *xWorld)
}

type xAsk struct {
	known, l         xLease
	knownAge, lAge   int8
	blind, forHolder bool
}

type xModel struct {
	xScenario
	off     xRule
	keys    [3]someone
	by      []someone // the holders' keys
	forgers []someone // the stranger's
	leases  map[xLease]Lease
	answers map[xAsk]bool
	seen    map[xKey]bool
	trace   []string
	broken  string
	most    int
}

func newXModel(sc xScenario, off xRule) *xModel {
	all := overlaytest.Identities(50, 2*maxReceipts+3, someoneOf)
	keys := all[2*maxReceipts:]
	slices.SortFunc(keys, func(a, b someone) int { return Better(first(a), first(b)) })
	return &xModel{xScenario: sc, off: off, keys: [3]someone(keys), by: all[:maxReceipts],
		forgers: all[maxReceipts : 2*maxReceipts], leases: map[xLease]Lease{},
		most: *claimStates, answers: map[xAsk]bool{}, seen: map[xKey]bool{}}
}

// lease returns the lease that x stands for.
func (m *xModel) lease(x xLease) Lease {
	if l, ok := m.leases[x]; ok {
		return l
	}
	l := first(m.keys[x.by])
	l.Claimed = noon
	if x.late {
		l.Issued = l.Issued.Add(time.Millisecond)
	}
	text := statement(l.Digest())
	add := func(s someone) {
		sig, err := s.key.Sign(text)
		if err != nil || len(sig) != ed25519.SignatureSize {
			panic("no signature")
		}
		l.Receipts = slices.Concat(l.Receipts, keyOf(s.id), sig)
	}
	for h := range xHolders {
		if x.signed&(1<<h) != 0 {
			for _, s := range m.by[h*xPerOne : (h+1)*xPerOne] {
				add(s)
			}
		}
	}
	if x.forged {
		for _, s := range m.forgers[:maxReceipts-xPerOne*bits.OnesCount8(x.signed)] {
			add(s)
		}
	}
	m.leases[x] = l
	return l
}

// replaces asks the Judge of a peer that has seen two leases some ticks ago.
func (m *xModel) replaces(a xAsk) bool {
	if got, ok := m.answers[a]; ok {
		return got
	}
	c := &contacts{}
	if m.off != xOld && !a.blind {
		for _, s := range m.by {
			c.nearest = append(c.nearest, s.id)
		}
	}
	known, l, now := m.lease(a.known), m.lease(a.l), noon
	if m.off == xAlike && a.blind {
		known.Receipts, l.Receipts = nil, nil
	}
	j := NewJudge(at(now), c)
	j.See(known, now.Add(-time.Duration(a.knownAge)*xTick))
	j.See(l, now.Add(-time.Duration(a.lAge)*xTick))
	got := j.Replaces(known, l)
	if a.forHolder {
		got = j.better(l, known)
	}
	m.answers[a] = got
	return got
}

// store is what a record holder does with a record.
func (m *xModel) store(w *xWorld, h int8, x xLease) {
	y := &w.holders[h]
	see(&y.seen, x, w.now)
	if y.held == xNone {
		if y.held = x; y.bound < 0 {
			y.bound = x.by
		}
		return
	}
	see(&y.seen, y.held, w.now)
	if x == y.held || !m.replaces(xAsk{known: y.held, l: x, knownAge: w.now - y.seen[y.held.by],
		lAge: w.now - y.seen[x.by], forHolder: true}) {
		return
	}
	if y.bound < 0 {
		y.bound = y.held.by
	}
	y.held = x
}

func see(seen *[3]int8, x xLease, now int8) {
	if seen[x.by] < 0 {
		seen[x.by] = now
	}
}

// signs reports whether a holder signs a claim that it was sent.
func (m *xModel) signs(w *xWorld, h int8, by int8) bool {
	y := &w.holders[h]
	if y.bound < 0 && y.held.by == by {
		y.bound = by
	}
	return y.bound == by || m.off == xFirst && y.held.by == by
}

// learn gives a lease to a claimant, which yields if it is better than its own.
func (m *xModel) learn(w *xWorld, p int8, x xLease) {
	y := &w.peers[p]
	see(&y.seen, x, w.now)
	if y.known == xNone {
		y.known = x
		return
	}
	if m.replaces(xAsk{known: y.known, l: x, knownAge: w.now - y.seen[y.known.by],
		lAge: w.now - y.seen[x.by], blind: m.blind && p == 1}) {
		y.known = x
	}
	if y.known.by != p && y.phase > xCollecting {
		y.phase = xLost
	}
}

// read lets a claimant read from all holders but one, and send them the best record.
func (m *xModel) read(w *xWorld, p int8, but int) {
	for h := range xHolders {
		if x := w.holders[h].held; h != but && x != xNone {
			m.learn(w, p, x)
		}
	}
	if x := w.peers[p].known; x != xNone {
		for h := range xHolders {
			if h != but {
				m.store(w, int8(h), x)
			}
		}
	}
}

func (m *xModel) deliver(w *xWorld, x xMessage) {
	switch x.what {
	case xSign:
		m.store(w, x.holder, x.lease)
		x.what, x.yes = xReceipt, m.signs(w, x.holder, x.by)
		w.net = append(w.net, x)
	case xReceipt:
		if x.yes && w.peers[x.by].phase == xCollecting {
			w.peers[x.by].signed |= 1 << x.holder
		}
	case xPut:
		m.store(w, x.holder, x.lease)
	}
}

// begin lets a claimant read that there is no lease, and send its claim.
func (m *xModel) begin(w *xWorld, p int8) {
	y := &w.peers[p]
	m.read(w, p, 3-3*int(p))
	if y.known != xNone {
		y.phase = xLost
		return
	}
	y.phase = xCollecting
	x := xLease{by: p}
	m.learn(w, p, x)
	for h := range int8(xHolders) {
		w.net = append(w.net, xMessage{what: xSign, by: p, holder: h, lease: x})
	}
}

// write lets a claimant write its claim with the receipts that it has.
func (m *xModel) write(w *xWorld, p int8) {
	y := &w.peers[p]
	y.phase = xWritten
	x := xLease{by: p, late: true}
	if enough(xPerOne*bits.OnesCount8(y.signed), maxReceipts) && m.off != xReceipts {
		x.signed = y.signed
	}
	if r := y.known; r.by != p && m.replaces(xAsk{known: x, l: r, knownAge: w.now - y.seen[p],
		lAge: w.now - y.seen[r.by], blind: m.blind && p == 1}) {
		y.phase = xLost
		return
	}
	y.known = x
	for h := range int8(xHolders) {
		w.net = append(w.net, xMessage{what: xPut, by: p, holder: h, lease: x})
	}
}

// readBack ends the settling of a claim.
func (m *xModel) readBack(w *xWorld, p int8, but int) {
	if m.read(w, p, but); w.peers[p].phase == xWritten {
		w.peers[p].phase = xOwner
	}
}

func (m *xModel) tick(w *xWorld) {
	w.now++
	for p := range w.peers {
		if w.peers[p].phase == xOwner {
			m.read(w, int8(p), (int(w.now)+p)%xHolders)
		}
	}
}

// steal is one act of the stranger: it makes the best lease that it can.
func (m *xModel) steal(w *xWorld) xLease {
	x := xLease{by: xStranger, signed: w.signed, forged: m.off != xReceipts, late: true}
	if !x.forged {
		x.signed = 0
	}
	return x
}

// settledOn reports whether three quarters of the holders have had a peer's claim as the first one,
// and, unless the stranger is fast, it is on its way to no other.
func (m *xModel) settledOn(w *xWorld, p int8) bool {
	n := 0
	if !m.fast && slices.ContainsFunc(w.net, func(x xMessage) bool { return x.what == xSign }) {
		return false
	}
	for _, h := range w.holders {
		if h.bound == p {
			n++
		}
	}
	return 4*n >= 3*xHolders
}

type xMove struct {
	text string
	do   func(*xWorld)
}

func (m *xModel) moves(w *xWorld) (list []xMove) {
	add := func(do func(*xWorld), format string, args ...any) {
		list = append(list, xMove{fmt.Sprintf(format, args...), do})
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
		for h := 0; h < xHolders && len(w.net) == 0; h++ {
			add(func(w *xWorld) { m.readBack(w, p, h) }, "%c reads back but from %d", 'A'+p, h)
		}
	}
}

// attacks adds what the stranger can do, once it has seen A's claim at most holders.
func (m *xModel) attacks(w *xWorld, add xAdder) {
	x := m.steal(w)
	for h := range int8(xHolders) {
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
	if m.broken != "" || m.seen[key] || m.most > 0 && len(m.seen) >= m.most {
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
		m.trace = append(m.trace, mv.text)
		if m.visit(next); m.broken != "" {
			return
		}
		m.trace = m.trace[:len(m.trace)-1]
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
	for range xHolders + 1 {
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
}

// xOverwritten lets A collect all receipts, and the stranger then write its claim to all holders.
func xOverwritten(m *xModel, w *xWorld) {
	m.begin(w, 0)
	for len(w.net) > 0 {
		x := w.net[0]
		w.net = w.net[1:]
		m.deliver(w, x)
	}
	for h := range int8(xHolders) {
		m.store(w, h, m.steal(w))
	}
}

func someoneOf(id peer.ID, key crypto.PrivKey) someone { return someone{id, key} }

var xScenarios = []xScenario{
	{name: "stranger", claimants: 1, faults: 1, acts: 2, ticks: 1},
	{name: "fast stranger", claimants: 1, acts: 3, ticks: 1, fast: true},
	{name: "stranger and restart", claimants: 1, faults: 1, acts: 4, crash: true,
		start: xOverwritten},
	{name: "two claims", claimants: 2, faults: 1},
	{name: "two claims, one blind", claimants: 2, blind: true},
}

// TestExploreClaims visits all states of the scenarios.
func TestExploreClaims(t *testing.T) {
	t.Parallel()
	for _, sc := range xScenarios {
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

// TestExploreClaimsRules shows what each rule is for: without it something breaks.
func TestExploreClaimsRules(t *testing.T) {
	t.Parallel()
	for rule, name := range map[xRule]string{xReceipts: "stranger", xFirst: "stranger and restart",
		xSaved: "stranger and restart", xOld: "stranger", xAlike: "two claims, one blind"} {
		t.Run(xRuleNames[rule], func(t *testing.T) {
			i := slices.IndexFunc(xScenarios, func(s xScenario) bool { return s.name == name })
			m := newXModel(xScenarios[i], rule)
			m.most = 0
			m.run()
			if m.broken == "" {
				t.Errorf("nothing breaks in %d states", len(m.seen))
			}
			t.Logf("%s after %d states:\n%s", m.broken, len(m.seen), strings.Join(m.trace, "\n"))
		})
	}
}
