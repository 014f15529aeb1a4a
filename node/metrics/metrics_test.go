package metrics

import (
	"errors"
	"io"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"peerd/crawl/frontier"
	"peerd/overlay"
	"peerd/overlay/outbox"
	"peerd/overlay/owner"
	"peerd/store"
)

// fakePeer is a Peer with a state that a test sets.
type fakePeer struct {
	state    State
	measured int
}

func (f *fakePeer) Measure() State { f.measured++; return f.state }

func newSet(p Peer) *Set {
	return New(prometheus.NewRegistry(), p, "1.2.3", "go1", slog.New(slog.DiscardHandler))
}

// scrape returns the families that a Set serves in a format.
func scrape(t testing.TB, s *Set, accept string) map[string]*dto.MetricFamily {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	all := map[string]*dto.MetricFamily{}
	d := expfmt.NewDecoder(w.Body, expfmt.ResponseFormat(w.Header()))
	for {
		var f dto.MetricFamily
		err := d.Decode(&f)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all[f.GetName()] = &f
	}
}

const protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;" +
	"encoding=delimited"

// value returns the value of the series of a counter or gauge that has the label values.
func value(t *testing.T, all map[string]*dto.MetricFamily, name string, labels ...string) float64 {
	t.Helper()
	for _, m := range all[name].GetMetric() {
		var have []string
		for _, l := range m.Label {
			have = append(have, l.GetValue())
		}
		if slices.Equal(have, labels) {
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	t.Errorf("there is no %s%v", name, labels)
	return 0
}

// full is a state in which no two numbers are the same.
func full() State {
	return State{
		Counters: store.Counters{Pages: 1, Bytes: 2, Seen: 3, HandoversIn: 4, HandoversOut: 5,
			EstimationsRequested: 6, EstimationsServed: 7, BatchesSent: 8, BatchesReceived: 9,
			URLsSent: 10, URLsReceived: 11, Revisits: 12, NotModified: 13, Changed: 14, Probes: 15,
			Connects: 16},
		GivenUp:  GivenUp{Failed: 17, RobotsDenied: 18},
		Dropped:  map[string]int64{"yield": 19, "limit": 20},
		Marked:   map[string]int64{"duplicate": 21},
		Frontier: frontier.Stats{Hosts: 22, Pending: 23, InFlight: 24},
		Pauses:   frontier.Pauses{Count: 25, Total: 26 * time.Second}, ServersReady: 27,
		ServersWaiting: 28, WorkerWait: 29 * time.Second,
		Pending:    outbox.Stats{Outbox: 30, Unclaimed: 31},
		Blocked:    map[string]bool{"offline": true, "space": false},
		Subnets:    owner.Counts{Estimating: 32, Owned: 33, Leaving: 34, Unverified: 35},
		Owner:      owner.Stats{Moves: 36, Scouts: 37, Takeovers: 38},
		Traffic:    map[string]overlay.Bytes{"batch": {Sent: 39, Received: 40}},
		PeersKnown: 41, PeersConnected: 42,
		Coordinate: Coordinate{Error: .43, Height: 44_000, Moved: 45_000,
			Ratios: []float64{.5, .6, .7, .8, .9, 1, 1.1, 1.2, 1.3, 1.4, 1.5}},
		DiskFree: 46, DiskMinFree: 47,
		Archive: &Archive{Quota: 48},
	}
}

func TestTable(t *testing.T) {
	p := &fakePeer{state: full()}
	p.state.OwnerMap.Subnets, p.state.Archive.Bytes, p.state.Archive.Refused = 49, 50, 51
	all := scrape(t, newSet(p), "text/plain")
	for _, want := range []struct {
		v      float64
		name   string
		labels []string
	}{
		{1, "peerd_pages_fetched_total", nil}, {2, "peerd_web_received_bytes_total", nil},
		{3, "peerd_urls_seen_total", nil}, {4, "peerd_handovers_total", []string{"in"}},
		{5, "peerd_handovers_total", []string{"out"}},
		{6, "peerd_estimations_total", []string{"requested"}},
		{7, "peerd_estimations_total", []string{"served"}},
		{8, "peerd_batches_total", []string{"sent"}},
		{9, "peerd_batches_total", []string{"received"}},
		{10, "peerd_batch_urls_total", []string{"sent"}},
		{11, "peerd_batch_urls_total", []string{"received"}},
		{12, "peerd_revisits_total", nil}, {13, "peerd_revisits_not_modified_total", nil},
		{14, "peerd_revisits_changed_total", nil}, {15, "peerd_probes_total", nil},
		{16, "peerd_probe_connections_total", nil},
		{17, "peerd_urls_given_up", []string{"failed"}},
		{18, "peerd_urls_given_up", []string{"robots_denied"}},
		{19, "peerd_urls_dropped_total", []string{"yield"}},
		{20, "peerd_urls_dropped_total", []string{"limit"}},
		{21, "peerd_pages_marked_total", []string{"duplicate"}},
		{22, "peerd_hosts", nil}, {23, "peerd_urls", []string{"queued"}},
		{24, "peerd_urls", []string{"in_flight"}}, {25, "peerd_politeness_pauses_total", nil},
		{26, "peerd_politeness_pause_seconds_total", nil},
		{27, "peerd_servers", []string{"ready"}}, {28, "peerd_servers", []string{"waiting"}},
		{29, "peerd_worker_wait_seconds", nil}, {30, "peerd_urls", []string{"outbox"}},
		{31, "peerd_urls", []string{"unclaimed"}}, {1, "peerd_blocked", []string{"offline"}},
		{0, "peerd_blocked", []string{"space"}}, {32, "peerd_subnets", []string{"estimating"}},
		{33, "peerd_subnets", []string{"owned"}}, {34, "peerd_subnets", []string{"leaving"}},
		{35, "peerd_subnets", []string{"unverified"}}, {36, "peerd_moves_total", nil},
		{37, "peerd_scouts_total", nil}, {38, "peerd_takeovers_total", nil},
		{39, "peerd_peer_sent_bytes_total", []string{"batch"}},
		{40, "peerd_peer_received_bytes_total", []string{"batch"}},
		{41, "peerd_peers_known", nil}, {42, "peerd_peers_connected", nil},
		{.43, "peerd_coordinate_error_ratio", nil}, {44, "peerd_coordinate_height_seconds", nil},
		{45, "peerd_coordinate_moved_seconds_total", nil},
		{.6, "peerd_round_trip_prediction_ratio", []string{"10"}},
		{1, "peerd_round_trip_prediction_ratio", []string{"50"}},
		{1.4, "peerd_round_trip_prediction_ratio", []string{"90"}},
		{46, "peerd_disk_free_bytes", nil}, {47, "peerd_disk_min_free_bytes", nil},
		{48, "peerd_archive_quota_bytes", nil}, {49, "peerd_owner_map_subnets", nil},
		{50, "peerd_archive_size_bytes", nil}, {51, "peerd_archive_refused_total", nil},
		{1, "peerd_build_info", []string{"go1", "1.2.3"}},
	} {
		if got := value(t, all, want.name, want.labels...); got != want.v {
			t.Errorf("%s%v = %v, want %v", want.name, want.labels, got, want.v)
		}
	}
	families := slices.Collect(maps.Values(all))
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "peerd_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// An empty state has no series that would need a value, and is no error.
func TestEmptyState(t *testing.T) {
	all := scrape(t, newSet(&fakePeer{}), "text/plain")
	for _, name := range []string{"peerd_archive_size_bytes", "peerd_round_trip_prediction_ratio"} {
		if all[name] != nil {
			t.Errorf("%s exists: %v", name, all[name])
		}
	}
	for _, name := range []string{"peerd_urls", "go_goroutines", "process_cpu_seconds_total"} {
		if all[name] == nil {
			t.Errorf("%s is missing", name)
		}
	}
}

// The state is read once a second at most.
func TestStateIsCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakePeer{}
		s := newSet(p)
		if p.measured != 0 {
			t.Error("the state was read without a scrape")
		}
		for range 31 { // in three seconds
			scrape(t, s, "text/plain")
			time.Sleep(cacheTime / 10)
		}
		if p.measured != 4 {
			t.Errorf("the state was read %d times, want 4", p.measured)
		}
	})
}

// report is that of a page of 10 kB.
var report = store.FetchReport{
	Outcome: store.OutcomeOK, Status: 200, Bytes: 10_000,
	Timing: store.Timing{DNS: 20 * time.Millisecond, Connect: 40 * time.Millisecond,
		TLS: 50 * time.Millisecond, FirstByte: 60 * time.Millisecond, Body: 140 * time.Millisecond},
}

func TestObserveFetch(t *testing.T) {
	s := newSet(&fakePeer{})
	s.ObserveFetch(report, 100*time.Millisecond)
	reused := report
	reused.Timing = store.Timing{FirstByte: time.Second, Reused: true}
	s.ObserveFetch(reused, 0)
	s.ObserveFetch(store.FetchReport{Outcome: store.OutcomeTimeout}, time.Second)
	s.ObserveFetch(store.FetchReport{Outcome: store.OutcomeOK, // a connection
		Timing: store.Timing{Connect: time.Second}}, 0)
	s.ObserveFetch(store.FetchReport{Outcome: 255}, 0)
	(*Set)(nil).ObserveFetch(report, 0)
	for _, format := range []string{"text/plain", protobuf} {
		all := scrape(t, s, format)
		for outcome, want := range map[string]float64{"ok": 2, "timeout": 1, "dns": 0} {
			if got := value(t, all, "peerd_fetches_total", outcome); got != want {
				t.Errorf("outcome %s: %v, want %v", outcome, got, want)
			}
		}
		sums := map[string]float64{}
		for _, m := range all["peerd_fetch_phase_seconds"].GetMetric() {
			h := m.GetHistogram()
			sums[m.Label[0].GetValue()] = h.GetSampleSum()
			if len(h.Bucket) < len(durationBuckets) {
				t.Errorf("%d classic buckets, want %d", len(h.Bucket), len(durationBuckets))
			}
			if native := len(h.PositiveSpan) > 0; native != (format == protobuf) {
				t.Errorf("%s: native buckets: %v", format, native)
			}
		}
		want := map[string]float64{
			"lookup": .02, "connect": .04, "tls": .05, "first_byte": 1.06, "body": .14}
		if !maps.EqualFunc(sums, want, func(a, b float64) bool {
			return math.Abs(a-b) < 1e-9
		}) {
			t.Errorf("sums of phases = %v, want %v", sums, want)
		}
		ratio := all["peerd_download_prediction_ratio"].GetMetric()[0].GetHistogram()
		if ratio.GetSampleCount() != 1 || ratio.GetSampleSum() != .5 {
			t.Errorf("%d ratios, sum %v, want 0.5", ratio.GetSampleCount(), ratio.GetSampleSum())
		}
	}
	if n := testing.AllocsPerRun(1000, func() { s.ObserveFetch(report, 0) }); n >= 1 {
		t.Errorf("ObserveFetch allocates %v times", n)
	}
}

func BenchmarkObserveFetch(b *testing.B) {
	s := newSet(&fakePeer{})
	b.ReportAllocs()
	for b.Loop() {
		s.ObserveFetch(report, 100*time.Millisecond)
	}
}

// BenchmarkScrape measures a scrape without the time that the peer takes for its state.
func BenchmarkScrape(b *testing.B) {
	s := newSet(&fakePeer{state: full()})
	s.ObserveFetch(report, 100*time.Millisecond)
	for name, accept := range map[string]string{"text": "text/plain", "protobuf": protobuf} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
				r.Header.Set("Accept", accept)
				s.Handler().ServeHTTP(httptest.NewRecorder(), r)
			}
		})
	}
}
