package resolve

import (
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"
)

// dnsReply is the response to a query.
type dnsReply struct {
	Addrs []netip.Addr // those of the queried family are returned
	Alias string       // target of a CNAME record
	TTL   uint32       // of the records, in seconds
	Rcode int          // such as dns.RcodeNameError
	// SOA adds the SOA record of the zone, with MINIMUM and TTL in seconds, to a response without
	// addresses; 0: none.
	SOA uint32
	// Truncate truncates the response to a query by UDP. Drop drops the query.
	Truncate, Drop bool
}

// A dnsHandler returns the reply to a query for a name, in lower case and without a trailing dot.
// Network is "udp" or "tcp". It is called concurrently.
type dnsHandler func(network, name string, qtype uint16) dnsReply

// dnsServer is a DNS server on a port of 127.0.0.1, by UDP and TCP.
type dnsServer struct {
	Addr string // IP:PORT

	mu      sync.Mutex
	queries map[string]int // by name
	total   int
}

// serveDNS runs a server until the test ends.
func serveDNS(tb testing.TB, handle dnsHandler) *dnsServer {
	tb.Helper()
	s := &dnsServer{queries: map[string]int{}}
	var udp net.PacketConn
	var tcp net.Listener
	var err error
	for range 20 { // the port of one may be in use for the other
		if tcp, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			tb.Fatal(err)
		}
		if udp, err = net.ListenPacket("udp", tcp.Addr().String()); err == nil {
			break
		}
		_ = tcp.Close()
	}
	if err != nil {
		tb.Fatal(err)
	}
	s.Addr = tcp.Addr().String()
	mux := dns.HandlerFunc(func(w dns.ResponseWriter, m *dns.Msg) { s.answer(w, m, handle) })
	var wg sync.WaitGroup
	servers := []*dns.Server{{PacketConn: udp, Handler: mux}, {Listener: tcp, Handler: mux}}
	for _, server := range servers {
		started := make(chan struct{})
		server.NotifyStartedFunc = func() { close(started) }
		wg.Go(func() {
			if err := server.ActivateAndServe(); err != nil {
				tb.Errorf("serve DNS: %v", err)
			}
		})
		<-started
	}
	tb.Cleanup(func() {
		for _, server := range servers {
			_ = server.Shutdown()
		}
		wg.Wait()
	})
	return s
}

// queriesOf returns the number of queries for a name; for "" of all.
func (s *dnsServer) queriesOf(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if name == "" {
		return s.total
	}
	return s.queries[name]
}

func (s *dnsServer) answer(w dns.ResponseWriter, m *dns.Msg, handle dnsHandler) {
	network := w.LocalAddr().Network()
	q := m.Question[0]
	name := strings.ToLower(strings.TrimSuffix(q.Name, "."))
	s.mu.Lock()
	s.queries[name]++
	s.total++
	s.mu.Unlock()
	r := handle(network, name, q.Qtype)
	if r.Drop {
		return
	}
	_ = w.WriteMsg(r.message(m, network)) // the client may have gone
}

// message returns r as the response to a query by a network.
func (r dnsReply) message(query *dns.Msg, network string) *dns.Msg {
	resp := new(dns.Msg).SetReply(query)
	resp.RecursionAvailable = true
	resp.Rcode = r.Rcode
	if r.Truncate && network == "udp" {
		resp.Truncated = true
		return resp
	}
	q := query.Question[0]
	head := func(name string, rtype uint16) dns.RR_Header {
		return dns.RR_Header{Name: name, Rrtype: rtype, Class: dns.ClassINET, Ttl: r.TTL}
	}
	owner := q.Name
	if r.Alias != "" {
		owner = dns.Fqdn(r.Alias)
		resp.Answer = append(resp.Answer,
			&dns.CNAME{Hdr: head(q.Name, dns.TypeCNAME), Target: owner})
	}
	for _, a := range r.Addrs {
		switch {
		case q.Qtype == dns.TypeA && a.Is4():
			resp.Answer = append(resp.Answer, &dns.A{Hdr: head(owner, q.Qtype), A: a.AsSlice()})
		case q.Qtype == dns.TypeAAAA && a.Is6():
			resp.Answer = append(resp.Answer,
				&dns.AAAA{Hdr: head(owner, q.Qtype), AAAA: a.AsSlice()})
		}
	}
	if r.SOA > 0 && len(resp.Answer) == 0 {
		soa := &dns.SOA{Hdr: head(".", dns.TypeSOA), Ns: "ns.", Mbox: "mail.", Minttl: r.SOA}
		soa.Hdr.Ttl = r.SOA
		resp.Ns = append(resp.Ns, soa)
	}
	return resp
}
