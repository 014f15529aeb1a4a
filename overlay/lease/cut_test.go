package lease

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// The explorer of cuts visits the ways in which the two sides of a partition can claim one subnet
// and give it on, and lets them meet. It uses the Judge of live peers. Three peers are on one side,
// two or three on the other, and each is a record holder.

// cutKind says who knows a peer of the other side from before the cut.
type cutKind uint8

const (
	cutOld   cutKind = iota // both know each other
	cutWiped                // it lost its disk in the cut: the others know it
	cutNew                  // it joined in the cut: neither knows the other
	cutKinds
)

// cutRule is a rule that can be off.
type cutRule uint8

const (
	cutAll       cutRule = iota
	cutApart             // who was apart takes part in a contest
	cutTold              // who starts is told who is away
	cutJoined            // the claim of who joined loses against that of who was away
	cutElsewhere         // who meets again tells who joined meanwhile
	cutRefusal           // who is refused by most does not fetch
	cutRules
)

// cutCase is one way.
type cutCase struct {
	kinds      [6]cutKind
	size       int    // of kinds
	claimants  [2]int // of the sides
	successors [2]int // to whom they gave the subnet; themselves: to no other
	gone       bool   // those who gave it away are not there any more
	untold     bool   // who was wiped or is new met no other in its first minute
	keys       int    // which peer has which key
	first      int    // the side that renews first
	off        cutRule
}

// left reports whether a peer is not there any more.
func (c cutCase) left(i int) bool {
	side := cutSide(i)
	return c.gone && c.claimants[side] == i && c.successors[side] != i
}

func cutSide(i int) int { return i / 3 }

// cutPeer is a peer and what it knows.
type cutPeer struct {
	someone
	n     int
	c     *cutCase
	net   []*cutPeer
	judge *Judge
	held  Lease // as a record holder
	owns  bool
	idle  bool // it owns, and was refused
}

func (*cutPeer) Silent(peer.ID, time.Time, time.Time) bool { return false }

// told reports whether p knows who is away: who was there before does, and others are told.
func (p *cutPeer) told() bool {
	return p.c.kinds[p.n] == cutOld || !p.c.untold && p.c.off != cutTold
}

// knows reports whether p knows a peer of the other side from before, or by what it was told.
func (p *cutPeer) knows(q *cutPeer) bool {
	return p.told() && (p.c.kinds[q.n] != cutNew || p.elsewhere(q))
}

// elsewhere reports whether enough peers of the other side have told p, when they met again, that q
// joined there.
func (p *cutPeer) elsewhere(q *cutPeer) bool {
	tellers := 0
	for _, w := range p.net {
		if cutSide(w.n) == cutSide(q.n) && p.c.kinds[w.n] != cutNew && !p.c.left(w.n) {
			tellers++
		}
	}
	return p.c.off != cutElsewhere && p.told() && p.c.kinds[q.n] == cutNew &&
		cutSide(p.n) != cutSide(q.n) && tellers >= 2
}

func (p *cutPeer) find(id peer.ID) *cutPeer {
	return p.net[slices.IndexFunc(p.net, func(q *cutPeer) bool { return q.id == id })]
}

// Joined implements Contacts. One side has met who joined, and the other one may be told.
func (p *cutPeer) Joined(id, while peer.ID) bool {
	q, w := p.find(id), p.find(while)
	return p.c.off != cutJoined && p.told() && p.c.kinds[q.n] == cutNew &&
		p.c.kinds[w.n] != cutNew && cutSide(w.n) != cutSide(q.n) &&
		(cutSide(p.n) == cutSide(q.n) || p.elsewhere(q))
}

// Apart implements Contacts: all was claimed in the cut.
func (p *cutPeer) Apart(id peer.ID, _ time.Time) bool {
	q := p.find(id)
	return p.c.off != cutApart && cutSide(p.n) != cutSide(q.n) && p.knows(q)
}

// Nearest implements Contacts. Who came in the cut takes those for old that it met first.
func (p *cutPeer) Nearest(netip.Prefix) (all []peer.ID) {
	for _, q := range p.net {
		if q == p || !p.c.left(q.n) && (cutSide(q.n) == cutSide(p.n) || p.knows(q)) {
			all = append(all, q.id)
		}
	}
	return all
}

// cutExplorer keeps what is slow to make.
type cutExplorer struct {
	off    cutRule
	leases map[[4]int]Lease // by claimant, successor, keys, and size
	sealed map[Digest][]byte
}

func newCutExplorer(off cutRule) *cutExplorer {
	return &cutExplorer{off: off, leases: map[[4]int]Lease{}, sealed: map[Digest][]byte{}}
}

// lease returns the lease of the owner on one side before the sides meet.
func (x *cutExplorer) lease(t *testing.T, c *cutCase, net []*cutPeer, side int) Lease {
	t.Helper()
	by, to := c.claimants[side], c.successors[side]
	key := [4]int{by, to, c.keys, c.size}
	if l, ok := x.leases[key]; ok {
		return l
	}
	l := first(net[by].someone)
	l.Claimed, l.Expires = noon, noon.Add(time.Hour)
	if to != by {
		g, err := l.GrantTo(net[to].id, noon, net[by].key)
		if err != nil {
			t.Fatal(err)
		}
		next := l.Next(net[to].id)
		next.Issued, next.Expires, next.Grant = l.Issued, l.Expires, g
		l = next
	}
	x.leases[key], x.sealed[l.Digest()] = l, seal(t, l, net[to].someone)
	return l
}

// meet lets the owners of both sides renew their leases four times after the cut. It returns how
// many owners there are, and how many of them fetch.
func (x *cutExplorer) meet(t *testing.T, c cutCase) (owners, working int) {
	t.Helper()
	now := noon.Add(5 * time.Minute)
	net := make([]*cutPeer, c.size)
	for i := range net {
		net[i] = &cutPeer{someone: folk[(i+c.keys)%len(net)], n: i, c: &c, net: net}
	}
	for i, p := range net {
		p.judge, p.held = NewJudge(at(now), p), x.lease(t, &c, net, cutSide(i))
		p.judge.See(p.held, noon)
		p.owns = c.successors[cutSide(i)] == i
	}
	for turn := range 8 {
		if p := net[c.successors[(turn+c.first)%2]]; p.owns {
			x.renew(p, now)
		}
	}
	for _, p := range net {
		if p.owns {
			owners++
			if !p.idle {
				working++
			}
		}
	}
	return owners, working
}

// renew writes the lease of p to all others.
func (x *cutExplorer) renew(p *cutPeer, now time.Time) {
	refused, acks := map[peer.ID][]byte{}, 0
	for _, q := range p.net {
		if q == p || p.c.left(q.n) {
			continue
		}
		q.judge.See(p.held, now)
		if q.held.Digest() == p.held.Digest() || q.judge.Replaces(q.held, p.held) {
			q.held, q.owns = p.held, false
			acks++
			continue
		}
		p.judge.See(q.held, now)
		if p.judge.Replaces(p.held, q.held) {
			p.held, p.owns = q.held, false
			return
		}
		refused[q.id] = x.sealed[q.held.Digest()]
	}
	p.idle = x.off != cutRefusal && acks == 0 && p.judge.most(p.held, refused)
}

// cuts calls fn for every case in which at most one peer was wiped or is new, or one is new on each
// side, with what came of it, until fn returns false.
func (x *cutExplorer) cuts(t *testing.T, fn func(c cutCase, owners, working int) bool) {
	t.Helper()
	one := []cutCase{{size: 5}}
	for late := range 5 {
		for kind := cutWiped; kind < cutKinds; kind++ {
			c := cutCase{size: 5}
			c.kinds[late] = kind
			one = append(one, c)
		}
	}
	for _, c := range append(one,
		cutCase{size: 6, kinds: [6]cutKind{0: cutNew, 3: cutNew}},
		cutCase{size: 6, kinds: [6]cutKind{1: cutNew, 5: cutNew}},
	) {
		if !x.claims(t, c, fn) {
			return
		}
	}
}

// claims calls cuts' fn for every way in which two peers can claim the subnet. It returns false if
// fn did.
func (x *cutExplorer) claims(
	t *testing.T, c cutCase, fn func(c cutCase, owners, working int) bool,
) bool {
	t.Helper()
	c.off = x.off
	right := c.size - 3
	for pick := range 3 * right * 3 * right * 2 * 2 * 2 * 2 {
		next := func(n int) (i int) { i, pick = pick%n, pick/n; return i }
		c.claimants = [2]int{next(3), 3 + next(right)}
		c.successors = [2]int{next(3), 3 + next(right)}
		c.first, c.keys, c.gone = next(2), 2*next(2), next(2) == 1
		c.untold = next(2) == 1
		if c.untold && c.late() < 0 {
			continue
		}
		if owners, working := x.meet(t, c); !fn(c, owners, working) {
			return false
		}
	}
	return true
}

// late returns the first peer that was wiped or is new; -1 if there is none.
func (c cutCase) late() int {
	return slices.IndexFunc(c.kinds[:c.size], func(k cutKind) bool { return k != cutOld })
}

// alone reports whether the peer that was wiped or is new has met fewer than two peers on its side
// that are there in the end.
func (c cutCase) alone() bool {
	late, others := c.late(), 0
	for i := range c.size {
		if late >= 0 && i != late && cutSide(i) == cutSide(late) && !c.left(i) {
			others++
		}
	}
	return late >= 0 && others < 2
}

// broken reports whether more owners are left than may be: one; if who was wiped or is new was not
// told who is away, two of which one fetches, or both if it has met too few others.
func (c cutCase) broken(owners, working int) bool {
	switch {
	case owners == 0:
		return true
	case c.untold:
		return working > 1 && !c.alone()
	}
	return owners > 1
}

// After a cut there is one owner, also if a peer was wiped or has just joined.
func TestExploreCuts(t *testing.T) {
	t.Parallel()
	x := newCutExplorer(cutAll)
	n, alone, idle := 0, 0, 0
	x.cuts(t, func(c cutCase, owners, working int) bool {
		n++
		switch {
		case owners > working:
			idle++
		case working > 1:
			alone++
		}
		if c.broken(owners, working) {
			t.Errorf("%+v: %d owners, of which %d fetch", c, owners, working)
		}
		return true
	})
	t.Logf("%d cases: two owners, of which one is idle, in %d; two fetch in %d", n, idle, alone)
}

// TestExploreCutsRules shows what each rule is for: without it too many owners are left somewhere.
func TestExploreCutsRules(t *testing.T) {
	t.Parallel()
	for off := cutAll + 1; off < cutRules; off++ {
		n, broken := 0, false
		newCutExplorer(off).cuts(t, func(c cutCase, owners, working int) bool {
			n++
			if broken = c.broken(owners, working); broken {
				t.Logf("without rule %d: %d owners, of which %d fetch, in case %d: %+v", off,
					owners, working, n, c)
			}
			return !broken
		})
		if !broken {
			t.Errorf("without rule %d: nothing breaks in %d cases", off, n)
		}
	}
}
