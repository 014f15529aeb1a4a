package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"peerd/crawl/canon"
	"peerd/node/admin"
	"peerd/store"
)

const (
	// traceTimeout bounds the look-up of a name for a trace, and reading the archive's index.
	traceTimeout = 10 * time.Second
	// maxCaptures is the number of captures of a trace.
	maxCaptures = 100
	// maxQueueRead is the number of entries of a queue that are read to find a URL in it.
	maxQueueRead = 100_000
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
	if err := n.deny.Check(t.Host, addr); err != nil {
		t.Denied = err.Error()
	}
	if t.Here, err = n.urlState(u); err != nil {
		return t, err
	}
	n.addCaptures(ctx, u, &t.Here)
	if t.OutOfScope == "" {
		n.placeURL(ctx, &t)
	}
	return t, nil
}

// placeURL adds the owner of the host of a trace.
func (n *Node) placeURL(ctx context.Context, t *admin.Trace) {
	ctx, cancel := context.WithTimeout(ctx, traceTimeout)
	defer cancel()
	p, err := n.Placement(ctx, t.Host)
	if err != nil {
		t.Unplaced = err.Error()
		return
	}
	t.Placement = &p
	if !p.Own && p.Owner != "" {
		t.Unanswered = "not asked; run there: peerd trace " + t.URL
	}
}

// urlState returns what the store and the frontier of this peer have of a URL, without captures.
func (n *Node) urlState(u store.URL) (s admin.URLState, err error) {
	err = n.db.View(func(tx *store.Tx) error {
		s = admin.URLState{Place: admin.PlaceNone}
		if s.Seen, err = tx.Seen(u); err != nil {
			return err
		}
		return errors.Join(addHost(tx, u, &s), addRecords(tx, u, &s), addPlace(tx, u, &s))
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
func addPlace(tx *store.Tx, u store.URL, s *admin.URLState) error {
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
		case read == maxQueueRead:
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
	return fmt.Sprintf("It waits for %s; URLs of its host before it: %d.", what, ahead)
}

// whyPending says why a URL of a host has not gone to its owner.
func (n *Node) whyPending(host string) string {
	for _, r := range n.outbox.Rows() {
		switch {
		case r.Host != host:
		case hostRole(r.State) == admin.HostUnresolved:
			return "The address of its host is not known yet."
		case hostRole(r.State) == admin.HostOutbox:
			return "It is kept until its owner has acknowledged it."
		default:
			return "Its subnet has no owner yet; this peer keeps it until one claims the subnet."
		}
	}
	return "It is about to leave for the queue of its host."
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
		return "It was accepted, but this peer has no record of a fetch: another peer has fetched " +
			"it, or a rule for the host dropped it."
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
	err := eachCapture(ctx, &n.archive.Reader, string(u), func(x indexed) {
		size, _ := strconv.ParseInt(x.Length, 10, 64) // 0 if it is no number
		s.Captures = append(s.Captures, admin.Capture{At: x.at, Status: x.Status, Type: x.Mime,
			Bytes: size, File: x.File})
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
