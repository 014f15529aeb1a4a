package scale

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"peerd/coords"
	"peerd/coords/zone"
	"peerd/overlay/peers"
)

// scaleEntry is one peer in a table: when its beacon was made, and when it was received from
// that peer. Times are in seconds of virtual time.
type scaleEntry struct {
	id    int32
	made  float32
	heard float32
}

// scaleViews holds the tables of all peers and simulates the exchanges that fill them. The
// choices are made by the peers' code (coords/zone, coords.ChoosePartners); messages are
// counted with their real sizes.
type scaleViews struct {
	cfg            peers.Config
	sizes          peers.Sizes
	zones          zone.Config
	world          *scaleWorld
	peers          []*coords.Estimator
	tellers        []*coords.Announcer
	at             []coords.Coordinate // current ones
	said           []coords.Coordinate // those in the last beacons
	names          []string
	rng            *rand.Rand
	present        int            // number of peers that have joined
	tables         [][]scaleEntry // sorted by id
	full           []bool         // has dropped a peer
	reach          []float64
	pals           []coords.Partners
	index          map[string]int32
	made           []float32 // time of the own beacon
	due            []float32
	turn           []int            // part of its peers that each last asked for
	spent, spentAt []float32        // the budget for early beacons
	hasty          []int            // number of remaining fast measurements
	met            []map[int32]bool // peers with an earlier exchange

	now      float32
	bytes    float64 // sent by all peers
	messages float64
	// Of the bytes: digests, beacons passed on, and changes sent at once.
	digests, passed, pushed float64

	offers []zone.Offer // buffer
	from   []int32
	known  []zone.Peer
}

// newScaleViews creates n peers, none of which has joined yet.
func newScaleViews(
	cfg peers.Config, sizes peers.Sizes, zones zone.Config, world *scaleWorld, n int,
	rng *rand.Rand,
) (*scaleViews, error) {
	v := &scaleViews{
		cfg: cfg, sizes: sizes, zones: zones, world: world, names: scaleNames(n), rng: rng,
		tables: make([][]scaleEntry, n), full: make([]bool, n), reach: make([]float64, n),
		pals:  make([]coords.Partners, n),
		index: make(map[string]int32, n), made: make([]float32, n), due: make([]float32, n),
		met:   make([]map[int32]bool, n),
		hasty: make([]int, n), turn: make([]int, n), spent: make([]float32, n),
		spentAt: make([]float32, n),
	}
	for i := range n {
		ecfg := coords.DefaultConfig()
		ecfg.Rand = rand.New(rand.NewPCG(world.seed, uint64(i)))
		est := coords.NewEstimator(ecfg)
		v.peers, v.tellers = append(v.peers, est), append(v.tellers, new(coords.Announcer))
		v.at, v.said = append(v.at, est.Coordinate()), append(v.said, est.Coordinate())
	}
	for i := range n {
		v.index[v.names[i]] = int32(i)
		v.met[i] = map[int32]bool{}
		v.hasty[i] = scaleHasty
	}
	return v, nil
}

// join lets peers join until there are so many. Each knows four others.
func (v *scaleViews) join(until int) {
	from := max(v.present, 4)
	for ; v.present < min(until, len(v.tables)); v.present++ {
		for range 4 {
			if j := v.rng.IntN(from); j != v.present {
				v.put(v.present, scaleEntry{int32(j), v.now, v.now})
			}
		}
	}
}

// scaleHasty is the maximum number of fast measurements of a new peer, as in overlay/peers.
const scaleHasty = 64

// every returns the interval of a peer's beacons, in seconds.
func (v *scaleViews) every(i int) float32 {
	n := len(v.tables[i]) + 1
	return float32(max(v.cfg.Interval, time.Duration(n)*v.cfg.Spacing).Seconds())
}

func (v *scaleViews) ttl(i int) float32 { return max(float32(v.cfg.TTL.Seconds()), 6*v.every(i)) }

// round simulates one interval between two measurements of all peers. Peers measure more often
// in it until their coordinates converge.
func (v *scaleViews) round() {
	step := float32(v.cfg.SlowInterval.Seconds())
	v.now += step
	for i := range v.present {
		v.announce(i)
		v.expire(i)
	}
	turn := int(v.now/step) % 4
	for i := range v.present {
		// a quarter of the peers per round, because partners change slowly
		if (i+turn)%4 == 0 || v.pals[i].Len() < v.cfg.Partners {
			v.befriend(i)
		}
	}
	for _, i := range v.rng.Perm(v.present) {
		if p := v.pals[i].Partner(v.rng); p != "" {
			v.exchange(i, int(v.index[p]))
		}
	}
	// The number of fast measurements in one interval.
	for range int(v.cfg.SlowInterval / v.cfg.FastInterval) {
		quick := false
		for i := range v.present {
			if v.at[i].Error <= v.cfg.SettledError {
				v.hasty[i] = scaleHasty
				continue
			}
			if v.hasty[i] == 0 {
				continue
			}
			v.hasty[i]--
			quick = true
			for range 2 {
				if p := v.pals[i].Partner(v.rng); p != "" {
					v.bytes += float64(v.sizes.Exchange)
					v.messages += 9
					v.measure(i, int(v.index[p]))
				}
			}
		}
		if !quick {
			break
		}
	}
}

// announce makes a beacon when it is due or the peer has moved enough.
func (v *scaleViews) announce(i int) {
	every := v.every(i)
	gap := float32(v.cfg.Gap.Seconds())
	if every > float32(v.cfg.Interval.Seconds()) {
		gap = max(gap, every/4)
	}
	if v.made[i] > 0 && v.now-v.made[i] < gap {
		return
	}
	changed := v.tellers[i].Consider(v.at[i])
	early := changed && v.now < v.due[i]
	if !changed && v.now < v.due[i] || early && gap > float32(v.cfg.Gap.Seconds()) &&
		!v.early(i, 2*every) {
		return
	}
	v.said[i] = v.at[i]
	v.made[i], v.due[i] = v.now, v.now+every*(0.75+0.5*v.rng.Float32())
	switch {
	case len(v.tables[i]) < 16: // few enough to send it to all
		v.bytes += float64(len(v.tables[i]) * v.sizes.Push)
		v.messages += float64(len(v.tables[i]))
		for _, e := range v.tables[i] {
			v.put(int(e.id), scaleEntry{int32(i), v.now, v.now})
		}
	case changed:
		for _, p := range v.pals[i].Near[:min(6, len(v.pals[i].Near))] {
			v.bytes += float64(v.sizes.Push)
			v.pushed += float64(v.sizes.Push)
			v.messages++
			v.put(int(v.index[p]), scaleEntry{int32(i), v.now, v.now})
		}
	}
}

// early implements the peers' budget for early beacons.
func (v *scaleViews) early(i int, refill float32) bool {
	v.spent[i] = max(0, v.spent[i]-(v.now-v.spentAt[i])/refill)
	v.spentAt[i] = v.now
	if v.spent[i] > peers.EarlyBurst-1 {
		return false
	}
	v.spent[i]++
	return true
}

// measure lets two peers measure their round trip.
func (v *scaleViews) measure(i, j int) {
	took := scaleTime(v.world.trip(i, j, v.rng))
	here, there := v.at[i], v.at[j]
	_ = v.peers[i].Observe(v.names[j], there, took) // an error means an outlier, which is ignored
	_ = v.peers[j].Observe(v.names[i], here, took)
	v.at[i], v.at[j] = v.peers[i].Coordinate(), v.peers[j].Coordinate()
}

// expire removes peers from the table of i if their last beacon is too old.
func (v *scaleViews) expire(i int) {
	ttl := v.ttl(i)
	v.tables[i] = slices.DeleteFunc(v.tables[i], func(e scaleEntry) bool {
		return v.now-e.heard > ttl
	})
}

// befriend chooses the partners of i, and updates the radius of its table.
func (v *scaleViews) befriend(i int) {
	known := make([]coords.KnownPeer, len(v.tables[i]))
	for k, e := range v.tables[i] {
		known[k] = coords.KnownPeer{ID: v.names[e.id], Distance: v.at[i].Distance(v.said[e.id])}
	}
	v.pals[i] = coords.ChoosePartners(known, v.cfg.Partners, uint64(i)+uint64(v.now/600))
	v.reach[i] = 0
	if v.full[i] {
		v.reach[i] = zone.Reach(v.at[i], v.peersOf(v.tables[i]),
			min(v.cfg.MaxPeers-v.cfg.MaxPeers/8, len(v.tables[i])), v.zones)
	}
}

func (v *scaleViews) peersOf(table []scaleEntry) []zone.Peer {
	v.known = v.known[:0]
	for _, e := range table {
		v.known = append(v.known, zone.Peer{ID: v.names[e.id], At: v.said[e.id]})
	}
	return v.known
}

// exchange simulates one exchange between two peers.
func (v *scaleViews) exchange(i, j int) {
	most := 24
	if !v.met[i][int32(j)] {
		most, v.met[i][int32(j)] = 64, true
	}
	v.bytes += float64(v.sizes.Exchange)
	v.messages += 9
	v.measure(i, j)
	fromI, fromJ := v.tell(i, j, most), v.tell(j, i, most)
	for _, e := range append(fromJ, scaleEntry{int32(j), v.made[j], v.now}) {
		v.put(i, e)
	}
	for _, e := range append(fromI, scaleEntry{int32(i), v.made[i], v.now}) {
		v.put(j, e)
	}
}

// tell returns the entries that one peer sends to another.
func (v *scaleViews) tell(from, to, most int) []scaleEntry {
	v.offers, v.from = v.offers[:0], v.from[:0]
	theirs := v.tables[to]
	parts, part := v.sizes.Parts(len(theirs)), 0
	if parts > 1 {
		v.turn[to]++
		part = v.turn[to] % parts
	}
	v.bytes += float64(v.sizes.Entry * len(theirs) / parts)
	v.digests += float64(v.sizes.Entry * len(theirs) / parts)
	for k, e := range v.tables[from] {
		for len(theirs) > 0 && theirs[0].id < e.id {
			theirs = theirs[1:]
		}
		older := len(theirs) > 0 && theirs[0].id == e.id
		if int(e.id) == to || int(e.id)%parts != part || older && theirs[0].made >= e.made {
			continue
		}
		v.offers = append(v.offers, zone.Offer{Peer: zone.Peer{ID: v.names[e.id], At: v.said[e.id]},
			Older: older})
		v.from = append(v.from, int32(k))
	}
	var out []scaleEntry
	for _, k := range zone.SelectOffers(zone.Recipient{At: v.at[to], Reach: v.reach[to]}, v.offers,
		most, v.rng) {
		out = append(out, v.tables[from][v.from[k]])
	}
	v.bytes += float64(len(out) * v.sizes.Beacon)
	v.passed += float64(len(out) * v.sizes.Beacon)
	return out
}

// put adds an entry to a table.
func (v *scaleViews) put(i int, e scaleEntry) {
	if int(e.id) == i {
		return
	}
	k, ok := slices.BinarySearchFunc(v.tables[i], e.id, func(a scaleEntry, id int32) int {
		return cmp.Compare(a.id, id)
	})
	if ok {
		if old := &v.tables[i][k]; e.made > old.made || e.heard > old.heard {
			old.made, old.heard = max(old.made, e.made), max(old.heard, e.heard)
		}
		return
	}
	if len(v.tables[i]) >= v.cfg.MaxPeers {
		v.full[i] = true
		kept := zone.Keep(v.at[i], v.peersOf(v.tables[i]), v.cfg.MaxPeers-v.cfg.MaxPeers/8, v.zones,
			uint64(i)*2654435761)
		table := make([]scaleEntry, 0, v.cfg.MaxPeers+1)
		for _, x := range kept {
			table = append(table, v.tables[i][x])
		}
		v.tables[i] = table
		v.put(i, e)
		return
	}
	v.tables[i] = slices.Insert(v.tables[i], k, e)
}
