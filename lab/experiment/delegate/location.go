package delegate

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"peerd/lab/emulate/wan"
	"peerd/lab/experiment"
	"peerd/lab/experiment/crawlsim"
	"peerd/lab/experiment/data"
)

// papapetrou80 is figure 8.1 with the figures of sections 8.2 to 8.4: what it gains to give each
// page to the crawler that is nearest, in truth or by a probe.
func papapetrou80() experiment.Experiment {
	return experiment.Experiment{Name: "papapetrou-8.0",
		Title:  "Four crawlers: pages at random, at the nearest, and at the nearest by a probe",
		Source: "Papapetrou 2003, figure 8.1, sections 8.2 to 8.4", Run: runPapapetrou80}
}

// locationRow is the result in one world. Sums are the times of all pages, as ratios to those of
// random crawlers; finishing times are those of the crawler that takes longest, likewise.
type locationRow struct {
	World          string  `json:"world"`
	Pages          int     `json:"pages"`
	RandomMS       float64 `json:"random_ms"` // of a page
	Worst          float64 `json:"worst"`
	FinishRandom   float64 `json:"finish_random"` // of the sum of random crawlers
	Nearest        float64 `json:"nearest"`
	FinishNearest  float64 `json:"finish_nearest"` // likewise
	ByPing         float64 `json:"by_ping"`
	ByHead         float64 `json:"by_head"`
	CorrectByPing  float64 `json:"correct_by_ping"`
	CorrectByHead  float64 `json:"correct_by_head"`
	LargestNearest float64 `json:"largest_share"`  // of the pages, at one crawler
	LeastNearest   float64 `json:"smallest_share"` // likewise
}

// fetches are the times of the pages by crawler, in ms, and those of its probes: nil if there
// are none of a kind.
type fetches struct{ page, ping, head [][]float64 }

// farPlaces are those of the crawlers, far away from each other.
var farPlaces = []string{"New York", "Frankfurt", "Singapore", "Sao Paulo"}

func runPapapetrou80(ctx context.Context, p experiment.Params, out experiment.Out) error {
	sites := p.Or(p.Sites, 1000, 100)
	var rows []locationRow
	if p.Times != "" {
		t, err := data.LoadTimes(p.Times)
		if err != nil {
			return err
		}
		f, err := measured(t, len(farPlaces), sites, p.Seed)
		if err != nil {
			return err
		}
		rows = append(rows, compareNearest("measured", f, p.Seed))
	}
	for _, n := range []struct {
		name   string
		nature crawlsim.Nature
	}{{"plain", crawlsim.Plain()}, {"planetlab", crawlsim.PlanetLab()},
		{"servers", crawlsim.Servers()}} {
		if err := ctx.Err(); err != nil {
			return err
		}
		rows = append(rows, compareNearest(n.name, simulated(n.nature, sites, p.Seed), p.Seed))
	}
	for i, r := range rows {
		out.Row("location", r)
		out.Progress(float64(i+1)/float64(len(rows)), r.World)
		out.Claim("8.2, "+r.World, "an order of magnitude less time than random crawlers",
			fmt.Sprintf("1/%.1f", 1/r.Nearest), r.Nearest <= 0.1)
		if !math.IsNaN(r.CorrectByPing) {
			out.Claim("8.3, ping, "+r.World, "908 of 1000 pages at the fastest crawler",
				fmt.Sprintf("%.0f", 1000*r.CorrectByPing), r.CorrectByPing >= 0.9)
		}
		out.Claim("8.3, HTTP/HEAD, "+r.World, "925 of 1000",
			fmt.Sprintf("%.0f", 1000*r.CorrectByHead), r.CorrectByHead >= 0.9)
	}
	out.Note(
		"One page of each of %d servers, one at a time at a crawler, so that bandwidth is not "+
			"shared. The worlds are those of crawlsim with crawlers in %v; a probe and the page "+
			"have times of their own. measured: a page is a response time of --times, and HEAD "+
			"the response time a slot earlier. Probes never fail; the thesis counts 76 pages with "+
			"a failed ping and 12 with a failed HEAD among its 1000.", sites, farPlaces)
	return nil
}

// simulated draws the pages and probes of a world.
func simulated(n crawlsim.Nature, sites int, seed uint64) (f fetches) {
	cities := wan.Cities()
	var peers, servers []int
	for _, name := range farPlaces {
		peers = append(peers, slices.IndexFunc(cities, func(c wan.Place) bool {
			return c.Name == name
		}))
	}
	rng := rand.New(rand.NewPCG(seed, 0x810))
	for range sites {
		servers = append(servers, rng.IntN(len(cities)))
	}
	w := crawlsim.NewWorldAt(wan.NewWorld(cities, seed), cities, peers, servers, n, seed)
	for i, p := range w.Peers {
		page, ping, head := make([]float64, sites), make([]float64, sites), make([]float64, sites)
		for j, s := range w.Servers {
			link := w.Path(i, j)
			trip := func() float64 {
				return 1000 * (link.RTT.Seconds() + rng.Float64()*link.Jitter.Seconds())
			}
			// As in crawlsim: the server's delay and the peer's lag vary from request to request.
			first := func() float64 {
				return trip() + 1000*(s.Delay.Seconds()*math.Exp(0.3*rng.NormFloat64())+
					p.Lag.Seconds()*(0.7+0.6*rng.Float64()))
			}
			ping[j] = trip()
			head[j] = trip() + first()
			page[j] = trip() + first() + s.Turns*trip() + 1e6*s.KB*(1/s.Bps+1/p.Bps)
		}
		f.page, f.ping, f.head = append(f.page, page), append(f.ping, ping), append(f.head, head)
	}
	return f
}

// timeoutMS is the least response time of --times that is a failure.
const timeoutMS = 19_900

// measured takes as crawlers random users of t that measured most servers, and the servers that
// answered all of them.
func measured(t *data.Times, crawlers, sites int, seed uint64) (f fetches, err error) {
	if len(t.Slots) < 2 || len(t.Slots[0]) < crawlers {
		return f, fmt.Errorf("%w: %d slots of %d users, want at least 2 of %d", data.ErrTimes,
			len(t.Slots), len(t.Slots[0]), crawlers)
	}
	rng := rand.New(rand.NewPCG(seed, 0x811))
	none := func(ms float32) bool { return ms < 0 || ms >= timeoutMS }
	var users []int
	for _, u := range rng.Perm(len(t.Slots[0])) {
		missing := 0
		for _, ms := range t.Slots[0][u] {
			if none(ms) {
				missing++
			}
		}
		if len(users) < crawlers && 2*missing < len(t.Slots[0][u]) {
			users = append(users, u)
		}
	}
	if len(users) < crawlers {
		return f, fmt.Errorf("%w: %d users measured most servers, want %d", data.ErrTimes,
			len(users), crawlers)
	}
	f.page, f.head = make([][]float64, crawlers), make([][]float64, crawlers)
	slots := rng.Perm(len(t.Slots) - 1)
	for len(f.page[0]) < sites && len(slots) > 0 {
		before, now := t.Slots[slots[0]], t.Slots[slots[0]+1]
		slots = slots[1:]
		for server := range now[users[0]] {
			complete := !slices.ContainsFunc(users, func(u int) bool {
				return none(before[u][server]) || none(now[u][server])
			})
			for i, u := range users {
				if complete && len(f.page[i]) < sites {
					f.page[i] = append(f.page[i], float64(now[u][server]))
					f.head[i] = append(f.head[i], float64(before[u][server]))
				}
			}
		}
	}
	if len(f.page[0]) == 0 {
		return f, fmt.Errorf("%w: no server was measured by all users", data.ErrTimes)
	}
	return f, nil
}

// compareNearest compares ways to choose a crawler for each page.
func compareNearest(world string, f fetches, seed uint64) locationRow {
	rng := rand.New(rand.NewPCG(seed, 0x812))
	pages := len(f.page[0])
	random := make([]int, pages)
	for j := range random {
		random[j] = rng.IntN(len(f.page))
	}
	sum, last, _ := total(f.page, random)
	ratio := func(chosen []int) float64 { all, _, _ := total(f.page, chosen); return all / sum }
	nearest := extreme(f.page, 1)
	all, lastNearest, loads := total(f.page, nearest)
	slices.Sort(loads)
	r := locationRow{World: world, Pages: pages, RandomMS: sum / float64(pages),
		Worst: ratio(extreme(f.page, -1)), FinishRandom: last / sum, Nearest: all / sum,
		FinishNearest: lastNearest / sum, ByPing: math.NaN(), CorrectByPing: math.NaN(),
		LargestNearest: loads[len(loads)-1] / float64(pages),
		LeastNearest:   loads[0] / float64(pages)}
	if f.ping != nil {
		by := extreme(f.ping, 1)
		r.ByPing, r.CorrectByPing = ratio(by), agree(by, nearest)
	}
	by := extreme(f.head, 1)
	r.ByHead, r.CorrectByHead = ratio(by), agree(by, nearest)
	return r
}

// extreme returns the crawler with the least time of each page, or the greatest if sign is -1.
func extreme(times [][]float64, sign float64) []int {
	out := make([]int, len(times[0]))
	for j := range out {
		for i := range times {
			if sign*times[i][j] < sign*times[out[j]][j] {
				out[j] = i
			}
		}
	}
	return out
}

// total returns the time of all pages at the chosen crawlers, that of the crawler which takes
// longest, and the number of pages of each.
func total(times [][]float64, chosen []int) (sum, longest float64, pages []float64) {
	each := make([]float64, len(times))
	pages = make([]float64, len(times))
	for j, i := range chosen {
		each[i] += times[i][j]
		pages[i]++
		sum += times[i][j]
	}
	return sum, slices.Max(each), pages
}

// agree returns the share of equal choices.
func agree(a, b []int) float64 {
	n := 0
	for j := range a {
		if a[j] == b[j] {
			n++
		}
	}
	return float64(n) / float64(len(a))
}
