package fetch

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"peerd/store"
)

// benchEnv makes the test binary a web server, so that its processor time is
// not counted as the client's.
const benchEnv = "PEERD_FETCH_BENCH_SERVER"

// benchBody is the size of the benchmark's page: the median of HTML on the web
// is about 30 kB (HTTP Archive).
const benchBody = 30_000

// serveBench serves the page at / and its gzip at /gzip until stdin ends.
func serveBench() {
	l, err := net.Listen("tcp", "127.7.9.1:0")
	if err != nil {
		panic(err)
	}
	page := html(benchBody)
	packed := zip(page)
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Length", fmt.Sprint(len(page)))
		if r.URL.Path == "/gzip" {
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("Content-Length", fmt.Sprint(len(packed)))
			w.Write(packed)
			return
		}
		w.Write(page)
	}))
	fmt.Println(l.Addr())
	io.Copy(io.Discard, os.Stdin)
}

// benchServer starts the server in a process of its own.
func benchServer(b *testing.B) netip.AddrPort {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), benchEnv+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { in.Close(); cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return netip.MustParseAddrPort(strings.TrimSpace(line))
}

// cpu returns the processor time that this process has used.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// ours fetches path with Do.
func ours(b *testing.B, at netip.AddrPort, path string) func() {
	f := newFetcher(b, nil)
	u := store.URL("http://" + at.String() + path)
	return func() {
		res := f.Do(b.Context(), Request{URL: u, Addr: at.Addr()})
		if res.Outcome != store.OutcomeOK || len(res.Body) != benchBody {
			b.Fatal(res.Outcome, res.Err)
		}
		res.Release()
	}
}

// theirs fetches path with net/http's default client into a buffer that is
// used again.
func theirs(b *testing.B, at netip.AddrPort, path string) func() {
	b.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	var buf bytes.Buffer
	return func() {
		resp, err := http.DefaultClient.Get("http://" + at.String() + path)
		if err != nil {
			b.Fatal(err)
		}
		buf.Reset()
		_, err = buf.ReadFrom(resp.Body)
		resp.Body.Close()
		if err != nil || buf.Len() != benchBody {
			b.Fatal(buf.Len(), err)
		}
	}
}

// BenchmarkDo is one fetch over a kept connection.
func BenchmarkDo(b *testing.B) { bench(b, ours) }

// BenchmarkNetHTTP is what BenchmarkDo is to be compared with.
func BenchmarkNetHTTP(b *testing.B) { bench(b, theirs) }

func bench(b *testing.B, client func(*testing.B, netip.AddrPort, string) func()) {
	at := benchServer(b)
	for _, path := range []string{"/", "/gzip"} {
		b.Run(path[1:], func(b *testing.B) {
			do := client(b, at, path)
			do() // opens the connection
			b.ReportAllocs()
			start := cpu(b)
			for b.Loop() {
				do()
			}
			b.ReportMetric(float64((cpu(b)-start).Microseconds())/float64(b.N), "cpu-us/op")
		})
	}
}

// BenchmarkRatio runs both by turns and reports the processor time of Do as a
// multiple of net/http's.
func BenchmarkRatio(b *testing.B) {
	at := benchServer(b)
	for _, path := range []string{"/", "/gzip"} {
		b.Run(path[1:], func(b *testing.B) {
			clients := []func(){ours(b, at, path), theirs(b, at, path)}
			var spent [2]time.Duration
			for b.Loop() {
				for i, do := range clients {
					start := cpu(b)
					for range 100 {
						do()
					}
					spent[i] += cpu(b) - start
				}
			}
			b.ReportMetric(spent[0].Seconds()/spent[1].Seconds(), "cpu-ratio")
		})
	}
}
