package fetch

import (
	"io"
	"net/http"
	"syscall"
	"testing"
	"time"

	"peerd/store"
)

// cpu returns the processor time that this process has used.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// perCPU runs do b.N times and reports how often it runs per second of
// processor time, server included.
func perCPU(b *testing.B, do func()) {
	do() // opens the connection
	b.ReportAllocs()
	start := cpu(b)
	for b.Loop() {
		do()
	}
	b.ReportMetric(float64(b.N)/(cpu(b)-start).Seconds(), "req/cpu-s")
}

func BenchmarkDo(b *testing.B) {
	page := html(20_000)
	s := newSite(b, "127.7.9.1", "http", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Write(page)
	})
	f := newFetcher(b, nil)
	perCPU(b, func() {
		if res := s.get(f, "/"); res.Outcome != store.OutcomeOK || len(res.Body) != len(page) {
			b.Fatal(res.Outcome, res.Err)
		}
	})
}

// BenchmarkBareClient is what BenchmarkDo is to be compared with.
func BenchmarkBareClient(b *testing.B) {
	page := html(20_000)
	s := newSite(b, "127.7.9.2", "http", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Write(page)
	})
	transport := &http.Transport{DisableCompression: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: time.Minute}
	perCPU(b, func() {
		resp, err := client.Get(s.URL + "/")
		if err != nil {
			b.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || len(body) != len(page) {
			b.Fatal(len(body), err)
		}
	})
}
