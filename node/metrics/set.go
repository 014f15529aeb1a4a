package metrics

import (
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"peerd/store"
)

const (
	// cacheTime is how long what was read is served again.
	cacheTime = time.Second
	// maxScrapes is the maximum number of scrapes at once; others are refused.
	maxScrapes = 4
)

// Registry holds metrics.
type Registry = prometheus.Registry

// NewRegistry returns a Registry without metrics.
func NewRegistry() *Registry { return prometheus.NewRegistry() }

// Set holds the metrics of one peer. Its methods are safe for concurrent use. It starts no
// goroutine that outlives a call.
type Set struct {
	fetches *fetches
	handler http.Handler
}

// New returns the metrics of a peer, which are not read before the first scrape, beside those that
// are in reg. version is that of the program, goVersion that of its compiler. log receives the
// errors of scrapes.
func New(
	reg *Registry, peer Peer, version, goVersion string, log *slog.Logger,
) *Set {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "peerd_build_info",
		Help:        "Versions of the program and of Go, as labels; always 1.",
		ConstLabels: prometheus.Labels{"version": version, "go_version": goVersion},
	})
	build.Set(1)
	reg.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), build,
		collector{peer})
	return &Set{
		fetches: newFetches(reg),
		handler: promhttp.HandlerFor(&cache{from: reg}, promhttp.HandlerOpts{
			ErrorLog:            slog.NewLogLogger(log.Handler(), slog.LevelError),
			MaxRequestsInFlight: maxScrapes,
			DisableCompression:  true, // it takes longer than a local connection saves
		}),
	}
}

// Handler serves the metrics: as text, or in the format with native histograms if the client
// prefers it.
func (s *Set) Handler() http.Handler { return s.handler }

// ObserveFetch counts a request of this peer to a web server that has ended. predicted is how long
// it was expected to take from the end of the request to the end of the body; 0: unknown. It does
// nothing if s is nil.
func (s *Set) ObserveFetch(r store.FetchReport, predicted time.Duration) {
	if s != nil {
		s.fetches.observe(r, predicted)
	}
}

// cache is a Gatherer that asks another one only if its last answer is older than cacheTime:
// reading and sorting all metrics takes longer than to write them.
type cache struct {
	from prometheus.Gatherer

	mu  sync.Mutex
	at  time.Time           // of the answer; zero: there is none
	all []*dto.MetricFamily // never modified
}

// Gather returns an answer that is less than cacheTime old. It does not keep one with an error.
func (c *cache) Gather() ([]*dto.MetricFamily, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.at.IsZero() && time.Since(c.at) < cacheTime {
		return slices.Clone(c.all), nil
	}
	all, err := c.from.Gather()
	if err != nil {
		return all, err
	}
	c.all, c.at = all, time.Now()
	return slices.Clone(all), nil
}

// collector turns the state of a peer into metrics.
type collector struct{ peer Peer }

// Describe sends the descriptions of all metrics of the table.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, row := range table {
		ch <- row.desc
	}
}

// Collect sends the metrics.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	s := c.peer.Measure()
	for _, row := range table {
		row.values(&s, func(v float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(row.desc, row.kind, v, labels...)
		})
	}
}
