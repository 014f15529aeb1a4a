package lease

import (
	"crypto/ed25519"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"peerd/overlay/overlaytest"
)

// The explorer of claims visits every state of two peers that claim a subnet, a stranger that makes
// a rival claim with a better key, and record holders, each of which stands for three: four, or six
// of which peers differ in which four are the nearest. It uses the Judge and the rules of receipts
// of live peers. Messages of one claimant arrive in their order; that one is lost, arrives any time
// later, or twice, is a fault.

const (
	xHolders  = 8 // at most
	xPerOne   = 3
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
	xNear           // a holder signs only if it is one of the nearest itself
	xRules
)

var xRuleNames = []string{"all", "receipts", "first", "saved", "old", "alike", "near"}

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
	net  [16]xMessage
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

// xView is a set of holders: those that a peer finds to be the nearest old members.
type xView uint8

func (v xView) has(h int8) bool { return v&(1<<h) != 0 }

// xScenario bounds what happens.
type xScenario struct {
	name                string
	claimants           int8
	faults, acts, ticks int8
	crash               bool
	fast                bool // the stranger writes before a claim has reached all holders
	blind               bool // the second claimant knows none of the holders, but asks them
	// The views of the second claimant, and of holders, if not all have that of the first one,
	// which is the first four holders.
	second xView
	others map[int8]xView
	start  func(*xModel, *xWorld)
}

type xAsk struct {
	known, l       xLease
	knownAge, lAge int8
	view           xView
}

type xModel struct {
	xScenario
	off     xRule
	keys    [3]someone
	by      []someone      // the holders' keys
	forgers []someone      // the stranger's
	near    [xHolders]bool // the holders that find themselves among the nearest
	leases  map[xLease]Lease
	answers map[xAsk]bool
	seen    map[xKey]bool
	trace   []string
	broken  string
}

func newXModel(sc xScenario, off xRule) *xModel {
	all := overlaytest.Identities(50, 2*maxReceipts+3, someoneOf)
	keys := all[2*maxReceipts:]
	slices.SortFunc(keys, func(a, b someone) int { return Better(first(a), first(b)) })
	more := overlaytest.Identities(51, xHolders*xPerOne-maxReceipts, someoneOf)
	m := &xModel{xScenario: sc, off: off, keys: [3]someone(keys),
		by:      slices.Concat(all[:maxReceipts], more),
		forgers: all[maxReceipts : 2*maxReceipts], leases: map[xLease]Lease{},
		answers: map[xAsk]bool{}, seen: map[xKey]bool{}}
	for h := range int8(xHolders) {
		j := NewJudge(at(noon), m.contacts(m.holderView(h)))
		m.near[h] = j.near(first(m.keys[0]), m.by[h*xPerOne].id)
	}
	return m
}

// contacts returns those of a peer with a view.
func (m *xModel) contacts(v xView) *contacts {
	c := &contacts{}
	for h := range int8(xHolders) {
		for _, s := range m.by[h*xPerOne : (h+1)*xPerOne] {
			if m.off != xOld && v.has(h) {
				c.nearest = append(c.nearest, s.id)
			}
		}
	}
	return c
}

const xFirstView xView = 0b1111

// asked returns the holders that a claimant asks for receipts.
func (m *xModel) asked(p int8) xView {
	if p == 1 && m.second != 0 {
		return m.second
	}
	return xFirstView
}

// view returns the holders that a claimant finds to be old.
func (m *xModel) view(p int8) xView {
	if p == 1 && m.blind {
		return 0
	}
	return m.asked(p)
}

// holderView returns the view of a holder.
func (m *xModel) holderView(h int8) xView {
	if v, ok := m.others[h]; ok {
		return v
	}
	return xFirstView
}

// n returns the number of holders.
func (m *xModel) n() int8 { return int8(bits.Len8(uint8(xFirstView | m.second))) }

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
	known, l, now := m.lease(a.known), m.lease(a.l), noon
	if m.off == xAlike && a.view == 0 {
		known.Receipts, l.Receipts = nil, nil
	}
	j := NewJudge(at(now), m.contacts(a.view))
	j.See(known, now.Add(-time.Duration(a.knownAge)*xTick))
	j.See(l, now.Add(-time.Duration(a.lAge)*xTick))
	got := j.Replaces(known, l)
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
		lAge: w.now - y.seen[x.by], view: m.holderView(h)}) {
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
	if m.off != xNear && !m.near[h] {
		return false
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
		lAge: w.now - y.seen[x.by], view: m.view(p)}) {
		y.known = x
	}
	if y.known.by != p && y.phase > xCollecting {
		y.phase = xLost
	}
}

// read lets a claimant read from all holders but one, and send them the best record.
func (m *xModel) read(w *xWorld, p, but int8) {
	for h := range m.n() {
		if x := w.holders[h].held; h != but && x != xNone {
			m.learn(w, p, x)
		}
	}
	if x := w.peers[p].known; x != xNone {
		for h := range m.n() {
			if h != but {
				m.store(w, h, x)
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
	m.read(w, p, 3-3*p)
	if y.known != xNone {
		y.phase = xLost
		return
	}
	y.phase = xCollecting
	x := xLease{by: p}
	m.learn(w, p, x)
	for h := range m.n() {
		if m.asked(p).has(h) {
			w.net = append(w.net, xMessage{what: xSign, by: p, holder: h, lease: x})
		}
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
		lAge: w.now - y.seen[r.by], view: m.view(p)}) {
		y.phase = xLost
		return
	}
	y.known = x
	for h := range m.n() {
		w.net = append(w.net, xMessage{what: xPut, by: p, holder: h, lease: x})
	}
}

// readBack ends the settling of a claim.
func (m *xModel) readBack(w *xWorld, p, but int8) {
	if m.read(w, p, but); w.peers[p].phase == xWritten {
		w.peers[p].phase = xOwner
	}
}

func (m *xModel) tick(w *xWorld) {
	w.now++
	for p := range w.peers {
		if w.peers[p].phase == xOwner {
			m.read(w, int8(p), (w.now+int8(p))%m.n())
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
	return 4*n >= 3*int(m.n())
}
