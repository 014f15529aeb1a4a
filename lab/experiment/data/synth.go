package data

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"net/netip"
	"strconv"

	"peerd/coords/registry"
)

// SynthConfig holds the parameters of Synth.
type SynthConfig struct {
	// Crawlers and Sites are the numbers of crawlers and sites. >= 1.
	Crawlers, Sites int
	// Coherence is the share of blocks, and of sites, that are in the same city as their
	// enclosing block. In [0, 1].
	Coherence float64
}

// DefaultSynthConfig returns the size of Papapetrou's data, 12 crawlers and
// 1,000 sites.
func DefaultSynthConfig() SynthConfig {
	return SynthConfig{Crawlers: 12, Sites: 1000, Coherence: 0.85}
}

// point is a point in a plane, in ms.
type point struct{ x, y float64 }

func (p point) to(q point) float64 { return math.Hypot(p.x-q.x, p.y-q.y) }

// synthLands are the parts of the world, with the number and spread of their cities.
var synthLands = []struct {
	at     point
	cities int
	spread float64
}{
	{point{0, 0}, 9, 22},     // North America
	{point{95, 10}, 9, 14},   // Europe
	{point{-70, 150}, 3, 16}, // Australia
	{point{-110, 60}, 4, 25}, // East Asia
}

// synthCities draws the cities of each land.
func synthCities(rng *rand.Rand) (cities [][]point) {
	for _, land := range synthLands {
		var of []point
		for range land.cities {
			of = append(of, point{land.at.x + rng.NormFloat64()*land.spread,
				land.at.y + rng.NormFloat64()*land.spread})
		}
		cities = append(cities, of)
	}
	return cities
}

// Synth generates a world: the /14 of providers in the /8 of a land, their /17 regions, and the
// /23 of customers with a /26 in them. Each is in the city of its enclosing block or, with some
// probability, in another one of the land. The time of a probe consists of the distance between
// the cities, both access links, and noise. Synth is deterministic.
func Synth(seed uint64, cfg SynthConfig) *World {
	rng := rand.New(rand.NewPCG(seed, 0x776f726c64))
	w := &World{Name: "made up " + strconv.FormatUint(seed, 10), Note: "made up by data.Synth"}
	cities := synthCities(rng)
	holders := 0
	entry := func(hi, lo byte, third, last byte, bits int, holder int) registry.Entry {
		e := registry.Entry{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{hi, lo, third, last}),
			bits), Registry: "world"}
		if holder > 0 {
			e.Holder = "world:" + strconv.Itoa(holder)
		}
		return e
	}
	var full, flat []registry.Entry
	var places []point // of sites, then crawlers
	n := cfg.Sites + cfg.Crawlers
	regions := map[[3]byte]point{}
	next := map[[3]byte]int{}
	providers := max(4, cfg.Sites/10)
	home := map[[2]byte]int{}
	cityOf := map[[2]byte]point{}
	var blocks [][2]byte
	for i := range providers {
		land := []int{0, 0, 0, 1, 1, 1, 2, 3}[rng.IntN(8)]
		b := [2]byte{byte(1 + 16*land), byte(4 * (i % 64))}
		if _, ok := home[b]; ok {
			continue
		}
		home[b], cityOf[b] = land, cities[land][rng.IntN(len(cities[land]))]
		blocks = append(blocks, b)
	}
	seen := map[byte]bool{}
	owner := map[[2]byte]int{}
	for _, b := range blocks {
		if !seen[b[0]] {
			seen[b[0]] = true
			full, flat = append(full, entry(b[0], 0, 0, 0, 8, 0)),
				append(flat, entry(b[0], 0, 0, 0, 8, 0))
		}
		holders++
		owner[b] = holders
		full, flat = append(full, entry(b[0], b[1], 0, 0, 14, holders)),
			append(flat, entry(b[0], b[1], 0, 0, 14, holders))
	}
	for i := range n {
		b := blocks[rng.IntN(len(blocks))]
		land := home[b]
		nearby := func(p point) point {
			if rng.Float64() < cfg.Coherence {
				return p
			}
			return cities[land][rng.IntN(len(cities[land]))]
		}
		r := [3]byte{b[0], b[1] + byte(rng.IntN(4)), byte(128 * rng.IntN(2))}
		if _, ok := regions[r]; !ok {
			regions[r] = nearby(cityOf[b])
			full = append(full, entry(r[0], r[1], r[2], 0, 17, owner[b]))
		}
		at := nearby(regions[r])
		c := next[r] // a region has room for 64 customers of two /24 each
		next[r] = (c + 1) % 64
		third := r[2] + byte(2*c)
		address := netip.AddrFrom4([4]byte{r[0], r[1], third, byte(1 + rng.IntN(60))})
		if rng.IntN(5) > 0 {
			holders++
			full = append(full, entry(r[0], r[1], third, 0, 23, holders),
				entry(r[0], r[1], third, 0, 26, holders))
		}
		places = append(places, at)
		if i < cfg.Sites {
			w.Sites = append(w.Sites, address)
		} else {
			w.Crawlers = append(w.Crawlers, address)
		}
	}
	w.ProbeMS = probesBetween(places[cfg.Sites:], places[:cfg.Sites], rng)
	w.Full, w.Holders = mustBuild(full), mustBuild(flat)
	return w
}

// probesBetween returns the times of probes between points.
func probesBetween(from, to []point, rng *rand.Rand) [][]float64 {
	access := make([]float64, len(to))
	for i := range access {
		access[i] = 2 + 6*rng.ExpFloat64()
	}
	out := make([][]float64, len(from))
	for c := range out {
		own := 1 + 2*rng.ExpFloat64()
		out[c] = make([]float64, len(to))
		for s := range to {
			detour := 1.1 + 0.4*rng.Float64()
			out[c][s] = min(own+access[s]+from[c].to(to[s])*detour+2*rng.ExpFloat64(), ProbeFailed)
		}
	}
	return out
}

// Gaussian returns the generated data of Papapetrou 2003, 8.5: "the generated probing times for
// the 50 crawlers were clustered around 50 gaussian distributions of varying mean value and
// deviation". Sites and crawlers are in clusters in a plane of width scale, in ms.
func Gaussian(seed uint64, crawlers, sites int, scale float64) *World {
	rng := rand.New(rand.NewPCG(seed, 0x6761757373))
	const clusters = 50
	centres, spreads := make([]point, clusters), make([]float64, clusters)
	for i := range centres {
		centres[i] = point{rng.Float64() * scale, rng.Float64() * scale}
		spreads[i] = rng.Float64() * scale / 10
	}
	around := func(i int) point {
		return point{centres[i].x + rng.NormFloat64()*spreads[i],
			centres[i].y + rng.NormFloat64()*spreads[i]}
	}
	w := &World{Name: "gaussian " + strconv.FormatUint(seed, 10), Note: "made up by data.Gaussian"}
	var from, to []point
	for i, c := range rng.Perm(max(clusters, crawlers))[:crawlers] {
		from = append(from, around(c%clusters))
		w.Crawlers = append(w.Crawlers, numbered(1, i))
	}
	for i := range sites {
		to = append(to, around(rng.IntN(clusters)))
		w.Sites = append(w.Sites, numbered(2, i))
	}
	for _, c := range from {
		row := make([]float64, sites)
		for s := range row {
			row[s] = 1 + c.to(to[s])
		}
		w.ProbeMS = append(w.ProbeMS, row)
	}
	w.Full, w.Holders = mustBuild(nil), mustBuild(nil)
	return w
}

// numbered returns address i of a /8.
func numbered(net byte, i int) netip.Addr {
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], uint32(net)<<24|uint32(i)<<8|1)
	return netip.AddrFrom4(a)
}

// mustBuild builds a table from generated entries.
func mustBuild(entries []registry.Entry) *registry.Table {
	t, err := registry.Build(entries)
	if err != nil {
		panic(err)
	}
	return t
}
