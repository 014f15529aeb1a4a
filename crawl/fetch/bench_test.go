package fetch

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"peerd/store"
)

// benchServerFlag makes the test binary the web server of a benchmark, so that the CPU time of the
// server is not that of the client. benchServer sets it.
var benchServerFlag = flag.Bool("bench-server", false,
	"run the web server of the benchmarks until stdin ends; set by the benchmarks themselves")

// benchBody is the size of the page of the benchmarks: the median of HTML pages on the web is about
// 30 kB (HTTP Archive).
const benchBody = 30_000

// serveBench serves the page at / and its gzip at /gzip until stdin ends, without and with TLS. It
// prints both addresses, and for each line of stdin the number of TLS connections so far.
func serveBench() {
	page := html(benchBody)
	packed := zip(page)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Length", fmt.Sprint(len(page)))
		if r.URL.Path == "/gzip" {
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("Content-Length", fmt.Sprint(len(packed)))
			w.Write(packed)
			return
		}
		w.Write(page)
	})
	var conns atomic.Int64
	plain := httptest.NewUnstartedServer(handler)
	secure := httptest.NewUnstartedServer(handler)
	secure.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	plain.Start()
	secure.StartTLS()
	fmt.Println(plain.Listener.Addr(), secure.Listener.Addr())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println(conns.Load())
	}
}

// tlsServer is the server process of a benchmark with TLS.
type tlsServer struct {
	plain, secure netip.AddrPort
	in            io.Writer
	out           *bufio.Reader
}

// conns returns the number of TLS connections that the server has accepted.
func (s *tlsServer) conns(b *testing.B) (n int64) {
	io.WriteString(s.in, "\n")
	line, _ := s.out.ReadString('\n')
	if _, err := fmt.Sscan(line, &n); err != nil {
		b.Fatal(err)
	}
	return n
}

// benchServer starts the server in a separate process and returns its address without TLS.
func benchServer(b *testing.B) netip.AddrPort {
	b.Helper()
	return startBenchServer(b).plain
}

func startBenchServer(b *testing.B) *tlsServer {
	b.Helper()
	cmd := exec.Command(os.Args[0], "-bench-server")
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
	b.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	s := &tlsServer{in: in, out: bufio.NewReader(out)}
	line, err := s.out.ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	for i, at := range []*netip.AddrPort{&s.plain, &s.secure} {
		*at = netip.MustParseAddrPort(strings.Fields(line)[i])
	}
	return s
}

// cpu returns the CPU time that this process has used.
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

// theirs fetches path with the default client of net/http into a buffer that is reused.
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

// BenchmarkDo measures one fetch over an idle connection.
func BenchmarkDo(b *testing.B) { bench(b, ours) }

// BenchmarkNetHTTP measures the same with net/http, for comparison.
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

// BenchmarkRatio runs both in turn and reports the CPU time of Do as a multiple of that of
// net/http.
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

// insecure accepts the certificate of the server.
func insecure(idle int) func(*Config) {
	return func(c *Config) {
		c.TLS, c.HTTP2 = &tls.Config{InsecureSkipVerify: true}, false
		c.MaxIdle, c.MaxSessions = idle, idle
	}
}

// BenchmarkIdleMemory reports the memory of an idle TLS connection with its session.
func BenchmarkIdleMemory(b *testing.B) {
	const hosts = 1000
	s := startBenchServer(b)
	for b.Loop() {
		used := func() uint64 {
			runtime.GC()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapInuse + m.StackInuse
		}
		f := newFetcher(b, insecure(hosts))
		before := used()
		for i := range hosts {
			res := f.Do(b.Context(), Request{Addr: s.secure.Addr(), URL: store.URL(fmt.Sprintf(
				"https://host%d.example:%d/", i, s.secure.Port()))})
			if res.Outcome != store.OutcomeOK {
				b.Fatal(res.Outcome, res.Err)
			}
			res.Release()
		}
		b.ReportMetric(float64(used()-before)/hosts, "bytes/conn")
		f.Close()
	}
}

// BenchmarkTLSRatio visits many hosts in turn over TLS, as a crawl does, and reports the CPU time
// as a multiple of that of a loop with net/http that keeps one connection to each host open.
func BenchmarkTLSRatio(b *testing.B) {
	const hosts = 400
	s := startBenchServer(b)
	f := newFetcher(b, insecure(hosts))
	bare := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, s.secure.String())
		},
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableCompression: true,
		MaxIdleConns: hosts, MaxIdleConnsPerHost: 1,
	}}
	b.Cleanup(bare.CloseIdleConnections)
	var buf bytes.Buffer
	clients := []func(u string){
		func(u string) {
			res := f.Do(b.Context(), Request{URL: store.URL(u), Addr: s.secure.Addr()})
			if len(res.Body) != benchBody {
				b.Fatal(res.Outcome, res.Err)
			}
			res.Release()
		},
		func(u string) {
			resp, err := bare.Get(u)
			if err != nil {
				b.Fatal(err)
			}
			buf.Reset()
			if _, err = buf.ReadFrom(resp.Body); err != nil || buf.Len() != benchBody {
				b.Fatal(buf.Len(), err)
			}
			resp.Body.Close()
		},
	}
	var spent [2]time.Duration
	var conns [2]int64
	for b.Loop() {
		for i, do := range clients {
			start, open := cpu(b), s.conns(b)
			for host := range hosts {
				do(fmt.Sprintf("https://host%d.example:%d/", host, s.secure.Port()))
			}
			spent[i] += cpu(b) - start
			conns[i] += s.conns(b) - open
		}
	}
	b.ReportMetric(spent[0].Seconds()/spent[1].Seconds(), "cpu-ratio")
	b.ReportMetric(float64(conns[0])/hosts, "conns/host")
}
