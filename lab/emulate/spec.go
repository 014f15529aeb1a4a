package emulate

import (
	"net/netip"
	"time"

	"peerd/lab/emulate/wan"
	"peerd/lab/emulate/web"
)

// A Spec describes an emulated network of which the peers and sites are processes of their own.
// Each of them makes the same layout of it, with places in real cities.
type Spec struct {
	Peers int    `json:"peers"`
	Sites int    `json:"sites"`
	Pages int    `json:"pages"`
	Seed  uint64 `json:"seed"`
	// Port is that of all sites.
	Port     int           `json:"port"`
	MinDelay time.Duration `json:"min_delay"` // that the audit of the sites demands
	// TimeScale is node.Emulation.TimeScale.
	TimeScale float64 `json:"time_scale"`
	// Peer is the number of the peer that this process is; the sites ignore it.
	Peer int `json:"peer"`
	// Net, if valid, is the network of containers in which the process runs. Then only Seed and
	// TimeScale count, and a Seed of 0 means no emulation.
	Net netip.Prefix `json:"net"`
}

// Layout returns the layout.
func (s Spec) Layout() Layout {
	return NewLayout(wan.NewWorld(wan.Cities(), s.Seed), s.Peers, s.Sites, s.Seed)
}

// Web returns the sites, with the layout of s.
func (s Spec) Web(l Layout) web.Config {
	return web.Config{
		Sites: s.Sites, Pages: s.Pages, Seed: s.Seed, Port: s.Port, MinDelay: s.MinDelay,
		Delay: 40 * time.Millisecond,
		Addrs: func(i int) []netip.Addr { return l.SiteAddrs[i] },
		World: l.World, Place: l.PlaceFor,
	}
}
