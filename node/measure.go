package node

import (
	"net/netip"
	"runtime"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/protocol"

	"peerd/crawl/trap"
	"peerd/node/config"
	"peerd/node/metrics"
	"peerd/overlay"
	"peerd/store"
	"peerd/store/warc"
)

// measured is a Node as package metrics sees it. Counters that are kept in the store are counted
// from its creation.
type measured struct {
	n         *Node
	counters  store.Counters
	named     map[string]int64
	protocols map[protocol.ID]string
}

// newMetrics returns the metrics of a peer that is about to run.
func (n *Node) newMetrics() *metrics.Set {
	return metrics.New(n.registry, &measured{
		n: n, counters: n.db.Counters(), named: n.db.NamedCounters(),
		protocols: n.net.Names.Words(),
	}, config.Version, runtime.Version(), n.log)
}

// Measure returns the current state. It reads only what is in memory, and the free space.
func (m *measured) Measure() metrics.State {
	n, total := m.n, m.n.db.Counters()
	s := metrics.State{
		Counters: total.Sub(m.counters),
		GivenUp: metrics.GivenUp{
			Failed: max(total.Failed, 0), RobotsDenied: max(total.RobotsDenied, 0),
		},
		Pending:        n.outbox.Stats(), // before Frontier, as in Status
		Frontier:       n.frontier.Stats(),
		Pauses:         n.frontier.Pauses(),
		WorkerWait:     n.frontier.WorkerWait(),
		Blocked:        m.blocked(time.Now()),
		Subnets:        n.manager.Counts(),
		Owner:          n.manager.Stats(),
		OwnerMap:       n.ownerMap.Stats(),
		Traffic:        m.traffic(),
		PeersKnown:     n.peers.Directory().Len(),
		PeersConnected: len(n.net.Host.Network().Peers()),
		Coordinate:     m.coordinate(),
		DiskMinFree:    int64(n.opts.Config.Crawl.MinFree),
	}
	s.ServersReady, s.ServersWaiting = n.frontier.Servers()
	if u := n.traffic.Usage(); u.Limits.MonthlyVolume > 0 {
		s.Month = &metrics.Month{Bytes: u.Month, Volume: u.Limits.MonthlyVolume}
	}
	s.Dropped, s.Marked = m.reasons(s.Counters.Dropped)
	if free, err := warc.FreeDisk(n.opts.Home.Dir); err == nil {
		s.DiskFree = free
	}
	if n.archive != nil {
		s.Archive = &metrics.Archive{
			Stats: n.archive.Stats(), Quota: int64(n.opts.Config.Archive.Quota),
		}
	}
	return s
}

// reasons returns what splitReasons returns for what was counted since the creation of m, with a
// number for each heuristic.
func (m *measured) reasons(total int64) (dropped, marked map[string]int64) {
	named := m.n.db.NamedCounters()
	for name := range named {
		named[name] -= m.named[name]
	}
	dropped, marked = splitReasons(total, named)
	for _, name := range append(trap.All.Names(), "limit") {
		dropped[name] += 0
	}
	return dropped, marked
}

// blocked tells for each obstacle whether it is there.
func (m *measured) blocked(now time.Time) map[string]bool {
	all, blocked := m.n.obstacles(now), map[string]bool{}
	for _, name := range obstacleNames {
		_, blocked[name] = all[name]
	}
	blocked["hours"] = m.n.crawlSettings().Hours.Wait(now) > 0 // also of a collector
	return blocked
}

// traffic returns the bytes by the name of the protocol.
func (m *measured) traffic() map[string]overlay.Bytes {
	all := map[string]overlay.Bytes{"libp2p": {}}
	for _, name := range m.protocols {
		all[name] = overlay.Bytes{}
	}
	for id, b := range m.n.net.Traffic() {
		name, ok := m.protocols[id]
		if !ok {
			name = "libp2p"
		}
		sum := all[name]
		all[name] = overlay.Bytes{Sent: sum.Sent + b.Sent, Received: sum.Received + b.Received}
	}
	return all
}

// coordinate describes the coordinate of this peer, and how well it predicts round trips.
func (m *measured) coordinate() metrics.Coordinate {
	here := m.n.peers.Coordinate()
	c := metrics.Coordinate{Error: here.Error, Height: here.Height, Moved: m.n.peers.Moved()}
	for _, b := range m.n.peers.Directory().All() {
		if rtt, ok := m.n.peers.RTT(b.Peer); ok {
			c.Ratios = append(c.Ratios, here.Distance(b.At.Unloaded(b.Wait))/ms(rtt))
		}
	}
	slices.Sort(c.Ratios)
	return c
}

// countFetch counts a request of this peer to a web server in a subnet of its own.
func (n *Node) countFetch(p netip.Prefix, r store.FetchReport) {
	if n.metrics == nil && n.events == nil {
		return
	}
	predicted, _ := n.manager.Placement().Predict(p, r.Bytes)
	n.addFetch(p, r, predicted, false)
	n.metrics.ObserveFetch(r, predicted)
	if n.journal != nil && r.Outcome == store.OutcomeOK && !r.File {
		n.journal.observe(p, predicted, r.Timing.FirstByte+r.Timing.Body)
	}
}
