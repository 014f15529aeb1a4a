package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
	"peerd/crawl"
	"peerd/crawl/canon"
	"peerd/crawl/network"
	"peerd/crawl/trap"
	"peerd/internal/order"
	"peerd/node/admin"
	"peerd/node/config"
	"peerd/overlay/owner"
	"peerd/store"
)

var _ admin.Node = (*Node)(nil)

// Status returns the state of the peer. Frontier and outbox of a peer without work are all
// zero.
func (n *Node) Status() admin.Status {
	pending := n.outbox.Stats() // first: a URL that moves is counted twice rather than missed
	fr := n.frontier.Stats()
	c := n.db.Counters()
	moves, owners := n.manager.Stats(), n.ownerMap.Stats()
	self := n.peers.Self()
	sent, received := n.net.ControlBytes()
	dropped, marked := splitReasons(c.Dropped, n.db.NamedCounters())
	s := admin.Status{
		PeerID:         n.net.Self().String(),
		Addrs:          n.Addrs(),
		Network:        n.opts.Profile.NetworkID(),
		Strategy:       n.opts.Config.Strategy,
		UptimeS:        time.Since(n.started).Seconds(),
		Coordinate:     admin.Coordinate(self.At),
		PeersConnected: len(n.net.Host.Network().Peers()),
		Directory:      n.peers.Directory().Len(),
		Bootstrap:      n.bootstrapStatus(),
		SubnetsOwned:   len(n.manager.List()),
		SubnetsSilent:  n.manager.SilentSubnets(time.Now()),
		Hosts:          fr.Hosts,
		Frontier: admin.Frontier{
			Pending: fr.Pending, InFlight: int64(fr.InFlight), Unclaimed: pending.Unclaimed,
		},
		OutboxURLs:   pending.Outbox,
		PagesFetched: c.Pages,
		BytesFetched: c.Bytes,
		Failed:       max(c.Failed, 0),
		RobotsDenied: max(c.RobotsDenied, 0),
		URLsSeen:     c.Seen,
		Fetches:      c.Fetches,
		Dropped:      dropped,
		Marked:       marked,
		Revisits: admin.Revisits{
			Done: c.Revisits, NotModified: c.NotModified, Changed: c.Changed,
		},
		Registries: n.registryStatus(),
		GeoDB:      n.geoStatus(),
		Archive:    n.archiveStatus(),
		Replay:     n.replayURL(),
		Offline:    n.offlineStatus(),
		Clock:      n.clockStatus(),

		Reachability: n.net.Reachability().String(),
		Blocked:      n.blocked(time.Now(), pending.Unclaimed > 0),
		VotesFrom:    n.votesFrom(),
		Batches: admin.Batches{
			Sent: c.BatchesSent, Received: c.BatchesReceived,
			URLsSent: c.URLsSent, URLsReceived: c.URLsReceived,
		},
		Estimations: admin.Estimations{
			Requested: c.EstimationsRequested, Served: c.EstimationsServed, Scouts: moves.Scouts,
		},
		Probes: admin.Probes{Made: c.Probes, Connects: c.Connects},
		OwnerMap: admin.OwnerMap{
			Subnets: owners.Subnets, Sent: owners.Sent, Received: owners.Received,
		},
		Handovers: admin.Handovers{
			Out: c.HandoversOut, In: c.HandoversIn,
			Moves: moves.Moves, Takeovers: moves.Takeovers,
		},
		ControlBytes: admin.Traffic{Sent: sent, Received: received},
	}
	s.Health = n.health(s)
	return s
}

// splitReasons separates the names under which URLs were dropped from those under which
// pages were marked. URLs dropped without a name are counted as "limit".
func splitReasons(total int64, named map[string]int64) (dropped, marked map[string]int64) {
	dropped, marked = map[string]int64{}, map[string]int64{}
	traps := trap.All.Names()
	for name, n := range named {
		if !slices.Contains(traps, name) {
			marked[name] = n
			continue
		}
		dropped[name] = n
		total -= n
	}
	if total > 0 {
		dropped["limit"] = total
	}
	return dropped, marked
}

func (n *Node) bootstrapStatus() []admin.BootstrapAddr {
	all := []admin.BootstrapAddr{}
	for _, b := range n.net.Bootstrap() {
		a := admin.BootstrapAddr{Addr: b.Addr, Connected: b.Connected, LastError: b.LastError}
		if !b.NextAttempt.IsZero() {
			at := b.NextAttempt.UTC()
			a.NextAttempt = &at
		}
		all = append(all, a)
	}
	return all
}

func (n *Node) offlineStatus() *admin.Offline {
	s := n.network.State()
	if s.Status != network.Offline {
		return nil
	}
	return &admin.Offline{Since: s.Since.UTC(), Reason: s.Reason}
}

func (n *Node) clockStatus() *admin.Clock {
	ahead, others, wrong := n.peers.Clocks()
	if others == 0 {
		return nil
	}
	return &admin.Clock{AheadS: (-ahead).Seconds(), Peers: others, Wrong: wrong}
}

func (n *Node) votesFrom() *time.Time {
	if n.witness == nil {
		return nil
	}
	at := n.witness.VotesFrom().UTC()
	return &at
}

func (n *Node) registryStatus() []admin.RegistryFile {
	all := []admin.RegistryFile{}
	for _, i := range n.registries {
		all = append(all, admin.RegistryFile{
			Registry: i.Registry, Day: i.Day, Loaded: i.Loaded,
			Blocks: i.Entries, Faults: i.Faulty,
		})
	}
	return all
}

func (n *Node) geoStatus() string {
	if n.geoDB == nil {
		return ""
	}
	return n.geoDB.Kind()
}

func (n *Node) archiveStatus() *admin.Archive {
	if n.archive == nil {
		return nil
	}
	s := n.archive.Stats()
	a := &admin.Archive{
		Files: s.Files, Bytes: s.Bytes, Quota: int64(n.opts.Config.Archive.Quota),
		Exchanges: s.Exchanges, Refused: s.Refused, RefusedBytes: s.RefusedBytes,
	}
	if n.mirrors != nil {
		a.MirrorsWanted = n.mirrors.Mirrors
		a.Mirrors, a.MirrorLag = n.mirrors.State()
	}
	for _, c := range n.keeper.All() {
		a.Copies++
		a.CopiedSize += c.Bytes()
	}
	return a
}

var obstacleNames = []string{
	"offline", "paused", "volume", "space", "hours", "quota", "twin", "witnesses",
}

// obstacles returns, by name, why this peer fetches nothing now.
func (n *Node) obstacles(now time.Time) map[string]string {
	all := map[string]string{}
	if s := n.network.State(); s.Status == network.Offline {
		all["offline"] = fmt.Sprintf("offline since %s (%s): %s",
			s.Since.Local().Format(time.TimeOnly), now.Sub(s.Since).Round(time.Second), s.Reason)
	}
	if paused := n.pause.describe(now); paused != "" {
		all["paused"] = paused
	}
	if volume := n.volumeState(); volume != "" {
		all["volume"] = volume
	}
	if err := n.checkSpace(); err != nil {
		all["space"] = err.Error()
	}
	c := n.crawlSettings()
	switch wait := c.Hours.Wait(now); {
	case c.Hours == config.Never && !n.onlyCollects():
		all["hours"] = "set to fetch nothing at any hour (crawl.hours)"
	case wait > 0 && c.Hours != config.Never:
		all["hours"] = fmt.Sprintf("outside the hours %s (crawl.hours), until %s", c.Hours,
			now.Add(wait).Format("2006-01-02 15:04"))
	}
	if wait := n.quota.RequestWait(now); wait >= time.Second {
		all["quota"] = fmt.Sprintf(
			"reached %d pages a day (crawl.pages_per_day), next request at %s",
			c.PagesPerDay, now.Add(wait).Format("15:04:05"))
	}
	if n.peers.Twin() {
		all["twin"] = "another process runs with the key of this peer, such as a copy of its " +
			"home; stop one of them (peerd init makes a home with another key)"
	}
	if !n.manager.HasQuorumLease() {
		all["witnesses"] = "too few of this peer's witnesses have heard it recently; " +
			"other peers may take over its subnets"
	}
	return all
}

// blocked lists the obstacles. With unclaimed, URLs of subnets without owner are waiting, and it
// also lists why no subnet is claimed.
func (n *Node) blocked(now time.Time, unclaimed bool) []string {
	why, all := []string{}, n.obstacles(now)
	for _, name := range obstacleNames {
		if text, ok := all[name]; ok {
			why = append(why, text)
		}
	}
	if votes := n.revoked(); votes != "" {
		why = append(why, votes)
	}
	if unclaimed && errors.Is(n.mayClaim(now), owner.ErrAlone) {
		why = append(why,
			"no known peer can be reached; no subnet is claimed until one can")
	}
	return why
}

// revoked says that subnets wait because witnesses have voted for another owner.
func (n *Node) revoked() string {
	waiting := 0
	for _, s := range n.manager.List() {
		if s.Revoked {
			waiting++
		}
	}
	if waiting == 0 {
		return ""
	}
	return fmt.Sprintf("witnesses have voted for another owner of %d subnets; "+
		"they wait until it is known whether there is one", waiting)
}

// Peers returns the peers of the directory, by name.
func (n *Node) Peers() []admin.Peer {
	self := n.peers.Self()
	here := self.At.Unloaded(self.Wait)
	all := []admin.Peer{}
	for _, b := range n.peers.Directory().All() {
		connected, relayed := n.net.ConnectedTo(b.Peer)
		at := b.At.Unloaded(b.Wait)
		c := admin.Coordinate(at)
		p := admin.Peer{
			PeerID: b.Peer.String(), Addrs: b.Addrs, Coordinate: &c, WaitMs: ms(b.Wait),
			Capacity: b.Capacity, Version: b.Version, LastSeenS: time.Since(b.Time).Seconds(),
			DistanceMs: here.Distance(at),
			Connected:  connected, Relayed: relayed,
			Earth: n.earth(addrOf(b.Addrs)),
		}
		if rtt, ok := n.peers.RTT(b.Peer); ok {
			p.RTTMs = ms(rtt)
		}
		n.addReports(&p)
		all = append(all, p)
	}
	order.SortFunc(all, func(a, b admin.Peer) int { return strings.Compare(a.PeerID, b.PeerID) })
	return all
}

// addReports adds what the checks of a peer's reports have shown, as an estimator and of sites on
// its machine. The worse one counts.
func (n *Node) addReports(p *admin.Peer) {
	r, ok := n.crawler.Reports(p.PeerID)
	for _, s := range n.crawler.SiteReports(p.PeerID) {
		if r.Checks = append(r.Checks, s.Checks...); !ok || s.Trust > r.Trust {
			r.Trust = s.Trust
		}
		ok = true
	}
	if !ok {
		return
	}
	p.Trust = r.Trust.String()
	order.SortStableFunc(r.Checks, func(a, b crawl.CheckResult) int { return a.At.Compare(b.At) })
	for _, x := range r.Checks {
		p.Checks = append(p.Checks, admin.ReportCheck{At: x.At, URL: string(x.URL),
			Agrees: x.Agrees, Said: x.Said, Found: x.Found})
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Subnets returns the subnets that this peer owns, by address.
func (n *Node) Subnets() []admin.Subnet {
	all, why := []admin.Subnet{}, n.reasons()
	for _, s := range n.manager.List() {
		hosts, pending, _, _ := n.frontier.SubnetLoad(s.Prefix)
		row := admin.Subnet{
			Subnet: s.Prefix.String(), Epoch: s.Epoch, Hosts: hosts, Pending: pending,
			State: subnetState(s.Phase), Unverified: s.Unverified,
			Estimations: s.Estimations, Since: s.Since, Proxy: proxyOf(s.Proxy),
		}
		if n.journal != nil {
			f := n.journal.fit(s.Prefix)
			row.PredictedMs, row.MeasuredMs, row.Measured = f.predicted, f.measured, f.n
		}
		row.Why = why[row.Subnet]
		all = append(all, row)
	}
	order.SortFunc(all, func(a, b admin.Subnet) int { return strings.Compare(a.Subnet, b.Subnet) })
	return all
}

func subnetState(p store.Phase) admin.SubnetState {
	switch p {
	case store.PhaseDeciding:
		return admin.SubnetEstimating
	case store.PhaseCommitting:
		return admin.SubnetLeaving
	default:
		return admin.SubnetOwned
	}
}

func proxyOf(p *coords.Proxy) *admin.Proxy {
	if p == nil {
		return nil
	}
	return &admin.Proxy{
		At: admin.Coordinate(p.At), Delay: p.Delay, Scale: p.Scale, PerKB: p.PerKB, Error: p.Error,
		Samples: p.Samples,
	}
}

// Replicas returns, for each subnet that this peer owns, the peers that keep a complete
// copy of it.
func (n *Node) Replicas() map[netip.Prefix][]peer.ID {
	all := map[netip.Prefix][]peer.ID{}
	for _, s := range n.manager.List() {
		all[s.Prefix] = s.Replicas
	}
	return all
}

// Queue returns the hosts that have URLs waiting at this peer, by name.
func (n *Node) Queue() []admin.Host {
	all := []admin.Host{}
	now := time.Now()
	for _, h := range n.frontier.HostList() {
		row := admin.Host{
			Host: h.Name, Subnet: h.Subnet.String(), Role: admin.HostOwn,
			Pending: h.Pending, Owner: n.net.Self().String(),
		}
		if h.InFlight {
			row.InFlight = 1
		}
		if h.NextAt.After(now) {
			row.NextAt, row.DelayMs = &h.NextAt, ms(h.NextAt.Sub(now))
		}
		all = append(all, row)
	}
	for _, r := range n.outbox.Rows() {
		row := admin.Host{Host: r.Host, Role: hostRole(r.State), Pending: int64(r.Count)}
		if r.Subnet.IsValid() {
			row.Subnet = r.Subnet.String()
		}
		if r.Owner != "" {
			row.Owner = r.Owner.String()
		}
		all = append(all, row)
	}
	order.SortFunc(all, func(a, b admin.Host) int { return strings.Compare(a.Host, b.Host) })
	return all
}

// hostRole returns the role of a host by its state in the outbox.
func hostRole(state string) admin.HostRole {
	switch role := admin.HostRole(state); role {
	case admin.HostUnresolved, admin.HostOutbox:
		return role
	default:
		return admin.HostUnclaimed
	}
}

// Links yields the pages that this peer fetched.
func (n *Node) Links(ctx context.Context, after string, yield func(admin.Link) error) error {
	return eachLink(ctx, n.db, after, yield)
}

func eachLink(
	ctx context.Context, db *store.DB, after string, yield func(admin.Link) error,
) error {
	var behind store.URL
	if after != "" {
		u, err := canon.Parse(after)
		if err != nil {
			return fmt.Errorf("%w: %w", admin.ErrBadRequest, err)
		}
		behind = u
	}
	return eachPage(ctx, db, behind, func(p store.Page) error { return yield(linkOf(p)) })
}

func linkOf(p store.Page) admin.Link {
	l := admin.Link{
		URL: string(p.URL), Status: p.Status, Outcome: p.Outcome.String(), Bytes: p.Bytes,
		FetchedAt: p.FetchedAt, Estimation: p.Estimation, TookMs: ms(p.Timing.Total()),
		Outlinks: make([]string, len(p.Links)),
	}
	for i, u := range p.Links {
		l.Outlinks[i] = string(u)
	}
	return l
}

// Pages yields the records of the pages that this peer fetched.
func (n *Node) Pages(ctx context.Context, yield func(store.Page) error) error {
	return eachPage(ctx, n.db, "", yield)
}

// eachPage yields the pages that were answered, behind that of a URL.
func eachPage(
	ctx context.Context, db *store.DB, behind store.URL, yield func(store.Page) error,
) error {
	return db.View(func(tx *store.Tx) error {
		return tx.PagesAfter(behind, func(p store.Page) error {
			if err := ctx.Err(); err != nil || !p.Outcome.Answered() {
				return err
			}
			return yield(p)
		})
	})
}
