package owner

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/internal/backoff"
	"peerd/overlay/hostmove"
	"peerd/overlay/ownership"
	"peerd/store"
)

// An owner that cannot reach the servers of a subnet gives it to a peer that can:
//
//	answering --a request fails--> silent --Times.Unreachable--> asking --a peer can--> leaving
//	    ^------any answer------------'  ^------no peer can---------'
//
// The wait doubles each time that no peer can. The first one is none if this peer denies the host.

const (
	// askedPeers is how many peers are asked to connect at a time.
	askedPeers = 2
	// connectAsksAtOnce bounds the subnets that other peers are asked about at once.
	connectAsksAtOnce = 4
	// maxUnreachableWait is the longest time between two times that others are asked.
	maxUnreachableWait = time.Hour
	// refusedFor is how long a subnet that left because this peer cannot reach it is refused.
	refusedFor = time.Hour
)

// contactState says whether the servers of a subnet answer this peer.
type contactState uint8

const (
	contactAnswering contactState = iota
	contactSilent
	contactAsking // as silent, and other peers are being asked
)

// contact is what is known of the connections of this peer to the servers of a subnet. It is
// guarded by the table's mutex.
type contact struct {
	state contactState
	host  string // that did not answer last, and its address
	addr  netip.Addr
	askAt time.Time
	asks  int // without success
}

// silent notes that a host did not answer.
func (c *contact) silent(host string, addr netip.Addr, now time.Time, wait time.Duration) {
	if c.state == contactAnswering {
		c.state, c.askAt = contactSilent, now.Add(wait)
	}
	c.host, c.addr = host, addr
}

// failed notes that no other peer has connected either.
func (c *contact) failed(now time.Time, wait time.Duration) {
	if c.state == contactAsking { // else a server has answered meanwhile
		c.asks++
		c.state = contactSilent
		c.askAt = now.Add(backoff.Double(wait, maxUnreachableWait, c.asks))
	}
}

// reachability is the part of a Manager that finds out which servers this peer can reach, and gives
// subnets with others to a peer that can.
type reachability struct {
	*table
	balance *balance
	hosts   hostmove.Frontier // nil: the addresses of hosts are not known; set by Attach
	// The others are guarded by mu.
	asking  int
	refused map[netip.Prefix]time.Time // subnets that left, until when they are refused
}

// silent notes that a host of ours did not answer. Others are asked after a wait.
func (w *reachability) silent(host string, wait time.Duration) {
	if w.cfg.Reacher == nil || w.hosts == nil {
		return
	}
	p, addr, ok := w.hosts.HostAddr(host)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.subnets[p]; s != nil {
		s.contact.silent(host, addr, time.Now(), wait)
	}
}

// toAsk returns what asks other peers about the subnets that have been silent for long enough.
func (w *reachability) toAsk(now time.Time) (tasks []func(context.Context)) {
	online := w.cfg.Limiter.Online()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.subnets {
		c := &s.contact
		switch {
		case c.state != contactSilent:
		case !online: // says nothing about the servers
			*c = contact{}
		case !c.askAt.After(now) && w.asking < connectAsksAtOnce && s.idleHere():
			c.state = contactAsking
			w.asking++
			tasks = append(tasks, func(ctx context.Context) { w.askOthers(ctx, s) })
		}
	}
	return tasks
}

// askOthers has other peers connect to a silent server, and gives its subnet to the first that can.
func (w *reachability) askOthers(ctx context.Context, s *subnet) {
	w.mu.Lock()
	c, sealed := s.contact, s.sealed
	w.mu.Unlock()
	to, err := w.firstToConnect(ctx, s, c, sealed)
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asking--
	if err != nil {
		w.log.Debug("found no peer that can reach a silent host", "host", c.host, "err", err)
		s.contact.failed(now, w.cfg.Times.Unreachable)
		return
	}
	switch {
	case s.contact.state != contactAsking || w.subnets[s.prefix] != s:
		return
	case !s.idleHere(): // others are asked again once it is
		s.contact.state = contactSilent
		return
	}
	s.contact = contact{}
	s.watch.Moved(now)
	w.step(s, ownership.Event{Kind: ownership.Moved, To: to.String()})
	maps.DeleteFunc(w.refused, func(_ netip.Prefix, until time.Time) bool {
		return until.Before(now)
	})
	w.refused[s.prefix] = now.Add(refusedFor)
	w.log.Info("started handover: another peer can reach the servers", "subnet", s.prefix,
		"to", to, "host", c.host)
	w.wake()
}

var errNoneConnects = errors.New("owner: no other peer has connected")

// firstToConnect returns the first peer that can connect to a silent server. It fails if this peer
// can connect as well: then the server is back, and the host is asked at once, or it answers no
// request. It asks no peer while the host asks to be left alone.
func (w *reachability) firstToConnect(
	ctx context.Context, s *subnet, c contact, sealed []byte,
) (peer.ID, error) {
	if err := w.mayConnect(c.host); err != nil {
		return "", err
	}
	own, cancel := context.WithTimeout(ctx, reachTimeout)
	_, ok := w.reachNow(own, c.host, []netip.Addr{c.addr})
	cancel()
	if ok { // its next try may be minutes away
		w.hosts.SetRetryAt(c.host, time.Now())
		return "", errors.New("owner: this peer can connect")
	}
	u, err := w.urlOf(c.host)
	if err != nil {
		return "", err
	}
	all := w.takers()
	w.mu.Lock()
	q, _ := w.balance.question(s, all, time.Now())
	w.mu.Unlock()
	ids := q.choose(all, len(all))
	for i := range min(askedPeers, len(ids)) {
		id := ids[(c.asks*askedPeers+i)%len(ids)] // others each time
		req := store.FetchRequest{URL: u, Addr: c.addr}
		rep, err := w.cfg.Estimate.Connect(ctx, id, sealed, req)
		if err == nil && rep.Outcome == store.OutcomeOK {
			return id, nil
		}
	}
	return "", errNoneConnects
}
