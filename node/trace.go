package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/crawl/canon"
	"peerd/node/admin"
	"peerd/overlay/trace"
	"peerd/store"
	"peerd/store/warc"
)

const (
	// traceTimeout bounds the look-up of a name for a trace, and reading the archive's index.
	traceTimeout = 10 * time.Second
	// maxCaptures is the number of captures of a trace.
	maxCaptures = 100
	// maxQueueRead is the number of entries of a queue that are read to find a URL in it, and
	// maxQueueServed that for another peer.
	maxQueueRead   = 100_000
	maxQueueServed = 2000
)

// Trace returns what this peer, and the owner, know of a URL.
func (n *Node) Trace(ctx context.Context, raw string) (t admin.Trace, err error) {
	u, err := canon.Parse(raw)
	if err != nil {
		return t, fmt.Errorf("%w: %w", admin.ErrBadRequest, err)
	}
	t.URL, t.Host = string(u), u.Host()
	if err := n.scope.Allows(u, 0); err != nil {
		t.OutOfScope = err.Error()
	}
	_, addr, _ := n.frontier.HostAddr(t.Host)
	if a, err := netip.ParseAddr(t.Host); err == nil {
		addr = a
	}
	if err := n.deny.Check(u, addr); err != nil {
		t.Denied = err.Error()
	}
	if t.Here, err = n.urlState(u, maxQueueRead); err != nil {
		return t, err
	}
	n.addCaptures(ctx, u, &t.Here)
	if t.OutOfScope == "" {
		n.placeURL(ctx, &t)
	}
	return t, nil
}

// traceNode is the trace.Node of a Node.
type traceNode struct{ urlChecker }

func (t traceNode) URLState(u store.URL) (trace.State, error) {
	s, err := t.n.urlState(u, maxQueueServed)
	return sentState(s), err
}

// openTrace opens the protocol by which peers ask each other about a URL.
func (n *Node) openTrace() error {
	n.trace = &trace.Service{
		Host: n.monitoredHost(), Protocol: n.net.Names.Trace(), Node: traceNode{urlChecker{n}},
		Timeout: n.opts.scaled(traceTimeout), Logger: n.log,
	}
	return nil
}

// placeURL adds the owner of the host of a trace, and what another owner answers.
func (n *Node) placeURL(ctx context.Context, t *admin.Trace) {
	ctx, cancel := context.WithTimeout(ctx, traceTimeout)
	defer cancel()
	p, err := n.Placement(ctx, t.Host)
	if err != nil {
		t.Unplaced = err.Error()
		return
	}
	t.Placement = &p
	if p.Own || p.Owner == "" {
		return
	}
	s, err := n.askOwner(ctx, p.Owner, store.URL(t.URL))
	if err != nil {
		t.Unanswered = err.Error()
		return
	}
	v := receivedState(t.URL, s)
	t.AtOwner = &v
}

// askOwner asks another peer about a URL.
func (n *Node) askOwner(ctx context.Context, owner string, u store.URL) (trace.State, error) {
	id, err := peer.Decode(owner)
	if err != nil {
		return trace.State{}, err
	}
	info := peer.AddrInfo{ID: id} // it may be connected although it is not in the directory
	if b, ok := n.peers.Directory().Get(id); ok {
		info = b.Info()
	}
	return n.trace.Ask(ctx, info, u)
}

// placesSent are the places as they are sent.
var placesSent = map[admin.URLPlace]trace.Place{admin.PlaceNone: trace.None,
	admin.PlaceQueued: trace.Queued, admin.PlaceInFlight: trace.InFlight,
	admin.PlacePending: trace.Pending}

// millisOf returns a time for a message; 0 for nil.
func millisOf(t *time.Time) int64 {
	if t == nil {
		return 0
	}
	return max(t.UnixMilli(), 0)
}

// timeOf is the opposite of millisOf.
func timeOf(at int64) *time.Time {
	if at == 0 {
		return nil
	}
	t := time.UnixMilli(at).UTC()
	return &t
}

// sentState returns a state as it is sent.
func sentState(s admin.URLState) trace.State {
	v := trace.State{Place: placesSent[s.Place], Ahead: s.Ahead, Seen: s.Seen,
		NextVisit: millisOf(s.NextVisit), HostRetry: millisOf(s.HostRetry),
		Owned: s.HostState != ""}
	for h := store.HostAnswering; h <= store.HostGivenUp; h++ {
		if h.String() == s.HostState {
			v.Host = h
		}
	}
	if p := s.Page; p != nil {
		v.Fetch = &trace.Fetch{At: millisOf(&p.FetchedAt), Status: p.Status, Outcome: p.Outcome,
			Bytes: p.Bytes, TookMs: p.TookMs, Served: p.Estimation}
	}
	if g := s.GivenUp; g != nil {
		v.GivenUp = &trace.GivenUp{At: millisOf(&g.At), Status: g.Status, Outcome: g.Outcome,
			Tries: g.Tries, Error: g.Error}
	}
	return v
}

// receivedState is the opposite of sentState. What is not sent is empty.
func receivedState(url string, v trace.State) admin.URLState {
	s := admin.URLState{Place: admin.PlaceNone, Ahead: v.Ahead, Seen: v.Seen,
		NextVisit: timeOf(v.NextVisit), HostRetry: timeOf(v.HostRetry),
		CapturesUnread: "the archive of another peer is not read"}
	for place, sent := range placesSent {
		if sent == v.Place {
			s.Place = place
		}
	}
	if v.Owned {
		s.HostState = v.Host.String()
	}
	if f := v.Fetch; f != nil {
		s.Page = &admin.Page{URL: url, FetchedAt: time.UnixMilli(f.At).UTC(), Status: f.Status,
			Outcome: f.Outcome, Bytes: f.Bytes, TookMs: f.TookMs, Estimation: f.Served}
	}
	if g := v.GivenUp; g != nil {
		at := time.UnixMilli(g.At).UTC()
		s.GivenUp = &admin.GivenUp{URL: url, At: at, First: at, Status: g.Status,
			Outcome: g.Outcome, Tries: g.Tries, Error: g.Error}
	}
	switch s.Place {
	case admin.PlaceQueued:
		s.Why = fmt.Sprintf("URLs of its host before it: %d.", s.Ahead)
	case admin.PlaceInFlight:
		s.Why = "It is being fetched."
	case admin.PlacePending:
		s.Why = "It is about to leave for the queue of its host, or for another owner."
	default:
		s.Why = whyNowhere(s)
	}
	return s
}

// urlState returns what the store and the frontier of this peer have of a URL, without captures.
// It reads so many entries of the queue.
func (n *Node) urlState(u store.URL, entries int) (s admin.URLState, err error) {
	err = n.db.View(func(tx *store.Tx) error {
		s = admin.URLState{Place: admin.PlaceNone}
		if s.Seen, err = tx.Seen(u); err != nil {
			return err
		}
		return errors.Join(addHost(tx, u, &s), addRecords(tx, u, &s), addPlace(tx, u, &s, entries))
	})
	if err != nil {
		return s, err
	}
	// An entry stays in the queue until its fetch is complete.
	if s.Place == admin.PlaceQueued && n.frontier.InFlight(u) {
		s.Place, s.Ahead, s.Why = admin.PlaceInFlight, 0, "It is being fetched."
	}
	if s.Place == admin.PlacePending {
		s.Why = n.whyPending(u.Host())
	}
	if s.Why == "" {
		s.Why = whyNowhere(s)
	}
	return s, nil
}

// found returns nil for records that do not exist.
func found(err error) (ok bool, other error) {
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// addHost adds whether the host answers.
func addHost(tx *store.Tx, u store.URL, s *admin.URLState) error {
	h, err := tx.Host(u.Host())
	ok, err := found(err)
	if !ok {
		return err
	}
	s.HostState = h.Health.State.String()
	if at := h.Health.NextTry; !at.IsZero() {
		s.HostRetry = &at
	}
	return nil
}

// addRecords adds the last fetch, why the URL was given up, and the next visit.
func addRecords(tx *store.Tx, u store.URL, s *admin.URLState) error {
	p, err := tx.Page(u)
	ok, err := found(err)
	if err != nil {
		return err
	}
	if ok {
		v := pageView(p)
		s.Page = &v
	}
	g, err := tx.GivenUp(u)
	if ok, err = found(err); err != nil {
		return err
	}
	if ok {
		v := givenUpOf(g)
		s.GivenUp = &v
	}
	v, err := tx.Visit(u)
	if ok, err = found(err); ok {
		s.NextVisit = &v.Due
	}
	return err
}

// addPlace adds whether the URL is queued or pending.
func addPlace(tx *store.Tx, u store.URL, s *admin.URLState, entries int) error {
	pending, err := tx.HasPending(u)
	if err != nil {
		return err
	}
	if pending {
		s.Place = admin.PlacePending
		return nil
	}
	read := 0
	return tx.Queue(u.Host(), nil, func(e store.Entry) (bool, error) {
		switch read++; {
		case e.URL == u:
			s.Place, s.Ahead, s.Why = admin.PlaceQueued, read-1, whyQueued(e, read-1)
			return false, nil
		case read == entries:
			s.Why = fmt.Sprintf("It is not among the first %d URLs of its host.", read)
			return false, nil
		}
		return true, nil
	})
}

// whyQueued says what a URL is queued for.
func whyQueued(e store.Entry, ahead int) string {
	what := "its first fetch"
	switch {
	case e.Kind.Revisit():
		what = "another visit"
	case e.Tries > 0 || !e.First.IsZero():
		what = fmt.Sprintf("another try, after %d that failed", e.Tries)
	}
	text := fmt.Sprintf("It waits for %s; URLs of its host before it: %d.", what, ahead)
	switch place, _ := e.Position(); {
	case e.Deferred():
		text += " It seems to belong to a trap, so it comes last."
	case place >= store.FinderPlaces:
		text += " Other peers have found it; the finders of a host take turns."
	}
	return text
}

// whyPending says why a URL of a host has not gone to its owner.
func (n *Node) whyPending(host string) string {
	r, ok := n.outbox.Row(host)
	switch {
	case !ok:
		return "It is about to leave for the queue of its host."
	case hostRole(r.State) == admin.HostUnresolved:
		return "The address of its host is not known yet."
	case hostRole(r.State) == admin.HostOutbox:
		return "It is kept until its owner has acknowledged it."
	}
	return "Its subnet has no owner yet; this peer keeps it until one claims the subnet."
}

// whyNowhere says why a URL is not to be fetched now.
func whyNowhere(s admin.URLState) string {
	switch {
	case s.GivenUp != nil:
		return "It was given up. To try it again: peerd retry URL."
	case s.NextVisit != nil && s.Page == nil:
		return "It is tried again later."
	case s.NextVisit != nil:
		return "It was fetched, and another visit is planned."
	case s.Page != nil && s.Page.Estimation:
		return "It was fetched at the request of its owner."
	case s.Page != nil:
		return "It was fetched, and no other visit is planned."
	case s.Seen:
		return "It was accepted, but this peer has no record of a fetch: another peer has " +
			"fetched it, or a rule for the host dropped it."
	}
	return "This peer has not accepted it. If it found it, it went to the owner."
}

// addCaptures adds what the archive has.
func (n *Node) addCaptures(ctx context.Context, u store.URL, s *admin.URLState) {
	if n.archive == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, traceTimeout)
	defer cancel()
	err := eachCapture(ctx, &n.archive.Reader, string(u), func(e warc.Entry) {
		s.Captures = append(s.Captures, admin.Capture{At: e.Time, Status: e.Status, Type: e.MIME,
			Bytes: e.Location.Length, File: e.Location.File})
		if len(s.Captures) > 2*maxCaptures {
			s.Captures = append(s.Captures[:0], s.Captures[maxCaptures:]...)
		}
	})
	if err != nil {
		s.CapturesUnread = err.Error()
	}
	slices.Reverse(s.Captures)
	s.Captures = s.Captures[:min(len(s.Captures), maxCaptures)]
}
