package runner

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"peerd/lab/emulate/web"
	"peerd/lab/experiment"
	"peerd/node/events"
	"peerd/store"
)

// lostRow is a subnet with pages that were not fetched. Times are seconds since the seeds.
type lostRow struct {
	Subnet  string `json:"subnet"`
	Missing int    `json:"pages_missing"`
	// Linked is how many of them a fetched page links to, so that some peer has known them. Links
	// at random, which pages of the sites have as well, are not considered.
	Linked  int     `json:"missing_linked"`
	Fetched int     `json:"pages_fetched"`
	Last    float64 `json:"last_page_s"`
	By      string  `json:"last_page_by"`
	Owners  string  `json:"owners"` // with the time since when, and the number of copies at last
	Why     string  `json:"why"`
}

// tenure is the time for which a peer owned a subnet, as far as event logs tell.
type tenure struct {
	peer   string
	epoch  uint64
	since  int64 // microseconds
	copies int   // complete ones, at last
}

// traces is what the event logs of the peers tell of the subnets.
type traces struct {
	owners    map[string][]tenure
	last      map[string]int64 // event of each peer
	recreated map[string]bool  // subnets begun again without a copy
	failed    map[string]string
}

func newTraces() *traces {
	return &traces{map[string][]tenure{}, map[string]int64{}, map[string]bool{},
		map[string]string{}}
}

func (ts *traces) add(e events.Event) {
	h := e.Head()
	ts.last[h.Self] = max(ts.last[h.Self], h.T)
	switch e := e.(type) {
	case *events.Lease:
		if e.Phase != "gone" && e.Phase != store.PhaseStaged.String() {
			ts.own(e.Subnet, tenure{h.Self, e.Epoch, h.T, e.Replicas})
		}
	case *events.Message:
		switch e.Text {
		case "failed to take over subnet", "failed to take over orphaned subnet":
			ts.failed[e.Subnet] = e.Details["err"]
		case "recreated subnet of dead owner":
			ts.recreated[e.Subnet] = true
		}
	}
}

// own takes in that a peer owns a subnet.
func (ts *traces) own(subnet string, t tenure) {
	all := ts.owners[subnet]
	if n := len(all); n > 0 && all[n-1].peer == t.peer && all[n-1].epoch == t.epoch {
		all[n-1].copies = t.copies
		return
	}
	ts.owners[subnet] = append(all, t)
}

// lost adds a table of the pages that were not fetched, with what is known of their subnets.
func (r *runner) lost(out experiment.Out, ts *traces) error {
	w, err := web.New(r.spec.Web(r.layout))
	if err != nil {
		return err
	}
	hits, err := readHits(filepath.Join(r.dir, "logs", "sites.hits.jsonl.gz"))
	if errors.Is(err, fs.ErrNotExist) {
		out.Note("The requests that the sites logged are missing, hence no table of lost pages.")
		return nil
	}
	if err != nil {
		return fmt.Errorf("log of the sites: %w", err)
	}
	rows := r.lostRows(w, hits, ts)
	missing := 0
	for _, row := range rows {
		missing += row.Missing
		out.Row("lost", row)
	}
	if missing > 0 {
		out.Note("%d pages of %d subnets were not fetched; see the table of lost pages.", missing,
			len(rows))
	}
	return nil
}

// lostRows returns a row for each subnet with pages that were not fetched.
func (r *runner) lostRows(w *web.Web, hits []web.Hit, ts *traces) (rows []lostRow) {
	subnetOf := ts.subnets(w)
	fetched := map[string]bool{}
	last := map[string]web.Hit{}
	by := map[string]*lostRow{}
	row := func(host string) *lostRow {
		p := subnetOf[host]
		if by[p] == nil {
			by[p] = &lostRow{Subnet: p}
		}
		return by[p]
	}
	urls := map[string]string{} // of sites, by host
	for _, s := range w.Sites() {
		urls[s.Host] = strings.TrimSuffix(s.URL, "/")
	}
	for _, h := range hits {
		u := urls[h.Host] + h.Path
		if !h.Page {
			continue
		}
		if !fetched[u] {
			fetched[u] = true
			row(h.Host).Fetched++
		}
		if p := subnetOf[h.Host]; h.End.After(last[p].End) {
			last[p] = h
		}
	}
	linked := map[string]bool{}
	for from, to := range w.Links() {
		linked[to] = linked[to] || fetched[from]
	}
	for page := range w.Pages() {
		if fetched[page] {
			continue
		}
		u, err := url.Parse(page)
		if err != nil {
			continue // it was made here
		}
		s := row(u.Hostname())
		s.Missing++
		if linked[page] {
			s.Linked++
		}
	}
	for p, s := range by {
		if s.Missing == 0 {
			continue
		}
		if h, ok := last[p]; ok {
			s.Last, s.By = r.since(h.End), r.peerAt(h.Peer)
		}
		s.Owners, s.Why = r.fate(p, *s, ts)
		rows = append(rows, *s)
	}
	slices.SortFunc(rows, func(a, b lostRow) int { return strings.Compare(a.Subnet, b.Subnet) })
	return rows
}

// subnets returns the subnets of the hosts: of each the one that had an owner, or else that of the
// first address.
func (ts *traces) subnets(w *web.Web) map[string]string {
	of := map[string]string{}
	for _, s := range w.Sites() {
		of[s.Host] = store.SubnetOf(s.Addrs[0]).String()
		for _, a := range s.Addrs {
			if p := store.SubnetOf(a).String(); len(ts.owners[p]) > 0 {
				of[s.Host] = p
				break
			}
		}
	}
	return of
}

// since returns the time since the seeds, in seconds.
func (r *runner) since(t time.Time) float64 {
	return t.Sub(r.p.Seeded).Round(time.Second / 10).Seconds()
}

func (r *runner) peerAt(a netip.Addr) string {
	if i := slices.Index(r.layout.PeerAddrs, a); i >= 0 {
		return name(i)
	}
	return a.String()
}

func (r *runner) peerNamed(id string) string {
	for i, p := range r.p.Peers {
		if p.ID == id {
			return name(i)
		}
	}
	return id
}

// stateLate is by how much the last event of a peer that runs may be older than the end of the
// crawl: there is one every ten seconds.
const stateLate = 30 * time.Second

// fate returns who owned a subnet, and why pages of it were not fetched.
func (r *runner) fate(subnet string, s lostRow, ts *traces) (owners, why string) {
	slices.SortStableFunc(ts.owners[subnet], func(a, b tenure) int {
		return int(a.since - b.since)
	})
	var all []string
	for _, t := range ts.owners[subnet] {
		all = append(all, fmt.Sprintf("%s from %.0f s (copies: %d)", r.peerNamed(t.peer),
			r.since(time.UnixMicro(t.since)), t.copies))
	}
	owners = strings.Join(all, "; ")
	if len(all) == 0 {
		if s.Linked == 0 {
			return "", "no peer has found a page of it"
		}
		return "", "by the logs that are there no peer has owned it"
	}
	t := ts.owners[subnet][len(all)-1]
	ended := time.UnixMicro(ts.last[t.peer])
	var b strings.Builder
	switch {
	case r.p.Ended.Sub(ended) > stateLate:
		fmt.Fprintf(&b, "its owner ended at %.0f s (copies: %d), and no peer continued it in "+
			"the %.0f s until the end", r.since(ended), t.copies, r.p.Ended.Sub(ended).Seconds())
		if ts.failed[subnet] != "" {
			b.WriteString("; the last attempt failed: " + ts.failed[subnet])
		}
	case ts.recreated[subnet]:
		b.WriteString("an owner failed and no copy was found; it was begun again, with the URLs " +
			"that were on their way")
	case s.Linked == 0:
		b.WriteString("its owner ran to the end, and pages that link to these were not fetched")
	default:
		b.WriteString("its owner ran to the end")
	}
	return owners, b.String()
}

// readHits reads the requests that the sites have logged.
func readHits(name string) (hits []web.Hit, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bufio.NewReader(z))
	for {
		var h web.Hit
		if err := dec.Decode(&h); errors.Is(err, io.EOF) {
			return hits, nil
		} else if err != nil {
			return hits, err
		}
		hits = append(hits, h)
	}
}
