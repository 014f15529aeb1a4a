package node

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"

	"peerd/node/config"
)

// The documents about monitoring.
const (
	operatingDoc  = "../docs/operating.md"
	monitoringDoc = "../docs/monitoring/README.md"
	alertsFile    = "../docs/monitoring/alerts.yml"
	dashboardFile = "../docs/monitoring/dashboard.json"
)

// scraped returns what Prometheus reads from a peer that has crawled a site with a copy of a page,
// keeps an archive, and is connected to another peer.
func scraped(t *testing.T) string {
	t.Helper()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<p>the same text", strings.Repeat(" again and again", 50))
	}))
	defer site.Close()
	at, err := url.Parse(site.URL)
	if err != nil {
		t.Fatal(err)
	}
	other := newNode(t, options(t))
	defer running(t, other)()
	o := options(t)
	o.Config.Bootstrap, o.Config.Strategy = other.Addrs()[:1], "keep"
	o.Config.Traffic.MonthlyVolume = 1e12
	o.Config.Archive.Enabled = true
	o.Config.Crawl.Resolve = map[string][]netip.Addr{
		"site.test": {netip.MustParseAddr("127.0.0.1")}}
	n := newNode(t, o)
	defer running(t, n)()
	until(t, time.Minute, "a round trip was measured", func() bool {
		_, ok := n.peers.RTT(other.ID())
		return ok
	})
	base := "http://site.test:" + at.Port()
	if _, err := n.Seed(t.Context(), []string{base + "/a", base + "/b"}); err != nil {
		t.Fatal(err)
	}
	until(t, time.Minute, "both pages are fetched and nothing is left", func() bool {
		return n.db.Counters().Pages == 2 && n.Idle()
	})
	token, err := os.ReadFile(o.Home.ReadTokenFile())
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		"http://"+n.api.Addr()+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %v: %s", resp.StatusCode, err, &text)
	}
	return text.String()
}

// series holds the label values that occur: by metric, then by label.
type series map[string]map[string][]string

// parse returns the series of a scrape, and the sums of the values by metric.
func parse(t *testing.T, text string) (series, map[string]float64) {
	t.Helper()
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	all, sums := series{}, map[string]float64{}
	for name, f := range families {
		labels := map[string][]string{"instance": nil, "job": nil} // which Prometheus adds
		for _, m := range f.Metric {
			sums[name] += m.GetCounter().GetValue() + m.GetGauge().GetValue() +
				float64(m.GetHistogram().GetSampleCount())
			for _, l := range m.Label {
				labels[l.GetName()] = append(labels[l.GetName()], l.GetValue())
			}
		}
		all[name] = labels
		if f.Metric[0].GetHistogram() != nil {
			bucket := maps.Clone(labels)
			bucket["le"] = nil
			all[name+"_bucket"], all[name+"_sum"], all[name+"_count"] = bucket, labels, labels
		}
	}
	return all, sums
}

var (
	metricUse = regexp.MustCompile(`\b((?:peerd|process|go)_[a-z0-9_]+|up\b)(\{[^}]*\})?`)
	matcher   = regexp.MustCompile(`(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"`)
	grouping  = regexp.MustCompile(`\b(?:by|on|ignoring|without)\s*\(([^)]*)\)`)
)

// check returns what an expression of PromQL names that does not exist.
func (s series) check(expr string) (missing []string) {
	labels := map[string]bool{}
	uses := metricUse.FindAllStringSubmatch(expr, -1)
	if len(uses) == 0 {
		missing = append(missing, "any metric")
	}
	for _, use := range uses {
		have, ok := s[use[1]]
		if use[1] == "up" { // which Prometheus adds
			have, ok = map[string][]string{"job": {"peerd"}}, true
		}
		if !ok {
			missing = append(missing, use[1])
		}
		for l := range have {
			labels[l] = true
		}
		for _, m := range matcher.FindAllStringSubmatch(use[2], -1) {
			values, ok := have[m[1]]
			if !ok || m[2] == "=" && m[1] != "job" && !slices.Contains(values, m[3]) {
				missing = append(missing, use[1]+"{"+m[0]+"}")
			}
		}
	}
	for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
		for l := range strings.SplitSeq(g[1], ",") {
			if l = strings.TrimSpace(l); !labels[l] {
				missing = append(missing, "the label "+l)
			}
		}
	}
	return missing
}

func TestCheckExpression(t *testing.T) {
	s := series{"peerd_a": {"x": {"1", "2"}, "instance": nil, "job": nil}}
	for expr, want := range map[string]string{
		`rate(peerd_a{x="1"}[5m]) > 0`:         "",
		`sum by (x, instance) (peerd_a)`:       "",
		`peerd_a{instance=~"$i", job="peerd"}`: "",
		`up{job="peerd"} == 0`:                 "",
		`peerd_b`:                              "peerd_b",
		`peerd_a + on (y) peerd_a{x="3"}`:      `peerd_a{x="3"} the label y`,
		`peerd_a{y!="1"}`:                      `peerd_a{y!="1"}`,
		`1 > 0`:                                "any metric",
	} {
		if got := strings.Join(s.check(expr), " "); got != want {
			t.Errorf("check(%q) = %q, want %q", expr, got, want)
		}
	}
}

// alertRules returns the expressions of the alert rules by name.
func alertRules(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if r.Annotations["summary"] == "" || r.Labels["severity"] == "" || r.For == "" {
				t.Errorf("the alert %s lacks its summary, severity or time", r.Alert)
			}
			all[r.Alert] = r.Expr
		}
	}
	return all
}

// dashboardExprs returns the expressions of the dashboard by title.
func dashboardExprs(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var file any
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	var walk func(v any, title string)
	walk = func(v any, title string) {
		switch v := v.(type) {
		case []any:
			for _, x := range v {
				walk(x, title)
			}
		case map[string]any:
			if s, ok := v["title"].(string); ok {
				title = s
			}
			if expr, ok := v["expr"].(string); ok {
				all[fmt.Sprint(title, " ", v["refId"])] = expr
			}
			for _, x := range v {
				walk(x, title)
			}
		}
	}
	walk(file, "")
	return all
}

// Everything that the alert rules, the dashboard and the documents name exists in a scrape, and
// everything in a scrape is described.
func TestMonitoring(t *testing.T) {
	all, sums := parse(t, scraped(t))
	for name, least := range map[string]float64{
		"peerd_fetches_total": 3, "peerd_fetch_phase_seconds": 3, "peerd_pages_fetched_total": 2,
		"peerd_urls_seen_total": 2, "peerd_pages_marked_total": 1, "peerd_hosts": 1,
		"peerd_subnets": 1, "peerd_peers_known": 1, "peerd_peers_connected": 1,
		"peerd_peer_sent_bytes_total": 1000, "peerd_disk_free_bytes": 1,
		"peerd_disk_min_free_bytes": 1, "peerd_archive_size_bytes": 1,
		"peerd_coordinate_error_ratio": 1e-9, "peerd_politeness_pauses_total": 2,
		"peerd_coordinate_moved_seconds_total": 1e-9, "peerd_web_received_bytes_total": 1000,
		"peerd_build_info": 1,
	} {
		if sums[name] < least {
			t.Errorf("%s is %v in total, want at least %v", name, sums[name], least)
		}
	}
	rules, charts := alertRules(t), dashboardExprs(t)
	if len(rules) < 5 || len(charts) < 20 {
		t.Errorf("found %d alert rules, and %d expressions of the dashboard", len(rules),
			len(charts))
	}
	for file, exprs := range map[string]map[string]string{
		alertsFile: rules, dashboardFile: charts,
	} {
		for name, expr := range exprs {
			if missing := all.check(expr); len(missing) > 0 {
				t.Errorf("%s: %s: a peer does not have %s", file, name, strings.Join(missing, ", "))
			}
		}
	}
	doc, err := os.ReadFile(monitoringDoc)
	if err != nil {
		t.Fatal(err)
	}
	described := map[string]bool{}
	for _, name := range regexp.MustCompile("`(peerd_[a-z_]+)`").FindAllStringSubmatch(
		string(doc), -1) {
		described[name[1]] = true
		if all[name[1]] == nil {
			t.Errorf("%s: a peer does not have %s", monitoringDoc, name[1])
		}
	}
	for name := range sums {
		if strings.HasPrefix(name, "peerd_") && !described[name] {
			t.Errorf("%s does not describe %s", monitoringDoc, name)
		}
	}
}

// scrapeConfig returns the configuration of Prometheus that the operator's guide shows.
func scrapeConfig(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(operatingDoc)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "```yaml\nscrape_configs:")
	block, _, ok2 := strings.Cut(rest, "```")
	if !ok || !ok2 {
		t.Fatalf("%s shows no scrape_configs", operatingDoc)
	}
	return "scrape_configs:" + block
}

// The scrape configuration in the operator's guide fits the peer that it configures.
func TestScrapeConfig(t *testing.T) {
	var c struct {
		Jobs []struct {
			Name          string        `yaml:"job_name"`
			Interval      time.Duration `yaml:"scrape_interval"`
			Authorization struct {
				File string `yaml:"credentials_file"`
			}
			Static []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	d := yaml.NewDecoder(strings.NewReader(scrapeConfig(t)))
	d.KnownFields(true)
	if err := d.Decode(&c); err != nil || len(c.Jobs) != 1 || len(c.Jobs[0].Static) != 1 ||
		len(c.Jobs[0].Static[0].Targets) != 1 {
		t.Fatalf("%+v, %v, want one job with one target", c, err)
	}
	job := c.Jobs[0]
	file := job.Authorization.File
	if (config.Home{Dir: filepath.Dir(file)}).ReadTokenFile() != file {
		t.Errorf("credentials_file is %s, which no peer writes", file)
	}
	settings := config.Default()
	settings.API = job.Static[0].Targets[0]
	if err := settings.Validate(); err != nil {
		t.Errorf("the target is no address of an admin API: %v", err)
	}
	guide, err := os.ReadFile(operatingDoc)
	if err != nil || !strings.Contains(string(guide), fmt.Sprintf("\napi = %q\n", settings.API)) {
		t.Errorf("the guide does not set api to %q: %v", settings.API, err)
	}
	if !strings.Contains(alertRules(t)["PeerdDown"], fmt.Sprintf("{job=%q}", job.Name)) {
		t.Errorf("the alert PeerdDown is not about the job %q", job.Name)
	}
}
