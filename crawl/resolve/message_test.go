package resolve

import (
	"testing"
	"time"

	"github.com/miekg/dns"
)

// A message is the response to a query only if all of it says so: that is what protects against
// those who cannot see the query.
func TestAnswers(t *testing.T) {
	query := newQuery("a.example", dns.TypeA)
	for name, c := range map[string]struct {
		spoil func(*dns.Msg)
		want  bool
	}{
		"response":          {func(*dns.Msg) {}, true},
		"other letter case": {func(m *dns.Msg) { m.Question[0].Name = "A.Example." }, true},
		"another ID":        {func(m *dns.Msg) { m.Id++ }, false},
		"a query":           {func(m *dns.Msg) { m.Response = false }, false},
		"another operation": {func(m *dns.Msg) { m.Opcode = dns.OpcodeNotify }, false},
		"another name":      {func(m *dns.Msg) { m.Question[0].Name = "b.example." }, false},
		"another type":      {func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeAAAA }, false},
		"another class":     {func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS }, false},
		"two questions": {func(m *dns.Msg) {
			m.Question = append(m.Question, m.Question[0])
		}, false},
		"no question": {func(m *dns.Msg) { m.Question = nil }, false},
		"error, no question": {func(m *dns.Msg) {
			m.Question, m.Rcode = nil, dns.RcodeRefused
		}, true},
	} {
		resp := new(dns.Msg).SetReply(query)
		c.spoil(resp)
		if got := answers(query, resp); got != c.want {
			t.Errorf("%s: answers() = %v, want %v", name, got, c.want)
		}
	}
}

// TestNegativeTTL is about RFC 2308, sections 3 and 5.
func TestNegativeTTL(t *testing.T) {
	for _, c := range []struct {
		zone         string
		ttl, minimum uint32
		want         time.Duration
		found        bool
	}{
		{"example.", 900, 60, time.Minute, true},
		{"example.", 60, 900, time.Minute, true},
		{"Example.", 60, 60, time.Minute, true},
		{".", 60, 60, time.Minute, true},
		{"b.example.", 60, 60, 0, false}, // another zone
	} {
		resp := &dns.Msg{Ns: []dns.RR{&dns.SOA{Hdr: dns.RR_Header{Name: c.zone,
			Rrtype: dns.TypeSOA, Ttl: c.ttl}, Minttl: c.minimum}}}
		if got, found := negativeTTL(resp, "a.example."); got != c.want || found != c.found {
			t.Errorf("%+v: %v, %v", c, got, found)
		}
	}
}
