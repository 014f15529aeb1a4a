//go:build integration

package main

import (
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
)

var (
	takeUpHosts = flag.Int("takeup-hosts", 300, "number of new hosts in TestTakeUp")
	takeUpPeers = flag.Int("takeup-peers", 0, "number of peers in TestTakeUp; 0: 1 and 3")
)

// newHosts is a web of hosts, each in a subnet of its own and with one page besides robots.txt, and
// the DNS server that knows them. The page of the host hub.test links to all others.
type newHosts struct {
	n    int
	dns  string // address of the name server
	port string

	mu      sync.Mutex
	first   map[string]time.Time // first request to each host
	pages   map[string]int       // requests for pages
	queries int
}

func serveNewHosts(t *testing.T, n int) *newHosts {
	t.Helper()
	w := &newHosts{n: n, first: map[string]time.Time{}, pages: map[string]int{}}
	names, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.dns = names.LocalAddr().String()
	server := &dns.Server{PacketConn: names, Handler: dns.HandlerFunc(w.answer)}
	served := make(chan error, 1)
	go func() { served <- server.ActivateAndServe() }()
	t.Cleanup(func() {
		names.Close()
		<-served
	})
	l, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	_, w.port, _ = net.SplitHostPort(l.Addr().String())
	srv := httptest.NewUnstartedServer(http.HandlerFunc(w.serve))
	srv.Listener.Close()
	srv.Listener = l
	srv.Start()
	t.Cleanup(srv.Close)
	return w
}

// answer answers a query: each host has one address.
func (w *newHosts) answer(out dns.ResponseWriter, query *dns.Msg) {
	w.mu.Lock()
	w.queries++
	w.mu.Unlock()
	resp, i := new(dns.Msg).SetReply(query), w.n
	name := query.Question[0].Name
	if name != "hub.test." {
		if _, err := fmt.Sscanf(name, "h%d.test.", &i); err != nil {
			resp.Rcode = dns.RcodeNameError
		}
	}
	if resp.Rcode == dns.RcodeSuccess && query.Question[0].Qtype == dns.TypeA {
		head := dns.RR_Header{Name: name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 300}
		resp.Answer = []dns.RR{&dns.A{Hdr: head, A: net.IPv4(127, byte(100+i>>8), byte(i), 1)}}
	}
	_ = out.WriteMsg(resp) // the peer may have ended
}

func (w *newHosts) serve(out http.ResponseWriter, r *http.Request) {
	host, _, _ := strings.Cut(r.Host, ":")
	w.mu.Lock()
	if _, known := w.first[host]; !known && host != "hub.test" {
		w.first[host] = time.Now()
	}
	if r.URL.Path == "/" {
		w.pages[host]++
	}
	w.mu.Unlock()
	if r.URL.Path != "/" {
		http.NotFound(out, r)
		return
	}
	out.Header().Set("Content-Type", "text/html")
	fmt.Fprintf(out, "<title>%s</title>", host)
	if host == "hub.test" {
		for i := range w.n {
			fmt.Fprintf(out, "<a href='http://h%d.test:%s/'>h</a>\n", i, w.port)
		}
	}
}

// TestTakeUp verifies that peers take up many new hosts, each with one lookup of A and AAAA per
// peer that needs one, and logs how fast.
func TestTakeUp(t *testing.T) {
	t.Parallel()
	for _, peers := range []int{1, 3} {
		if *takeUpPeers != 0 && peers != *takeUpPeers {
			continue
		}
		t.Run(fmt.Sprint(peers, " peers"), func(t *testing.T) { takeUp(t, peers, *takeUpHosts) })
	}
}

func takeUp(t *testing.T, peers, hosts int) {
	w := serveNewHosts(t, hosts)
	dir := t.TempDir()
	profile := filepath.Join(dir, "net.toml")
	rules := "name = 'takeup'\n[scope]\nmode = 'any'\n[politeness]\nmin_delay = '1ms'\n"
	if err := os.WriteFile(profile, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	var ds []*daemon
	for range peers {
		home := filepath.Join(t.TempDir(), "home")
		peerd(t, "init", "--home", home) // with the default times
		ds = append(ds, &daemon{t: t, home: home, flags: []string{"--profile", profile,
			"--listen", "/ip4/127.0.0.1/tcp/0", "--resolver", w.dns, "--min-delay", "1ms",
			"--allow-net", "127.0.0.0/8", "--log-level", "warn",
			"--check-reports", "0"}}) // the pages that are fetched twice are counted
	}
	meet(t, ds)
	peerd(t, "seed", "--home", ds[0].home, "http://hub.test:"+w.port+"/")
	eventually(t, 3*time.Minute+time.Duration(hosts)*50*time.Millisecond, "all hosts are fetched",
		func() (bool, any) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return len(w.pages) > hosts, len(w.pages)
		})
	w.mu.Lock()
	defer w.mu.Unlock()
	var from, to time.Time
	for _, at := range w.first {
		if from.IsZero() || at.Before(from) {
			from = at
		}
		if at.After(to) {
			to = at
		}
	}
	for host, n := range w.pages {
		if n != 1 {
			t.Errorf("%s was fetched %d times, want once", host, n)
		}
	}
	queries := w.queries
	const monitor = 8 // what a peer asks to learn whether its name servers answer
	if limit := (2*(hosts+1) + monitor) * peers; queries > limit {
		t.Errorf("%d DNS queries, want at most %d", queries, limit)
	}
	t.Logf("%d peers took up %d hosts in %v, %.0f per second, with %.2f DNS queries per host",
		peers, hosts, to.Sub(from).Round(time.Millisecond),
		float64(hosts)/to.Sub(from).Seconds(), float64(queries)/float64(hosts))
}
