//go:build integration && linux

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"peerd/lab/emulate"
	"peerd/node/admin"
)

var (
	sitesFile  = flag.String("sites", "", "file with a seed URL a line, for TestSearchOfSites")
	sitesNet   = flag.String("sites-net", "127.0.0.0/8", "network of the hosts of -sites")
	sitesPages = flag.Int("sites-pages", 800, "maximum number of URLs of a host of -sites")
	sitesIndex = flag.Bool("sites-index", true, "index the pages of -sites; false: only measure "+
		"the processor time of a crawl with an archive and no index")
	sitesSearches = flag.Bool("sites-searches", true, "search the pages of -sites; false: only "+
		"measure the processor time of a crawl")
	sitesSeed = flag.Uint64("sites-distances", 0, "seed of emulated distances between the peers "+
		"that crawl -sites; 0: none")
)

// Eight peers that have crawled real sites answer 200 queries as one index of all their pages
// does, also after one of them was killed. The times, and the size of the indexes, are logged.
func TestSearchOfSites(t *testing.T) {
	if *sitesFile == "" {
		t.Skip("needs -sites FILE: seed URLs of real sites, one a line")
	}
	text, err := os.ReadFile(*sitesFile)
	if err != nil {
		t.Fatal(err)
	}
	seeds := strings.Fields(string(text))
	ds := sitePeers(t, 8, seeds)
	meet(t, ds)
	begin := time.Now()
	peerd(t, append([]string{"seed", "--home", ds[0].home}, seeds...)...)
	pages := settled(t, ds)
	cpu := 0.
	for _, d := range ds {
		cpu += processorTime(t, d.cmd.Process.Pid)
	}
	t.Logf("%d pages, %v, %.1f s of processor time, %.2f ms a page, load %s", pages,
		time.Since(begin).Round(time.Second), cpu, 1e3*cpu/float64(pages), load())
	if !*sitesIndex || !*sitesSearches {
		return
	}
	central := centralHome(t, ds)
	texts := textsOf(t, ds)
	size, sum := 0, 0
	for _, d := range ds {
		size += sizeOf(t, filepath.Join(d.home, "index"))
	}
	for _, p := range texts {
		sum += len(p.Text)
	}
	t.Logf("%d texts with %d bytes; indexes: %.1f %% of that, one index of all: %.1f %%",
		len(texts), sum, 100*float64(size)/float64(sum),
		100*float64(sizeOf(t, filepath.Join(central, "index")))/float64(sum))

	if *sitesSeed > 0 {
		moveApart(t, ds)
	}
	queries := siteQueries(texts)
	var want []answers
	for _, q := range queries {
		want = append(want, answers{q, searchFor(t, central, q),
			searchFor(t, central, q, "--limit", strconv.Itoa(allHits))})
	}
	allAnswer := func(ds []*daemon, copied int) {
		t.Helper()
		eventually(t, 5*time.Minute, "all peers search all pages", func() (bool, any) {
			for _, d := range ds { // a peer has to know all others, and that one has failed
				r := searchFor(t, d.home, queries[0])
				if r.Answered != len(ds) || r.Copied != copied || r.Partial {
					return false, r
				}
			}
			return true, nil
		})
	}
	allAnswer(ds, 0)
	compareSearches(t, ds, want, 0)
	most := slices.MaxFunc(ds, func(a, b *daemon) int {
		return sizeOf(t, a.home) - sizeOf(t, b.home)
	})
	most.kill()
	begin = time.Now()
	left := slices.DeleteFunc(ds, func(d *daemon) bool { return d == most })
	allAnswer(left, 1)
	t.Logf("the copy of a killed peer was searched after %v", time.Since(begin).Round(time.Second))
	compareSearches(t, left, want, 1)
}

// sitePeers returns peers that crawl the hosts of seeds.
func sitePeers(t *testing.T, n int, seeds []string) (ds []*daemon) {
	t.Helper()
	var hosts []string
	for _, s := range seeds {
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, fmt.Sprintf("%q", u.Hostname()))
	}
	profile := filepath.Join(t.TempDir(), "sites.toml")
	rules := fmt.Sprintf("name = 'sites'\n[scope]\nmode = 'hosts'\nhosts = [%s]\n[politeness]\n"+
		"min_delay = '1ms'\ndelay_factor = 0.0\n[limits]\nmax_pages_per_host = %d\n",
		strings.Join(hosts, ", "), *sitesPages)
	if err := os.WriteFile(profile, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, at := range distant(n).Layout().PeerAddrs {
		flags := []string{"--profile", profile, "--allow-net", *sitesNet, "--min-delay", "1ms",
			"--strategy", "hash", "--check-reports", "0", "--listen", freeAddrAt(t, at)}
		d := newDaemon(t, flags...)
		appendSettings(t, d.home, fmt.Sprintf("[archive]\nenabled = true\n[search]\nenabled = %v\n",
			*sitesIndex))
		ds = append(ds, d)
	}
	return ds
}

// distant describes an emulated network of n peers.
func distant(n int) emulate.Spec {
	return emulate.Spec{Peers: n, Sites: 1, Pages: 1, Seed: max(1, *sitesSeed), Port: 80,
		TimeScale: 1}
}

// moveApart starts the peers again with emulated distances between them. The names of sites are
// not known then.
func moveApart(t *testing.T, ds []*daemon) {
	t.Helper()
	for i, d := range ds {
		spec := distant(len(ds))
		spec.Peer = i
		text, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		d.kill()
		d.flags = append(d.flags, "--emulate", string(text))
		d.run()
	}
}

// settled waits until no URL waits and the peers compute nothing more, and returns the number of
// pages.
func settled(t *testing.T, ds []*daemon) (pages int64) {
	t.Helper()
	quiet, last := 0, 0.
	for end := time.Now().Add(time.Hour); quiet < 5; {
		<-time.After(2 * time.Second)
		if time.Now().After(end) {
			t.Fatal("the crawl has not ended after an hour")
		}
		var waiting int64
		cpu := 0.
		pages = 0
		for _, d := range ds {
			s, err := d.ask()
			if err != nil {
				t.Fatal(err)
			}
			waiting += s.Frontier.Pending + s.Frontier.InFlight + s.Frontier.Unclaimed +
				s.OutboxURLs
			pages += s.PagesFetched
			cpu += processorTime(t, d.cmd.Process.Pid)
		}
		if quiet++; waiting > 0 || pages == 0 || cpu-last > .5 { // in 2 s
			quiet = 0
		}
		last = cpu
	}
	return pages
}

// processorTime returns that of a process so far, user and system, in seconds.
func processorTime(t *testing.T, pid int) float64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text)[strings.LastIndexByte(string(text), ')')+1:])
	var user, system float64
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		t.Fatal(err)
	}
	return (user + system) / 100 // USER_HZ
}

// sizeOf returns the size of all files below a directory.
func sizeOf(t *testing.T, dir string) (n int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		i, err := e.Info()
		if err == nil {
			n += int(i.Size())
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a running peer merges files
		t.Fatal(err)
	}
	return n
}

// pageText is a line of `peerd export text`.
type pageText struct{ URL, Title, Text string }

func textsOf(t *testing.T, ds []*daemon) (all []pageText) {
	t.Helper()
	for _, d := range ds {
		in := bufio.NewScanner(strings.NewReader(peerd(t, "export", "text", "--home", d.home)))
		in.Buffer(nil, 64<<20)
		for in.Scan() {
			var p pageText
			if err := json.Unmarshal(in.Bytes(), &p); err != nil {
				t.Fatal(err)
			}
			all = append(all, p)
		}
		if err := in.Err(); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// siteQueries returns titles, words, pairs of words and phrases of two words, 50 of each, from
// random pages.
func siteQueries(texts []pageText) (queries []string) {
	rng := rand.New(rand.NewPCG(1, 0))
	slices.SortFunc(texts, func(a, b pageText) int { return strings.Compare(a.URL, b.URL) })
	words := func(text string) []string {
		return strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) })
	}
	for len(queries) < 200 {
		p := texts[rng.IntN(len(texts))]
		title, text := words(p.Title), words(p.Text)
		if len(title) == 0 || len(text) < 20 {
			continue
		}
		i, j := rng.IntN(len(text)-1), rng.IntN(len(text)-1)
		if len(text[i]) < 3 || len(text[i+1]) < 3 || len(text[j]) < 3 {
			continue
		}
		some := []string{strings.Join(title[:min(6, len(title))], " "), text[i],
			text[i] + " " + text[j], `"` + text[i] + " " + text[i+1] + `"`}
		if !slices.ContainsFunc(some, tooLong) { // as a sentence without spaces
			queries = append(queries, some...)
		}
	}
	return queries
}

// tooLong reports whether a query has a word that no query may have.
func tooLong(query string) bool {
	return slices.ContainsFunc(strings.Fields(query), func(w string) bool { return len(w) > 64 })
}

// allHits is the number of hits that a search shows at most.
const allHits = 100

// answers are the first ten hits of a query, and the first allHits.
type answers struct {
	query    string
	ten, all admin.SearchResult
}

func (a *answers) isPhrase() bool { return strings.HasPrefix(a.query, `"`) }

// faults returns what is wrong with the answers of peers, by those of one index. Totals of phrases
// are upper bounds. One index looks up a phrase of frequent words in fewer pages than several
// peers do, so that they may find more, and in the hits that others displace there may be others.
func (a *answers) faults(want answers) (faults []string) {
	if a.isPhrase() {
		got := urlsOf(a.all)
		missing := slices.DeleteFunc(urlsOf(want.all), func(u string) bool {
			return slices.Contains(got, u)
		})
		if len(missing) > 0 && len(got) < allHits && !a.all.Partial {
			faults = append(faults, fmt.Sprintf("lacks %q", missing))
		}
		return faults
	}
	if a.ten.Partial || a.all.Partial {
		faults = append(faults, "is partial")
	}
	if a.ten.Total != want.ten.Total {
		faults = append(faults, fmt.Sprintf("%d pages, want %d", a.ten.Total, want.ten.Total))
	}
	if !slices.Equal(urlsOf(a.all), urlsOf(want.all)) {
		faults = append(faults, fmt.Sprintf("found %q, want %q", urlsOf(a.all), urlsOf(want.all)))
	}
	return faults
}

// compareSearches asks the peers in turn, one query at a time, and compares their answers with
// those of one index. The archives of copied peers are searched by others.
func compareSearches(t *testing.T, ds []*daemon, want []answers, copied int) {
	t.Helper()
	var clients []*admin.Client
	for _, d := range ds {
		c, err := admin.Dial(filepath.Join(d.home, "api.json"))
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, c)
	}
	search := func(i int, q string, limit int) (admin.SearchResult, time.Duration) {
		<-time.After(50 * time.Millisecond)
		begin := time.Now()
		r, err := clients[i%len(clients)].Search(t.Context(), q, 0, limit)
		if err != nil {
			t.Fatal(err)
		}
		if r.Answered+r.Copied != len(ds)+copied {
			t.Errorf("%q: %d peers answered, want %d", q, r.Answered+r.Copied, len(ds)+copied)
		}
		return r, time.Since(begin)
	}
	var same, sameAll, partial, phraseTotals int
	var gain float64
	var times, phrases []time.Duration
	for i, w := range want {
		r, took := search(i, w.query, 10)
		all, _ := search(i+1, w.query, allHits)
		got := answers{w.query, r, all}
		for _, f := range got.faults(w) {
			t.Errorf("%q: %s", w.query, f)
		}
		if !w.isPhrase() {
			times = append(times, took)
		} else if phrases = append(phrases, took); r.Total == w.ten.Total {
			phraseTotals++
		}
		if r.Partial || all.Partial { // a phrase of frequent words
			partial++
		}
		if slices.Equal(urlsOf(r), urlsOf(w.ten)) {
			same++
		} else {
			t.Logf("%q: found %q, one index %q (partial: %v, %v)", w.query, urlsOf(r),
				urlsOf(w.ten), r.Partial, w.ten.Partial)
		}
		if slices.Equal(urlsOf(all), urlsOf(w.all)) {
			sameAll++
		}
		gain += ndcg(urlsOf(r), urlsOf(w.ten)) / float64(len(want))
	}
	t.Logf("%d peers, %d queries: %d have the first ten hits of one index in its order, "+
		"nDCG@10 %.3f, %d the first hundred; %d of %d totals with phrases are the same, all "+
		"without; %d partial, load %s", len(ds), len(want), same, gain, sameAll, phraseTotals,
		len(phrases), partial, load())
	t.Logf("median, 95th percentile, maximum: %s; without phrases %s; phrases %s",
		quantiles(append(slices.Clone(times), phrases...)), quantiles(times), quantiles(phrases))
	if 10*same < 9*len(want) || gain < .98 {
		t.Error("the hits differ from those of one index")
	}
}

// load returns the load of the machine: the mean of a minute.
func load() string {
	text, _ := os.ReadFile("/proc/loadavg") // "" if that fails
	mean, _, _ := strings.Cut(string(text), " ")
	return mean
}

func quantiles(d []time.Duration) string {
	slices.Sort(d)
	return fmt.Sprintf("%.3f, %.3f, %.3f s", d[len(d)/2].Seconds(), d[len(d)*95/100].Seconds(),
		d[len(d)-1].Seconds())
}
