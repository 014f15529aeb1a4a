package node

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"peerd/node/admin"
	"peerd/node/config"
	"peerd/overlay"
)

const (
	// joinPatience is how long after its start a peer that has not joined is not yet alone.
	joinPatience = 30 * time.Second
	// unreachableAfter is how long no peer of unreachablePeers must have connected to this one for
	// it to count as unreachable from outside. In smaller networks it may be chance.
	unreachableAfter = 10 * time.Minute
	unreachablePeers = 3
)

// facts are what the health of a peer is judged by.
type facts struct {
	up      time.Duration // since the start
	paused  string        // why and until when; "": it is not
	offline string        // why; "": it is not
	blocked []string      // limits in effect
	volume  string        // that of the month is used up; "": it is not
	// bootstrap says that there are addresses to join through, and lastError what failed last.
	// mdns says that the local network is searched, too.
	bootstrap bool
	mdns      bool
	lastError string
	clock     string // how wrong it is; "": it is not
	alone     bool   // by Options.Alone
	members   int    // connected peers
	// inbound says that another machine has connected to this peer, or that none could have: it
	// listens on loopback only.
	inbound  bool
	reach    overlay.Reachability
	waiting  int64 // URLs: queued, in flight, unclaimed, in the outbox
	sent     int64 // URLs delivered to their owners since the start
	fetched  int64 // pages, in the lifetime of the home
	givenUp  int64 // URLs
	revisits bool
	collects bool // and fetches nothing, by the settings
}

// health judges facts: the first state that applies.
func (f facts) health() admin.Health {
	h := healthOf
	switch {
	case f.paused != "":
		return h(admin.HealthPaused, "%s", `to continue: peerd resume`, f.paused)
	case f.volume != "":
		return h(admin.HealthHeldBack, "%s",
			"raise it in config.toml, then: peerd reload; or wait until the month ends", f.volume)
	case f.offline != "":
		return h(admin.HealthOffline, "%s",
			"check the network of this machine; the peer continues by itself", f.offline)
	case len(f.blocked) > 0:
		return h(admin.HealthHeldBack, "%s",
			"settings in parentheses are in config.toml; the peer continues by itself when it can",
			strings.Join(f.blocked, "; "))
	case f.clock != "":
		return h(admin.HealthAlone, "the clock is %s, which refuse what this peer announces",
			admin.SetClock+"; or, if it is right, the clocks of the others", f.clock)
	case f.joining():
		return h(admin.HealthJoining, "no peer has answered yet", "")
	case f.members == 0 && !f.alone && f.bootstrap:
		return h(admin.HealthAlone, "no peer can be reached: %s",
			"ask another member whether the address is right and its peer runs: peerd doctor",
			f.lastError)
	case f.members == 0 && !f.alone:
		return h(admin.HealthAlone, "no other peer is known",
			"invite others: peerd invite; or join a network: peerd join LINE")
	case f.unreachable() != "":
		return h(admin.HealthUnreachable, "%s",
			"forward the ports of listen in config.toml to this machine, and allow them in its "+
				"firewall", f.unreachable())
	case f.collects:
		return h(admin.HealthCollecting, "%d peers are connected, of which the archives are copied",
			"", f.members)
	case f.waiting > 0:
		return h(admin.HealthCrawling, "%d URLs are waiting", "", f.waiting)
	}
	return f.idle()
}

// healthOf returns a state with its reason, which is formatted, and what to do.
func healthOf(s admin.HealthState, why, do string, args ...any) admin.Health {
	return admin.Health{State: s, Why: fmt.Sprintf(why, args...), Do: do}
}

// idle judges a peer at which no URL is waiting.
func (f facts) idle() admin.Health {
	h := healthOf
	switch {
	case f.fetched == 0 && f.givenUp > 0:
		return h(admin.HealthIdle, "no page was fetched, and %d URLs were given up",
			"see why: peerd queue --given-up", f.givenUp)
	case f.fetched == 0 && f.sent > 0:
		return h(admin.HealthIdle, "other peers own the %s that came to this peer",
			"see who fetches one: peerd trace URL", count(f.sent, "URL"))
	case f.fetched == 0:
		return h(admin.HealthIdle, "no URL has come to this peer",
			"add one: peerd seed URL; or wait for other peers")
	case f.revisits:
		return h(admin.HealthIdle, "no page is due to be visited again", "")
	}
	return h(admin.HealthDone, "all %d pages that came to this peer have been fetched", "",
		f.fetched)
}

// unreachable says why other peers cannot connect to this one, or "".
func (f facts) unreachable() string {
	switch {
	case f.reach == overlay.ReachNone:
		return "peers that have tried cannot connect to this one, and no member relays for it yet"
	case f.reach == overlay.ReachUnknown && !f.inbound && f.members >= unreachablePeers &&
		f.up >= unreachableAfter:
		return fmt.Sprintf("%d peers are connected, but none has connected to this one", f.members)
	}
	return ""
}

// joining reports whether a peer that has not met another one yet may meet one soon.
func (f facts) joining() bool {
	return f.members == 0 && !f.alone && (f.bootstrap || f.mdns) && f.up < joinPatience
}

// health returns how this peer is. s holds the rest of the status.
func (n *Node) health(s admin.Status) admin.Health {
	now := time.Now()
	f := facts{
		up: now.Sub(n.started), blocked: n.blocked(now, false), bootstrap: len(s.Bootstrap) > 0,
		mdns:  n.opts.Config.MDNS,
		alone: n.opts.Alone, fetched: s.PagesFetched, revisits: n.opts.Profile.Revisit.Enabled,
		paused:  n.pause.describe(now),
		volume:  n.volumeState(),
		waiting: s.Frontier.Pending + s.Frontier.InFlight + s.Frontier.Unclaimed + s.OutboxURLs,
		givenUp: s.Failed + s.RobotsDenied, sent: s.Batches.URLsSent,
		collects: n.onlyCollects(),
		inbound:  n.inbound.Load() || !n.listensOutside(), reach: n.net.Reachability(),
	}
	if s.Clock != nil && s.Clock.Wrong {
		f.clock = s.Clock.String()
	}
	if s.Offline != nil {
		f.offline = s.Offline.Reason
	}
	for _, b := range s.Bootstrap {
		if b.LastError != "" {
			f.lastError = b.Addr + ": " + b.LastError
		}
	}
	for _, p := range n.net.Host.Network().Peers() {
		if n.net.Member(p) {
			f.members++
		}
	}
	return f.health()
}

// onlyCollects reports whether this peer fetches nothing and copies the archives of others.
func (n *Node) onlyCollects() bool {
	return n.opts.Config.Collect.Enabled && !n.opts.Alone &&
		n.crawlSettings().Hours == config.Never
}

// listensOutside reports whether another machine could connect to this peer.
func (n *Node) listensOutside() bool {
	for _, a := range n.net.Host.Addrs() {
		if !manet.IsIPLoopback(a) {
			return true
		}
	}
	return false
}

// usesInternet reports whether other machines are reached over the real network: not in an
// emulation, and not if this peer listens on loopback addresses only.
func (n *Node) usesInternet() bool {
	return n.opts.Emulation == nil && !n.opts.Alone &&
		slices.ContainsFunc(n.opts.Config.Listen, func(text string) bool {
			a, err := ma.NewMultiaddr(text)
			return err == nil && !manet.IsIPLoopback(a)
		})
}

// watchInbound notes when another machine connects to this peer.
func (n *Node) watchInbound() {
	n.net.Host.Network().Notify(&network.NotifyBundle{
		ConnectedF: func(_ network.Network, c network.Conn) {
			if c.Stat().Direction == network.DirInbound &&
				!manet.IsIPLoopback(c.RemoteMultiaddr()) &&
				!overlay.IsRelayed(c.RemoteMultiaddr()) {
				n.inbound.Store(true)
			}
		},
	})
}
