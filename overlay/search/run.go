package search

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"peerd/store/index"
)

// maxRounds is how many times the pages that may have a phrase are asked for it, until enough of
// them have it.
const maxRounds = 3

// run is a search in progress.
type run struct {
	all     []*member
	timeout time.Duration // of a step
	phrases bool          // the query has phrases
	known   *factors
	sum     index.Counts
	limit   int // of the hits of each member
	// snippets is the number of snippets that each member makes when it ranks.
	snippets int
	factors  map[string]float64 // of hosts
	cut      bool               // there are more hits than rank returned last
}

// step calls fn concurrently for the members that take part.
func (r *run) step(ctx context.Context, fn func(ctx context.Context, m *member)) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	each(r.all, func(m *member) { fn(ctx, m) })
}

// search runs the steps of a search with the members that take part, and ends their parts.
func (r *run) search(ctx context.Context, offset, limit int) (Result, error) {
	defer func() {
		for _, m := range r.all {
			if m.part != nil {
				m.part.close()
			}
		}
	}()
	r.step(ctx, func(ctx context.Context, m *member) { m.counts, m.err = m.part.count(ctx) })
	for _, m := range r.all {
		if m.err == nil {
			r.sum.Add(m.counts.Counts)
		}
	}
	r.all = append(r.all, assignCopies(r.all, &r.sum)...)
	r.sum.Anchors = index.Best(r.sum.Anchors)
	r.limit = offset + limit + slack
	if r.phrases {
		r.limit = min(2*r.limit, maxHits)
	}
	if offset == 0 {
		r.snippets = r.spare(limit)
	}
	found := r.rank(ctx, false)
	shown, enough := r.show(ctx, found, offset, limit, r.phrases)
	if !enough && r.more() {
		shown, _ = r.show(ctx, r.rank(ctx, true), offset, limit, false)
	}
	return summarize(r.all, shown), ctx.Err()
}

// spareSnippets is the number of snippets that all peers together may make before it is known
// whether they are shown.
const spareSnippets = 160

// spare returns how many snippets each peer makes when it ranks, to save a round trip.
func (r *run) spare(limit int) int {
	if r.phrases {
		limit += limit / 2
	}
	likely := 1 // peers that have all words
	for _, m := range r.all {
		if m.err == nil && !slices.Contains(m.counts.With, 0) {
			likely++
		}
	}
	return min(limit, spareSnippets/likely, maxHits)
}

// likely returns hosts of pages that are likely to be found, of which the factor is not known.
func (r *run) likely() []string {
	hosts := map[string]bool{}
	for _, m := range r.all {
		if m.err != nil {
			continue
		}
		for _, h := range m.counts.Hosts {
			if len(hosts) < maxHits {
				hosts[h] = true
			}
		}
	}
	return r.missing(hosts)
}

// rank returns the best pages. Unless verify is set, they may lack phrases.
func (r *run) rank(ctx context.Context, verify bool) []found {
	hosts := r.likely()
	r.step(ctx, func(ctx context.Context, m *member) {
		q := ranking{r.sum, r.limit, m.owners, verify, r.snippets, hosts}
		if m.info.ID == "" && !r.phrases {
			q.Snippets = 0 // this peer makes those that are shown
		}
		m.result, m.err = m.part.rank(ctx, q)
	})
	r.learn(hosts)
	results := make([]index.Result, len(r.all))
	for i, m := range r.all {
		if m.err == nil {
			results[i] = m.result.Result
		}
	}
	all := sorted(results)
	if r.phrases {
		all = r.certain(all)
	}
	r.cut = len(all) > r.limit
	all = all[:min(len(all), r.limit)]
	r.weigh(ctx, all)
	return all
}

// certain returns the hits that are not known to lack a phrase, up to the first that a page which
// a member did not return may precede.
func (r *run) certain(all []found) []found {
	bound := 0.
	for _, m := range r.all {
		if m.err == nil && len(m.result.Hits) >= r.limit {
			bound = max(bound, m.result.Hits[r.limit-1].Score)
		}
	}
	return slices.DeleteFunc(all, func(f found) bool {
		s := r.all[f.from].result.Snippets
		return f.Score < bound || f.place < len(s) && s[f.place].Lacks
	})
}

// more reports whether there are more pages that may match than rank returned last.
func (r *run) more() bool {
	return r.cut || slices.ContainsFunc(r.all, func(m *member) bool {
		return m.err == nil && len(m.result.Hits) >= r.limit
	})
}

// weigh multiplies the scores of pages by the factors of their hosts.
func (r *run) weigh(ctx context.Context, all []found) {
	hosts := map[string]bool{}
	for _, f := range all {
		hosts[f.URL.Host()] = true
	}
	if len(hosts) < 2 {
		return // the order is the same
	}
	if missing := r.missing(hosts); len(missing) > 0 {
		r.step(ctx, func(ctx context.Context, m *member) {
			m.result.Linking, m.err = m.part.linking(ctx, missing)
		})
		r.learn(missing)
	}
	for i := range all {
		all[i].Score *= r.factors[all[i].URL.Host()]
	}
	sortHits(all)
}

// missing returns those of some hosts of which the factor is not known, sorted.
func (r *run) missing(hosts map[string]bool) (missing []string) {
	if r.factors == nil {
		r.factors = r.known.get(r.sum.Pages, time.Now())
	}
	for h := range hosts {
		if _, known := r.factors[h]; !known {
			missing = append(missing, h)
		}
	}
	slices.Sort(missing)
	return missing
}

// learn takes over what the members have said last about links, which is to some hosts. It is
// remembered unless a member has failed.
func (r *run) learn(hosts []string) {
	failed := false
	sources := make([][]index.Linker, len(hosts))
	for _, m := range r.all {
		links := m.result.Linking
		failed = failed || m.err != nil && !errors.Is(m.err, errNoIndex) && m.part != nil
		if m.err == nil && len(links) == len(hosts) {
			for i, l := range links {
				sources[i] = append(sources[i], l...)
			}
		}
	}
	for i, h := range hosts {
		r.factors[h] = index.Factor(index.LeastLinkers(sources[i], index.MaxLinking))
	}
	if !failed {
		r.known.put(r.factors, hosts)
	}
}

// show returns the hits that are shown, with snippets. With verify, it leaves out those that lack a
// phrase, and reports whether there are enough others.
func (r *run) show(
	ctx context.Context, all []found, offset, limit int, verify bool,
) (hits []Hit, enough bool) {
	snippets := map[int]map[int]index.Snippet{} // by member and place
	snippet := func(f found) (s index.Snippet, known bool) {
		s, known = snippets[f.from][f.place]
		return s, known
	}
	for i, m := range r.all {
		snippets[i] = map[int]index.Snippet{}
		for place, s := range m.result.Snippets {
			snippets[i][place] = s
		}
	}
	var kept []found
	for round := 0; ; round++ {
		if verify {
			all = slices.DeleteFunc(all, func(f found) bool { s, _ := snippet(f); return s.Lacks })
		}
		kept = merge(all)
		from := min(offset, len(kept))
		if verify {
			from = 0
		}
		isKnown := func(f found) bool { _, known := snippet(f); return known }
		wanted := slices.DeleteFunc(slices.Clone(kept[from:min(offset+limit, len(kept))]), isKnown)
		if n := len(wanted); verify && n > 0 { // some more, because some may lack a phrase
			wanted = slices.DeleteFunc(slices.Clone(kept), isKnown)
			if round == 0 {
				wanted = wanted[:min(2*n, len(wanted))]
			}
			wanted = wanted[:min(len(wanted), MaxResults)]
		}
		if len(wanted) == 0 || round == maxRounds || round > 0 && !verify {
			break
		}
		r.addSnippets(ctx, snippets, wanted)
	}
	if verify {
		kept = slices.DeleteFunc(kept, func(f found) bool { _, known := snippet(f); return !known })
	}
	for _, f := range kept[min(offset, len(kept)):min(offset+limit, len(kept))] {
		s, _ := snippet(f)
		hits = append(hits, Hit{Hit: f.Hit, Snippet: s, Peer: r.all[f.from].id})
	}
	return hits, !verify || len(kept) >= offset+limit
}

// addSnippets adds the snippets of hits. If a member fails, its hits have none.
func (r *run) addSnippets(
	ctx context.Context, snippets map[int]map[int]index.Snippet, wanted []found,
) {
	places := map[*member][]int{}
	for _, f := range wanted {
		m := r.all[f.from]
		places[m] = append(places[m], f.place)
	}
	got := make(map[*member][]index.Snippet, len(places))
	var mu sync.Mutex
	r.step(ctx, func(ctx context.Context, m *member) {
		if len(places[m]) == 0 {
			return
		}
		some, err := m.part.snippets(ctx, places[m])
		mu.Lock()
		defer mu.Unlock()
		got[m], m.err = some, err
	})
	for i, m := range r.all {
		for n, place := range places[m] {
			s := index.Snippet{Lacks: r.phrases}
			if n < len(got[m]) {
				s = got[m][n]
			}
			snippets[i][place] = s
		}
	}
}

const (
	factorAge  = 10 * time.Minute
	maxFactors = 1 << 14
)

// factors are those of the hosts that this peer has asked for last. They are forgotten after
// factorAge, and when the number of pages has changed by more than a 64th.
type factors struct {
	mu    sync.Mutex
	of    map[string]float64
	pages uint64
	since time.Time
}

// get returns the factors that are known.
func (k *factors) get(pages uint64, now time.Time) map[string]float64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	changed := max(pages, k.pages) - min(pages, k.pages)
	if k.of == nil || changed > pages/64 || now.Sub(k.since) > factorAge ||
		len(k.of) > maxFactors {
		k.of, k.pages, k.since = map[string]float64{}, pages, now
	}
	return maps.Clone(k.of)
}

// put remembers the factors of some hosts.
func (k *factors) put(all map[string]float64, some []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, h := range some {
		k.of[h] = all[h]
	}
}
