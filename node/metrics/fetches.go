package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"peerd/store"
)

// phaseNames are the phases of a request in their order, as values of a label.
var phaseNames = [...]string{"lookup", "connect", "tls", "first_byte", "body"}

// Classic buckets, for those who do not store native histograms. Durations are in seconds.
var (
	durationBuckets = []float64{
		.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	ratioBuckets = []float64{.1, .2, .33, .5, .67, .8, .9, 1.1, 1.25, 1.5, 2, 3, 5, 10}
)

// Parameters of the native histograms: buckets 10 % wide, at most so many of them.
const (
	nativeFactor     = 1.1
	nativeMaxBuckets = 100
	nativeMinReset   = time.Hour
)

// fetches are the metrics of requests to web servers. Their series are looked up once, so that
// counting allocates nothing.
type fetches struct {
	outcomes   []prometheus.Counter // by store.Outcome
	phases     [len(phaseNames)]prometheus.Observer
	prediction prometheus.Histogram
}

// newFetches registers the metrics.
func newFetches(reg *prometheus.Registry) *fetches {
	outcomes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "peerd_fetches_total",
		Help: "Requests to web servers that this peer made for itself or for other peers, by " +
			"outcome: pages, sitemaps and robots.txt. Connections that a strategy asked for " +
			"count only if they failed. A request without an answer is repeated later.",
	}, []string{"outcome"})
	phases := prometheus.NewHistogramVec(histogram("peerd_fetch_phase_seconds",
		"Duration of the phases of a request to a web server. Over an open connection there is "+
			"neither lookup nor connect nor tls.", durationBuckets), []string{"phase"})
	f := &fetches{prediction: prometheus.NewHistogram(histogram("peerd_download_prediction_ratio",
		"Download time of a page as predicted by the proxy coordinate of its subnet, divided by "+
			"the measured one: 1 is exact, 2 twice too long.", ratioBuckets))}
	reg.MustRegister(outcomes, phases, f.prediction)
	for o := store.OutcomeNone; o.String() != "unknown"; o++ {
		f.outcomes = append(f.outcomes, outcomes.WithLabelValues(o.String()))
	}
	for i, name := range phaseNames {
		f.phases[i] = phases.WithLabelValues(name)
	}
	return f
}

func histogram(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets, NativeHistogramBucketFactor: nativeFactor,
		NativeHistogramMaxBucketNumber:  nativeMaxBuckets,
		NativeHistogramMinResetDuration: nativeMinReset,
	}
}

// isConnection reports whether a report is that of a connection without a request.
func isConnection(r store.FetchReport) bool {
	return r.Outcome == store.OutcomeOK && r.Timing.FirstByte+r.Timing.Body == 0
}

// observe counts a request that has ended. predicted is the predicted time from the end of the
// request to the end of the body; 0: there is no prediction.
func (f *fetches) observe(r store.FetchReport, predicted time.Duration) {
	if isConnection(r) || int(r.Outcome) >= len(f.outcomes) {
		return
	}
	f.outcomes[r.Outcome].Inc()
	t := r.Timing
	for phase, took := range [len(phaseNames)]time.Duration{
		t.DNS, t.Connect, t.TLS, t.FirstByte, t.Body,
	} {
		if took > 0 {
			f.phases[phase].Observe(took.Seconds())
		}
	}
	took := t.FirstByte + t.Body
	if r.Outcome == store.OutcomeOK && !r.File && predicted > 0 && took > 0 {
		f.prediction.Observe(float64(predicted) / float64(took))
	}
}
