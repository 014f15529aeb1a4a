package sim

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"peerd/lab/emulate"
	"peerd/lab/emulate/wan"
	"peerd/lab/emulate/web"
	"peerd/lab/sim/fabric"
)

// world is the simulated network with its peers and sites. Only the goroutine that runs
// the schedule may call its methods, except for note.
type world struct {
	o        Options
	begin    time.Time
	seeded   time.Time
	fabric   *fabric.Fabric
	layout   emulate.Layout
	places   map[netip.Addr]int
	web      *web.Web
	names    sync.Mutex // guards hosts
	hosts    map[string][]netip.Addr
	machines []*machine
	boot     []string
	history
}

// newWorld builds the world of o; no machine runs yet.
func newWorld(o Options) (*world, error) {
	w := &world{o: o, begin: time.Now(), places: map[netip.Addr]int{}}
	w.layout = emulate.NewLayout(wan.NewWorld(wan.Cities(), o.Seed), o.Peers, o.Sites, o.Seed)
	w.fabric = fabric.New(w.latency)
	for i, addrs := range w.layout.SiteAddrs {
		for _, a := range addrs {
			w.places[a] = w.layout.SitePlaces[i]
		}
	}
	for i := range o.Peers {
		m, err := newMachine(w, i)
		if err != nil {
			return nil, err
		}
		w.places[m.addr] = w.layout.PeerPlaces[i]
		w.machines = append(w.machines, m)
	}
	for _, m := range w.machines[:2] {
		w.boot = append(w.boot, m.multiaddr())
	}
	var err error
	w.web, err = web.New(web.Config{
		Sites: o.Sites, Pages: o.Pages, Seed: o.Seed, Port: 80, MinDelay: o.Gap,
		Delay:     serverDelay,
		Addrs:     func(i int) []netip.Addr { return w.layout.SiteAddrs[i] },
		OnRequest: w.recordRequest,
		Open: func(at netip.AddrPort) (net.Listener, error) {
			return w.fabric.Up(at.Addr()).Listen(at.Port())
		},
	})
	if err != nil {
		return nil, err
	}
	w.hosts = w.web.Resolve()
	return w, nil
}

func (w *world) latency(from, to netip.Addr) time.Duration {
	return w.layout.World.Link(w.places[from], w.places[to]).RTT / 2
}

func (w *world) lookup(_ context.Context, host string) ([]netip.Addr, error) {
	w.names.Lock()
	defer w.names.Unlock()
	if addrs, ok := w.hosts[host]; ok {
		return addrs, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

// siteAddrs returns the addresses of all sites.
func (w *world) siteAddrs() (all []netip.Addr) {
	for _, addrs := range w.layout.SiteAddrs {
		all = append(all, addrs...)
	}
	return all
}

// peerOf returns the number of the peer at address a, or -1.
func (w *world) peerOf(a netip.Addr) int {
	for _, m := range w.machines {
		if m.addr == a {
			return m.n
		}
	}
	return -1
}

// clock returns the time since the start of the simulation.
func (w *world) clock() time.Duration { return time.Since(w.begin) }

func (w *world) String() string {
	return fmt.Sprintf("%d peers, %d sites of %d pages", w.o.Peers, w.o.Sites, w.o.Pages)
}
