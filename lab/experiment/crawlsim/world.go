package crawlsim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"peerd/coords/registry"
	"peerd/lab/emulate/wan"
)

// World is the set of peers and servers and the network between them. It does not change during
// a simulation, and several simulations may share it.
type World struct {
	Peers   []Peer
	Servers []Server
	// Spells are the times of overload of the peers.
	Spells Spells
	net    *wan.World
	row    []int // index in net of each peer, then of each server
	order  []int // servers by address
}

// Peer is a crawler.
type Peer struct {
	Name string
	Addr netip.Addr
	// Lat and Lon are where it stands, in degrees; NaN if that is not known.
	Lat, Lon float64
	// Bps is its bandwidth, bytes per second.
	Bps float64
	// Lag is the mean delay that its processor adds to each answer.
	Lag time.Duration
	// Fails is the share of its downloads that fail because of the peer.
	Fails float64
}

// Server is a web server, the only one in its subnet.
type Server struct {
	Subnet   netip.Prefix
	Lat, Lon float64 // NaN if not known
	// Delay is its median processing time of a page; the times are log-normal.
	Delay time.Duration
	// Turns is the number of round trips of a body after the first byte.
	Turns float64
	Bps   float64
	KB    float64 // mean size of its pages, kB
}

// Spells are times of overload, as by other programs on the same machine. Each peer has its
// own, independently. The zero Spells means none.
type Spells struct {
	// Every is the mean time from the end of one spell to the next, Last its mean length, and
	// Lag the mean addition to the peer's lag. All are exponential.
	Every, Last, Lag time.Duration
}

// Nature holds the distributions from which a world is drawn: log-normal ones, given by median
// and sigma.
type Nature struct {
	PeerBps, PeerBpsSigma     float64
	PeerLagMS, PeerLagSigma   float64
	PeerFails                 float64 // largest share of failures, evenly drawn
	DelayMS, DelaySigma       float64
	Turns                     float64
	ServerBps, ServerBpsSigma float64
	KB, KBSigma               float64
	Spells                    Spells
}

// PlanetLab returns a nature similar to that of Malet's crawlers in 2009: 77 kB per page, 4 to
// 7 % failures, and nodes with a slowness of their own that matters more than their distance
// ("very unpredictable").
//
// It is not a measurement and proves nothing by itself, because it was fitted to results. With
// the first draft (Plain), the 90th percentile of the oracle was 35 % below that of random, and
// that of proxy 21 % below. Then variance was moved from servers to peers, and spells of
// overload were added, so that random and geography, which learn nothing, come close to his
// figure 5.8 (random: half within 0.76 s; nine tenths within 5.5 s). With that, proxy improved
// from 21 to 62 % below random, and the thesis' own algorithm from 0 to 31 %, because the
// choice matters more if peers differ. Only claims that hold in all natures, including Plain
// and Servers, are valid: see experiment malet-natures.
func PlanetLab() Nature {
	return Nature{
		PeerBps: 450e3, PeerBpsSigma: 1.3, PeerLagMS: 60, PeerLagSigma: 2, PeerFails: 0.1,
		DelayMS: 80, DelaySigma: 0.8, Turns: 0.5, ServerBps: 1.5e6, ServerBpsSigma: 0.8, KB: 45,
		KBSigma: 1,
		Spells:  Spells{Every: time.Hour, Last: 20 * time.Minute, Lag: 6 * time.Second},
	}
}

// Plain returns the first draft of PlanetLab, made before results were known: peers and servers
// vary about equally, and there are no spells.
func Plain() Nature {
	return Nature{
		PeerBps: 800e3, PeerBpsSigma: 0.8, PeerLagMS: 25, PeerLagSigma: 1.2, PeerFails: 0.08,
		DelayMS: 100, DelaySigma: 0.8, Turns: 1, ServerBps: 2e6, ServerBpsSigma: 0.7, KB: 40,
		KBSigma: 0.7,
	}
}

// Servers returns a nature in which nearly all variance is at the servers: peers differ only in
// their place. No strategy can gain much.
func Servers() Nature {
	return Nature{
		PeerBps: 2e6, PeerBpsSigma: 0.2, PeerLagMS: 5, PeerLagSigma: 0.3, PeerFails: 0.02,
		DelayMS: 250, DelaySigma: 1.2, Turns: 1, ServerBps: 600e3, ServerBpsSigma: 1.2, KB: 45,
		KBSigma: 1,
	}
}

// NewWorld draws peers and servers at places of net. places has the position on Earth of each
// place, or is nil if they are unknown.
func NewWorld(
	net *wan.World, places []wan.Place, peers, servers int, nature Nature, seed uint64,
) *World {
	plan := wan.NewPlan(net, peers, servers, seed)
	w := &World{Spells: nature.Spells, net: plan.World,
		row: append(append([]int(nil), plan.Peers...), plan.Sites...)}
	at := make(map[string]wan.Place, len(places))
	for _, p := range places {
		at[p.Name] = p
	}
	where := func(row int) (lat, lon float64) {
		p, ok := at[plan.World.Name(row)]
		if !ok {
			return math.NaN(), math.NaN()
		}
		return p.Lat, p.Lon
	}
	rng := rand.New(rand.NewPCG(seed, 0x5157))
	for i := range peers {
		w.Peers = append(w.Peers, drawPeer(i, nature, rng))
		w.Peers[i].Lat, w.Peers[i].Lon = where(plan.Peers[i])
	}
	number := plan.Tour(seed)
	for i := range servers {
		w.Servers = append(w.Servers, drawServer(number[i], nature, rng))
		w.Servers[i].Lat, w.Servers[i].Lon = where(plan.Sites[i])
	}
	w.sort()
	return w
}

// NewWorldAt is NewWorld with the given place of each peer and server.
func NewWorldAt(
	net *wan.World, places []wan.Place, peers, servers []int, nature Nature, seed uint64,
) *World {
	rows := append(append([]int(nil), peers...), servers...)
	w := &World{Spells: nature.Spells, net: net.Select(rows)}
	rng := rand.New(rand.NewPCG(seed, 0x5157))
	for i, row := range rows {
		w.row = append(w.row, i)
		p := places[row]
		if i < len(peers) {
			w.Peers = append(w.Peers, drawPeer(i, nature, rng))
			w.Peers[i].Lat, w.Peers[i].Lon = p.Lat, p.Lon
			continue
		}
		s := drawServer(i-len(peers), nature, rng)
		s.Lat, s.Lon = p.Lat, p.Lon
		w.Servers = append(w.Servers, s)
	}
	w.sort()
	return w
}

// Number gives the servers subnets. There must be as many, and all different.
func (w *World) Number(subnets []netip.Prefix) {
	for i, p := range subnets {
		w.Servers[i].Subnet = p
	}
	w.sort()
}

// sort sorts the servers by address.
func (w *World) sort() {
	w.order = make([]int, len(w.Servers))
	for i := range w.order {
		w.order[i] = i
	}
	slices.SortFunc(w.order, func(a, b int) int {
		return w.Servers[a].Subnet.Addr().Compare(w.Servers[b].Subnet.Addr())
	})
}

// heldMost is the largest number of successive /24s of a holder.
const heldMost = 4

// Registry returns the entries of an Internet registry for the servers' addresses: blocks of
// eight /24s and, in them, the prefixes of holders, of 1 to 4 successive /24s. The order of the
// addresses follows a tour around the Earth (wan.Plan.Tour), so that servers with close
// addresses are mostly close to each other.
func (w *World) Registry(seed uint64) (*registry.Table, error) {
	rng := rand.New(rand.NewPCG(seed, 0x726972))
	var all []registry.Entry
	blocks := map[netip.Prefix]bool{}
	left, holder := 0, ""
	for k, i := range w.order {
		if left == 0 {
			left, holder = 1+rng.IntN(heldMost), fmt.Sprintf("sim:H%05d", k)
		}
		left--
		p := w.Servers[i].Subnet
		for _, bits := range []int{8, 13, 17, 21} {
			up, err := p.Addr().Prefix(bits)
			if err != nil {
				return nil, err
			}
			if !blocks[up] {
				blocks[up] = true
				all = append(all, registry.Entry{Prefix: up, Registry: "sim", Country: "ZZ"})
			}
		}
		all = append(all, registry.Entry{Prefix: p, Holder: holder, Registry: "sim", Country: "ZZ"})
	}
	return registry.Build(all)
}

// lognormal draws a value from the log-normal distribution with a median and a sigma.
func lognormal(rng *rand.Rand, median, sigma float64) float64 {
	return median * math.Exp(sigma*rng.NormFloat64())
}

func drawPeer(i int, n Nature, rng *rand.Rand) Peer {
	return Peer{
		Name:  fmt.Sprintf("peer-%05d", i),
		Addr:  netip.AddrFrom4([4]byte{100, byte(64 + i>>16), byte(i >> 8), byte(i)}),
		Bps:   max(lognormal(rng, n.PeerBps, n.PeerBpsSigma), 20e3),
		Lag:   millis(min(lognormal(rng, n.PeerLagMS, n.PeerLagSigma), 5000)),
		Fails: n.PeerFails * rng.Float64(),
	}
}

func drawServer(i int, n Nature, rng *rand.Rand) Server {
	return Server{
		Subnet: netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(16 + i>>16), byte(i >> 8), byte(i),
			0}), 24),
		Delay: millis(lognormal(rng, n.DelayMS, n.DelaySigma)),
		Turns: n.Turns,
		Bps:   lognormal(rng, n.ServerBps, n.ServerBpsSigma),
		KB:    lognormal(rng, n.KB, n.KBSigma),
	}
}

func millis(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// between returns the link between two peers, and Path the link between a peer and a
// server.
func (w *World) between(p, q int) wan.Link { return w.net.Link(w.row[p], w.row[q]) }
func (w *World) Path(p, server int) wan.Link {
	return w.net.Link(w.row[p], w.row[len(w.Peers)+server])
}
