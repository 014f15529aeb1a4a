package runner

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"peerd/lab/emulate"
	"peerd/lab/emulate/web"
	"peerd/lab/experiment"
	"peerd/lab/live"
	"peerd/node/config"
	"peerd/node/events"
)

// crawlRow is what the crawl achieved. Shares are 0 to 1, times are of pages, in milliseconds.
type crawlRow struct {
	JudgedBy   string  `json:"judged_by"`
	Expected   int     `json:"pages_expected"` // from event logs: fetched or found and waiting
	Pages      int     `json:"pages_fetched"`
	Coverage   float64 `json:"coverage"`
	Overlap    float64 `json:"overlap"`
	Unmeant    float64 `json:"overlap_without_checks"` // of reports
	Early      int     `json:"politeness_violations"`
	Forbidden  int     `json:"robots_violations"`   // only sites know
	Unlogged   int     `json:"requests_not_logged"` // by the sites
	Seconds    float64 `json:"crawl_s"`
	P50        float64 `json:"page_p50_ms"`
	P90        float64 `json:"page_p90_ms"`
	Comparable float64 `json:"comparable"` // share of successive pages of a host with clocks
}

type machineRow struct {
	Machine string  `json:"machine"`
	State   State   `json:"state"`
	Why     string  `json:"why"`
	Peers   int     `json:"peers"`
	From    string  `json:"program_from"`
	SetUp   float64 `json:"set_up_s"`
	Probe
}

type stepRow struct {
	Planned float64 `json:"planned_s"`
	Begun   float64 `json:"begun_s"`
	Do      string  `json:"do"`
	Peers   int     `json:"peers"`
	Text    string  `json:"text"`
}

// originRow is where the results come from, one fact a row.
type originRow struct {
	Fact  string `json:"fact"`
	Value string `json:"value"`
}

// report merges the event logs, draws the figures and writes the report.
func (r *runner) report(ctx context.Context) error {
	if r.p.Reported {
		return nil
	}
	if err := r.writeMarks(); err != nil {
		return err
	}
	logs, err := fs.Glob(os.DirFS(r.dir), "logs/*.events.jsonl.gz")
	if err != nil {
		return err
	}
	for i, name := range logs {
		logs[i] = filepath.Join(r.dir, name)
	}
	merged := filepath.Join(r.dir, "merged.jsonl")
	m, err := merge(merged, append(slices.Clone(logs), r.marksFile()))
	if err != nil {
		return err
	}
	e := live.Figures([]string{merged}, "", "",
		fmt.Sprintf("peerd-lab experiment run %s.toml", r.f.Name))
	draw := e.Run
	e.Name, e.Title, e.Files = r.f.Name, "An experiment with live peers", append(logs, merged)
	e.Run = func(ctx context.Context, p experiment.Params, out experiment.Out) error {
		if err := r.tables(out, merged); err != nil {
			return err
		}
		out.Note("Merged %d events of %d runs of peers; %d runs could not be aligned; times are "+
			"exact to %.1f ms at worst.", m.Events, m.Runs, m.Unaligned, float64(m.Worst)/1000)
		err := draw(ctx, p, out)
		if errors.Is(err, live.ErrEmpty) {
			out.Note("There are no event logs, hence no figures.")
			return nil
		}
		return err
	}
	res, err := experiment.Run{Experiment: e}.Do(ctx, nil, nil)
	if err != nil {
		return err
	}
	dir := filepath.Join(r.dir, "report")
	if err := experiment.WriteDir(dir, []*experiment.Result{res}); err != nil {
		return err
	}
	r.change(func() { r.p.Reported = true })
	r.printf("wrote %s", filepath.Join(dir, "report.html"))
	return nil
}

// merge merges logs. If clocks drift more than they should, it allows for more: the bounds of all
// events then show that.
func merge(to string, logs []string) (m live.Merged, err error) {
	for drift := live.MaxDrift; drift < 0.05; drift *= 4 {
		f, err := os.Create(to)
		if err != nil {
			return m, err
		}
		m, err = live.Merge(f, logs, drift)
		if err = errors.Join(err, f.Close()); !errors.Is(err, live.ErrClocks) {
			return m, err
		}
	}
	return m, live.ErrClocks
}

func (r *runner) marksFile() string { return filepath.Join(r.dir, "logs", "marks.jsonl") }

// writeMarks writes what was done to the peers, as events.
func (r *runner) writeMarks() (err error) {
	f, err := os.Create(r.marksFile())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	enc := json.NewEncoder(f)
	for i, s := range r.p.Steps {
		mark := events.Mark{Text: r.f.Steps[i].Do}
		mark.T, mark.Kind = s.Begun.UnixMicro(), "mark"
		if mark.Text == "mark" {
			mark.Text = r.f.Steps[i].Text
			err = errors.Join(err, enc.Encode(mark))
		}
		for _, p := range s.Peers {
			mark.Peer = r.p.Peers[p].ID
			err = errors.Join(err, enc.Encode(mark))
		}
	}
	return err
}

// tables adds the tables of the report to those of the figures.
func (r *runner) tables(out experiment.Out, merged string) error {
	row, ts, err := r.judge(merged)
	if err != nil {
		return err
	}
	out.Row("crawl", row)
	setUp := r.p.SetUp.Sub(r.p.Begun).Round(time.Second)
	for _, c := range []struct {
		what, want string
		got        any
		holds      bool
	}{
		{"coverage", "1", row.Coverage, row.Coverage == 1},
		{"overlap", "at most 0.005", row.Overlap, row.Overlap <= 0.005},
		{"overlap without checks of reports", "at most 0.005", row.Unmeant, row.Unmeant <= 0.005},
		{"requests before their time", "0", row.Early, row.Early == 0},
		{"requests that robots.txt forbids", "0", row.Forbidden, row.Forbidden == 0},
		{"requests that the sites failed to log", "0", row.Unlogged, row.Unlogged == 0},
		{"time until all peers were started", "at most 5m0s", setUp, setUp <= 5*time.Minute},
	} {
		out.Claim(c.what, c.want, fmt.Sprint(c.got), c.holds)
	}
	for i, s := range r.p.Machines {
		m := r.f.Machines[i]
		out.Row("machines", machineRow{m.Name, s.State, s.Why, m.Peers, s.From, s.Seconds, s.Probe})
	}
	for i, s := range r.p.Steps {
		step := r.f.Steps[i]
		out.Row("steps", stepRow{step.At.Seconds(),
			s.Begun.Sub(r.p.Seeded).Round(time.Millisecond).Seconds(), step.Do, len(s.Peers),
			step.Text})
	}
	if r.spec != nil && row.Pages < row.Expected && row.Comparable == 1 {
		if err := r.lost(out, ts); err != nil {
			return err
		}
	}
	r.origin(out)
	for i, p := range r.p.Peers {
		if p.Why != "" {
			out.Note("%s on %s: %s", name(i), r.f.Machines[p.Machine].Name, p.Why)
		}
	}
	return nil
}

// origin adds what is needed to repeat the experiment.
func (r *runner) origin(out experiment.Out) {
	settings, _ := r.f.Settings.Text("") // it was written to all homes
	profile, _ := r.f.Profile.Text()
	for _, o := range []originRow{
		{"peerd-lab", fmt.Sprintf("%+v", config.ReadBuild())},
		{"peerd", r.p.Version},
		{"SHA-256 of peerd", r.p.Program},
		{"SHA-256 of the experiment", r.p.Digest},
		{"begun", r.p.Begun.Format(time.RFC3339)},
		{"seeded", r.p.Seeded.Format(time.RFC3339)},
		{"ended", r.p.Ended.Format(time.RFC3339)},
		{"end", r.p.End},
		{"runner started again", fmt.Sprint(r.p.Resumed)},
		{"seed", fmt.Sprint(r.f.Seed)},
		{"peers", fmt.Sprint(len(r.p.Peers))},
		{"limits", fmt.Sprintf("%+v", r.f.Limits)},
		{"emulation", fmt.Sprintf("%+v", r.spec)},
		{"profile", string(profile)},
		{"settings", settings},
	} {
		out.Row("provenance", o)
	}
}

// judge judges the crawl by the logs of the sites or, if they are not the experiment's own, by
// those of the peers.
func (r *runner) judge(merged string) (crawlRow, *traces, error) {
	j := judge{gap: max(r.f.Settings.Crawl.MinDelay.Duration,
		r.f.Profile.Politeness.MinDelay.Duration), hosts: map[string]visit{},
		pages: map[string]bool{}, checks: map[string]int{}, waiting: map[string]int64{}}
	ts := newTraces()
	if _, err := live.Each([]string{merged}, func(e events.Event) error {
		ts.add(e)
		return j.add(e)
	}); err != nil {
		return crawlRow{}, nil, err
	}
	row := j.row()
	row.Seconds = r.p.Ended.Sub(r.p.Seeded).Round(time.Second / 10).Seconds()
	if r.spec == nil {
		return row, ts, nil
	}
	audit, err := readAudit(filepath.Join(r.dir, "logs", "sites.audit.json.gz"))
	if errors.Is(err, fs.ErrNotExist) {
		row.JudgedBy += "; those of the sites are missing"
		return row, ts, nil
	}
	if err != nil {
		return row, nil, fmt.Errorf("log of the sites: %w", err)
	}
	a := emulate.Evaluate(emulate.Input{Audit: audit, Peers: len(r.p.Peers)})
	row.JudgedBy, row.Comparable = "the logs of the sites", 1
	row.Expected, row.Pages, row.Coverage = a.PagesExpected, a.PagesFetched, a.Coverage
	row.Overlap, row.Early, row.Forbidden = a.Overlap, a.PolitenessViolations, a.RobotsViolations
	row.Unlogged = a.Unlogged
	hits, err := readHits(filepath.Join(r.dir, "logs", "sites.hits.jsonl.gz"))
	switch row.Unmeant = row.Overlap; {
	case err == nil:
		row.Unmeant = share(j.unmeant(hits), a.PagesFetched)
	case !errors.Is(err, fs.ErrNotExist):
		return row, nil, fmt.Errorf("log of the sites: %w", err)
	}
	return row, ts, nil
}

func readAudit(name string) (a web.Audit, err error) {
	f, err := os.Open(name)
	if err != nil {
		return a, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return a, err
	}
	return a, json.NewDecoder(io.LimitReader(z, maxAnswer)).Decode(&a)
}

// visit is the last page of a host.
type visit struct {
	run   string
	end   int64 // microseconds
	bound int64
}

// judge judges a crawl by merged event logs.
type judge struct {
	gap     time.Duration
	hosts   map[string]visit
	pages   map[string]bool
	took    []float64
	waiting map[string]int64 // URLs, by peer
	fetches int
	checks  map[string]int // pages that were fetched to check a report, by host and path
	checked int
	early   int
	pairs   int
	blind   int // pairs of which the clocks could not be compared
}

func (j *judge) add(e events.Event) error {
	switch e := e.(type) {
	case *events.State:
		j.waiting[e.Self] = e.Queued + int64(e.InFlight) + e.Outbox + e.Unclaimed
	case *events.Page:
		j.fetches++
		j.pages[e.URL] = true
		j.took = append(j.took, e.Took)
		if u, err := url.Parse(e.URL); err == nil {
			if e.Check {
				j.checks[u.Hostname()+u.RequestURI()]++
				j.checked++
			}
			now, last := visit{e.Self + e.Run, e.T, e.Bound}, j.hosts[u.Host]
			if last.run != "" {
				j.compare(last, now, e.Took)
			}
			if now.end >= last.end {
				j.hosts[u.Host] = now
			}
		}
	}
	return nil
}

// compare counts a page that began too early even if the clocks differ as much as they may.
func (j *judge) compare(last, now visit, took float64) {
	j.pairs++
	slack := int64(10_000) // an event is written that much later than what it describes
	if last.run != now.run {
		if last.bound < 0 || now.bound < 0 {
			j.blind++
			return
		}
		slack += last.bound + now.bound
	}
	if now.end-int64(took*1000)+slack < last.end+j.gap.Microseconds() {
		j.early++
	}
}

// unmeant returns how many pages of the sites were fetched again, but not to check a report.
func (j *judge) unmeant(hits []web.Hit) (n int) {
	left := map[string]int{}
	for _, h := range hits {
		if !h.Page {
			continue
		}
		u := h.Host + h.Path
		if _, again := left[u]; !again {
			left[u] = j.checks[u]
		} else if left[u]--; left[u] < 0 {
			n++
		}
	}
	return n
}

// share returns a/b, 0 if b is 0.
func share(a, b int) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

func (j *judge) row() crawlRow {
	row := crawlRow{JudgedBy: "the event logs of the peers", Pages: len(j.pages), Early: j.early}
	for _, n := range j.waiting {
		row.Expected += int(n)
	}
	row.Expected += row.Pages
	row.Coverage = share(row.Pages, row.Expected)
	row.Overlap = share(j.fetches-row.Pages, row.Pages)
	row.Unmeant = share(j.fetches-row.Pages-j.checked, row.Pages)
	row.Comparable = share(j.pairs-j.blind, j.pairs)
	slices.Sort(j.took)
	if n := len(j.took); n > 0 {
		row.P50, row.P90 = j.took[n/2], j.took[n*9/10]
	}
	return row
}
