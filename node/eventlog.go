package node

import (
	"context"
	"log/slog"
	"maps"
	"math"
	"net/netip"
	"slices"
	"time"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/node/config"
	"peerd/node/events"
	"peerd/overlay/outbox"
	"peerd/overlay/owner"
	"peerd/overlay/peers"
	"peerd/store"
)

// This file fills the event log. Like the journal, it learns of the ownership of subnets from
// messages of the log and from what the owner lists.

// stateEvery is the time between two states in the event log (Malet 2009, 4.2.3).
const stateEvery = 10 * time.Second

// openEvents opens the event log. The store is open, so no other process writes to the file.
func (n *Node) openEvents() error {
	c := n.opts.Config
	if !c.Events.Enabled {
		return nil
	}
	self, err := n.opts.Home.PeerID()
	if err != nil {
		return err
	}
	n.events, err = events.Open(n.opts.Home.EventsFile(), int64(c.Events.MaxSize), events.Start{
		Header:  events.Header{Self: self.String()},
		Version: config.Version, Network: n.opts.Profile.NetworkID(), Strategy: c.Strategy,
	}, n.log)
	if err == nil {
		n.log = slog.New(observingHandler{log: n.events, next: n.log.Handler()})
		n.parts = append(n.parts, n.runEvents)
	}
	return err
}

// runEvents writes the event log, and adds a state every ten seconds.
func (n *Node) runEvents(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- n.events.Run(ctx) }()
	tick := time.NewTicker(stateEvery)
	defer tick.Stop()
	leases := map[netip.Prefix]events.Lease{}
	for {
		n.addState()
		leases = n.addLeases(leases)
		select {
		case <-ctx.Done():
			return <-ended
		case <-tick.C:
		}
	}
}

// addState adds the state of this peer.
func (n *Node) addState() {
	waiting := n.outbox.Stats() // before the frontier, as in Status
	f, c, self := n.frontier.Stats(), n.db.Counters(), n.peers.Self()
	sent, received := n.net.ControlBytes()
	n.events.Add(&events.State{
		At: events.Coordinate(n.peers.Coordinate()), Wait: millis(self.Wait),
		Capacity: self.Capacity, Moved: n.peers.Moved(),
		Queued: f.Pending, InFlight: f.InFlight, Hosts: f.Hosts,
		Outbox: waiting.Outbox, Unclaimed: waiting.Unclaimed,
		Subnets: len(n.manager.List()), Known: n.peers.Directory().Len(),
		Connected: len(n.net.Host.Network().Peers()),
		Pages:     c.Pages, Fetches: c.Fetches, Bytes: c.Bytes, Failed: c.Failed,
		URLsSent: c.URLsSent, URLsReceived: c.URLsReceived,
		Estimations: c.EstimationsRequested, Served: c.EstimationsServed,
		HandoversIn: c.HandoversIn, HandoversOut: c.HandoversOut,
		Sent: sent, Received: received, Load1: load1(),
	})
}

// load1 returns the load of this machine over a minute; 0: not known.
func load1() float64 {
	v, _ := firstNumber("/proc/loadavg")
	return v
}

// addLeases adds what has changed in the subnets of this peer since old, and returns them.
func (n *Node) addLeases(old map[netip.Prefix]events.Lease) map[netip.Prefix]events.Lease {
	now := make(map[netip.Prefix]events.Lease, len(old))
	for _, s := range n.manager.List() {
		now[s.Prefix] = leaseOf(s)
		l := now[s.Prefix]
		if before, known := old[s.Prefix]; !known || changed(before, l) {
			n.events.Add(&l)
		}
		delete(old, s.Prefix)
	}
	for _, l := range old {
		l.Phase, l.Replicas, l.Proxy = "gone", 0, nil
		n.events.Add(&l)
	}
	return now
}

func leaseOf(s owner.Info) events.Lease {
	l := events.Lease{Subnet: s.Prefix.String(), Epoch: s.Epoch, Phase: s.Phase.String(),
		Replicas: len(s.Replicas)}
	if s.Proxy != nil {
		p := eventProxy(*s.Proxy)
		l.Proxy = &p
	}
	return l
}

// changed reports whether a lease differs in anything that is not about its proxy coordinate, or
// that has been fitted again.
func changed(a, b events.Lease) bool {
	proxy := func(l events.Lease) (error float64, samples int) {
		if l.Proxy == nil {
			return 0, 0
		}
		return l.Proxy.Error, l.Proxy.Samples
	}
	aError, aSamples := proxy(a)
	bError, bSamples := proxy(b)
	return a.Epoch != b.Epoch || a.Phase != b.Phase || a.Replicas != b.Replicas ||
		aError != bError || aSamples != bSamples
}

// addPage adds a page that was stored to the journal and the event log.
func (n *Node) addPage(p store.Page) {
	if n.journal != nil {
		n.journal.addPage(p)
	}
	if n.events != nil {
		n.events.Add(&events.Page{
			URL: string(p.URL), Status: p.Status, Outcome: p.Outcome.String(), Bytes: p.Bytes,
			Links: len(p.Links), Took: millis(p.Timing.Total()), Served: p.Estimation,
			Check: p.Check,
		})
	}
}

// addFetch adds a request of this peer to a web server.
func (n *Node) addFetch(
	p netip.Prefix, r store.FetchReport, predicted time.Duration, served bool,
) {
	if n.events == nil {
		return
	}
	n.events.Add(&events.Fetch{
		Subnet: p.String(), Served: served, Outcome: r.Outcome.String(), Status: r.Status,
		Bytes: r.Bytes, Times: timesOf(r.Timing), Predicted: millis(predicted),
	})
}

// addSample adds what another peer has measured for this one.
func (n *Node) addSample(p netip.Prefix, who string, r store.FetchReport, err error) {
	if n.events == nil {
		return
	}
	at, _ := n.directory().At(who)
	s := events.Sample{
		Subnet: p.String(), Peer: who, At: events.Coordinate(at), Outcome: r.Outcome.String(),
		Bytes: r.Bytes, Times: timesOf(r.Timing),
	}
	if err != nil {
		s.Error = clipText(err.Error(), maxEventText)
	}
	n.events.Add(&s)
}

func (n *Node) addBatch(b outbox.Batch) {
	if n.events == nil {
		return
	}
	e := events.Batch{Peer: b.Peer.String(), Sent: b.Sent, Hosts: b.Hosts, URLs: b.URLs,
		Accepted: b.Accepted, Took: millis(b.Took)}
	if b.Err != nil {
		e.Error = clipText(b.Err.Error(), maxEventText)
	}
	n.events.Add(&e)
}

func (n *Node) addExchange(x peers.Exchange) {
	e := events.Exchange{Peer: x.Peer.String(), ID: x.ID, Asked: x.Asked,
		RTT: millis(x.RTT), At: events.Coordinate(x.At)}
	for i := range x.Sent {
		e.Sent = append(e.Sent, n.events.At(x.Sent[i]))
		e.Received = append(e.Received, n.events.At(x.Received[i]))
	}
	n.events.Add(&e)
}

func messageOf(r slog.Record, attrs []slog.Attr) *events.Message {
	m := events.Message{Level: r.Level.String(), Text: clipText(r.Message, maxEventText),
		Details: map[string]string{}}
	m.Subnet, m.Peer = eachDetail(r, attrs, func(key, text string) { m.Details[key] = text })
	return &m
}

// observeStrategy returns a strategy that chooses as s, and adds its choices to the event log.
func (n *Node) observeStrategy(s assign.Strategy) assign.Strategy {
	if n.events == nil {
		return s
	}
	o := observedStrategy{s, n.events}
	if r, ok := s.(assign.Reviewer); ok {
		return observedReviewer{o, r}
	}
	return o
}

// observedStrategy adds the choices of a strategy to the event log.
type observedStrategy struct {
	assign.Strategy
	log *events.Log
}

func (o observedStrategy) Next(e assign.Evidence) (assign.Step, error) {
	step, err := o.Strategy.Next(e)
	if err == nil && step.Choice != "" {
		o.log.Add(decisionOf(e, step))
	}
	return step, err
}

// observedReviewer is an observedStrategy that reviews.
type observedReviewer struct {
	observedStrategy
	reviewer assign.Reviewer
}

func (o observedReviewer) Review(e assign.Evidence) (assign.Review, error) {
	r, err := o.reviewer.Review(e)
	if err == nil && r.Better != "" {
		review := &events.Review{Subnet: e.Subnet.String(), Better: r.Better, Gain: r.Gain,
			Doubt: r.Doubt}
		for _, c := range e.Candidates {
			switch c.ID {
			case e.Self:
				review.WaitSelf = millis(c.Wait)
			case r.Better:
				review.WaitBetter = millis(c.Wait)
			}
		}
		o.log.Add(review)
	}
	return r, err
}

func decisionOf(e assign.Evidence, step assign.Step) *events.Decision {
	d := events.Decision{Subnet: e.Subnet.String(), Choice: step.Choice, Forced: !e.CanProbe,
		Candidates: []events.Candidate{}, Evidence: []events.Evidence{}}
	if step.Proxy != nil {
		p := eventProxy(*step.Proxy)
		d.Proxy = &p
	}
	for _, c := range e.Candidates {
		d.Candidates = append(d.Candidates, events.Candidate{
			Peer: c.ID, At: events.Coordinate(c.At), Wait: millis(c.Wait), Capacity: c.Capacity,
			Excluded: e.Exclude[c.ID], Predicted: millis(step.Predicted[c.ID]),
		})
	}
	for _, id := range slices.Sorted(maps.Keys(e.Exclude)) { // those that are no candidates
		if !slices.ContainsFunc(e.Candidates, func(c assign.Candidate) bool { return c.ID == id }) {
			d.Candidates = append(d.Candidates, events.Candidate{Peer: id, Excluded: true})
		}
	}
	for _, s := range e.Samples {
		d.Evidence = append(d.Evidence, events.Evidence{
			Peer: s.Peer, At: events.Coordinate(s.At), Bytes: s.Bytes, Failed: s.Failed,
			Age: round3(time.Since(s.Taken).Seconds()), Times: timesOf(store.Timing{
				Connect: s.Connect, FirstByte: s.FirstByte, Body: s.Body, Reused: s.Reused}),
		})
	}
	return &d
}

func eventProxy(p coords.Proxy) events.Proxy {
	return events.Proxy{At: events.Coordinate(p.At), Delay: round3(p.Delay), Scale: round3(p.Scale),
		PerKB: round3(p.PerKB), Error: p.Error, Samples: p.Samples}
}

func timesOf(t store.Timing) events.Times {
	return events.Times{DNS: millis(t.DNS), Connect: millis(t.Connect), TLS: millis(t.TLS),
		FirstByte: millis(t.FirstByte), Body: millis(t.Body), Reused: t.Reused}
}

// millis returns a time in milliseconds, to a microsecond.
func millis(d time.Duration) float64 { return round3(ms(d)) }

func round3(v float64) float64 { return math.Round(v*1000) / 1000 }
