package resolve

import (
	"errors"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"
)

const (
	// maxAliases bounds the CNAME records that are followed in one answer.
	maxAliases = 16
	// udpSize is the size of answers that a name server may send by UDP: that avoids fragments
	// (RFC 9715).
	udpSize = 1232
	// maxRecordTTL bounds the lifetime of records, before maxTTL.
	maxRecordTTL = 7 * 24 * time.Hour
)

var errAliasLoop = errors.New("too many aliases, or a loop")

// newQuery returns a query with EDNS0 (RFC 6891).
func newQuery(name string, qtype uint16) *dns.Msg {
	m := new(dns.Msg)
	m.SetQuestion(dns.Fqdn(name), qtype)
	m.SetEdns0(udpSize, false)
	return m
}

// answers reports whether resp may be the response to query.
func answers(query, resp *dns.Msg) bool {
	if resp.Id != query.Id || !resp.Response || resp.Opcode != dns.OpcodeQuery {
		return false
	}
	if len(resp.Question) == 0 { // allowed in errors
		return resp.Rcode != dns.RcodeSuccess && resp.Rcode != dns.RcodeNameError
	}
	q, r := query.Question[0], resp.Question[0]
	return len(resp.Question) == 1 && r.Qtype == q.Qtype && r.Qclass == q.Qclass &&
		strings.EqualFold(r.Name, q.Name)
}

// result is what a response says about a name. Exactly one of addrs, alias and err is set.
type result struct {
	addrs []netip.Addr
	alias string // where the aliases end, without further records
	err   *Error // NXDOMAIN, no address, or malformed
	ttl   time.Duration
}

// follow follows the aliases of name in a response without error, or with NXDOMAIN, to its
// addresses.
func follow(resp *dns.Msg, name string, qtype uint16) result {
	r := result{ttl: maxRecordTTL}
	at := dns.Fqdn(name)
	for range maxAliases {
		var alias string
		for _, rr := range resp.Answer {
			if rr == nil || !strings.EqualFold(rr.Header().Name, at) {
				continue
			}
			ttl := time.Duration(rr.Header().Ttl) * time.Second
			if rr.Header().Ttl >= 1<<31 { // RFC 2181, section 8
				ttl = 0
			}
			switch rr := rr.(type) {
			case *dns.CNAME:
				alias = rr.Target
				r.ttl = min(r.ttl, ttl)
			case *dns.A:
				if a, ok := netip.AddrFromSlice(rr.A); ok && qtype == dns.TypeA {
					r.addrs = append(r.addrs, a.Unmap())
					r.ttl = min(r.ttl, ttl)
				}
			case *dns.AAAA:
				if a, ok := netip.AddrFromSlice(rr.AAAA); ok && qtype == dns.TypeAAAA {
					r.addrs = append(r.addrs, a)
					r.ttl = min(r.ttl, ttl)
				}
			}
		}
		switch {
		case len(r.addrs) > 0:
			r.addrs = normalAddrs(r.addrs)
			return r
		case alias == "":
			return r.end(resp, name, at)
		}
		at = alias
	}
	r.err = &Error{Reason: ReasonMalformed, cause: errAliasLoop}
	return r
}

// end returns the result for a response without addresses, in which the aliases of name end at a
// name.
func (r result) end(resp *dns.Msg, name, at string) result {
	ttl, authoritative := negativeTTL(resp, at)
	switch {
	case resp.Rcode == dns.RcodeNameError:
		r.err = &Error{Reason: ReasonNXDomain, Authoritative: authoritative, ttl: ttl}
	case !strings.EqualFold(at, dns.Fqdn(name)) && !authoritative:
		if r.alias = normalHost(at); !isValidName(r.alias) {
			r.err = &Error{Reason: ReasonMalformed, cause: errors.New("invalid alias")}
		}
	default:
		r.err = &Error{Reason: ReasonNoAddress, Authoritative: authoritative, ttl: ttl}
	}
	return r
}

// negativeTTL returns how long a negative answer about name may be cached: the lower one of the
// TTL and the MINIMUM field of the SOA record (RFC 2308, section 5). Without the SOA record of a
// zone that contains the name, the answer must not be cached.
func negativeTTL(resp *dns.Msg, name string) (ttl time.Duration, found bool) {
	for _, rr := range resp.Ns {
		soa, ok := rr.(*dns.SOA)
		if ok && dns.IsSubDomain(strings.ToLower(soa.Hdr.Name), strings.ToLower(name)) {
			return time.Duration(min(soa.Hdr.Ttl, soa.Minttl, 1<<31-1)) * time.Second, true
		}
	}
	return 0, false
}
