package faulty

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// NameFault is what a name server does instead of answering.
type NameFault int

// The faults of a name server.
const (
	NamesWork    NameFault = iota
	NamesFail              // SERVFAIL
	NamesSilent            // no answer at all
	NamesUnknown           // NXDOMAIN
)

// Query is one DNS question as the server saw it.
type Query struct {
	At   time.Time `json:"at"`
	Name string    `json:"name"` // without the last dot, in lower case
	Type string    `json:"type"`
}

// Names is an authoritative DNS server. It is safe for concurrent use.
type Names struct {
	ttl uint32

	mu      sync.Mutex
	addrs   map[string][]netip.Addr
	others  func(host string) []netip.Addr
	fault   NameFault
	queries []Query
}

// NewNames returns a server without names. Clients may keep its answers for ttl, those that a
// name does not exist for at most five seconds.
func NewNames(ttl time.Duration) *Names {
	return &Names{ttl: uint32(ttl / time.Second), addrs: map[string][]netip.Addr{}}
}

// Set sets the addresses of a name, in the order in which they are sent.
func (n *Names) Set(host string, addrs ...netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addrs[host] = slices.Clone(addrs)
}

// SetOthers sets what returns the addresses of names that were not set, if they exist.
func (n *Names) SetOthers(lookup func(host string) []netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.others = lookup
}

// Break sets the fault of all names from now on.
func (n *Names) Break(f NameFault) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fault = f
}

// Queries returns all questions so far.
func (n *Names) Queries() []Query {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.queries)
}

// Serve answers on UDP and TCP until ctx ends, and returns nil then.
func (n *Names) Serve(ctx context.Context, udp net.PacketConn, tcp net.Listener) error {
	servers := []*dns.Server{{PacketConn: udp, Handler: n}, {Listener: tcp, Handler: n}}
	failed := make(chan error, len(servers))
	for _, s := range servers {
		go func() { failed <- s.ActivateAndServe() }()
	}
	var err error
	running := len(servers)
	select {
	case <-ctx.Done():
	case err = <-failed:
		running--
	}
	udp.Close()
	tcp.Close()
	for range running {
		<-failed
	}
	if ctx.Err() != nil {
		return nil //nolint:nilerr // ctx tells the servers to end
	}
	return err
}

// ServeDNS implements dns.Handler.
func (n *Names) ServeDNS(rw dns.ResponseWriter, q *dns.Msg) {
	if len(q.Question) != 1 {
		return
	}
	ask := q.Question[0]
	name := strings.ToLower(strings.TrimSuffix(ask.Name, "."))
	n.mu.Lock()
	n.queries = append(n.queries, Query{time.Now(), name, dns.TypeToString[ask.Qtype]})
	fault := n.fault
	addrs, known := n.addrs[name]
	others := n.others
	n.mu.Unlock()
	if !known && others != nil {
		addrs = others(name)
		known = len(addrs) > 0
	}
	a := new(dns.Msg)
	a.SetReply(q)
	a.Authoritative, a.RecursionAvailable = true, true
	switch {
	case fault == NamesSilent:
		return
	case fault == NamesFail:
		a.Rcode = dns.RcodeServerFailure
	case fault == NamesUnknown || !known:
		a.Rcode = dns.RcodeNameError
	}
	head := dns.RR_Header{Name: ask.Name, Rrtype: ask.Qtype, Class: dns.ClassINET, Ttl: n.ttl}
	for _, addr := range addrs {
		switch {
		case a.Rcode != dns.RcodeSuccess:
		case ask.Qtype == dns.TypeA && addr.Is4():
			a.Answer = append(a.Answer, &dns.A{Hdr: head, A: addr.AsSlice()})
		case ask.Qtype == dns.TypeAAAA && addr.Is6():
			a.Answer = append(a.Answer, &dns.AAAA{Hdr: head, AAAA: addr.AsSlice()})
		}
	}
	if len(a.Answer) == 0 && a.Rcode != dns.RcodeServerFailure {
		a.Ns = []dns.RR{&dns.SOA{
			Hdr: dns.RR_Header{Name: "test.", Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: 5},
			Ns:  "ns.test.", Mbox: "hostmaster.test.", Serial: 1, Refresh: 60, Retry: 60,
			Expire: 600, Minttl: 5,
		}}
	}
	_ = rw.WriteMsg(a) // the client asks again
}
