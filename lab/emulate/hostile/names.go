package hostile

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"time"
)

// caseOf returns the case of a host name, or nil.
func (w *Web) caseOf(host string) *Case {
	for i := range w.cases {
		for _, h := range w.cases[i].Hosts {
			if below, ok := strings.CutPrefix(h, "*"); h == host || ok &&
				strings.HasSuffix(host, below) {
				return &w.cases[i]
			}
		}
	}
	return nil
}

// Lookup replaces the DNS. It has the signature of net.Resolver.LookupNetIP without the
// network argument. Names that belong to no case do not exist.
func (w *Web) Lookup(_ context.Context, host string) ([]netip.Addr, error) {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	l := Lookup{At: time.Now(), Host: host}
	if host == Portal {
		l.Got = []netip.Addr{portalAddr}
	}
	if c := w.caseOf(host); c != nil {
		l.Case = c.Name
		nth := w.rec.asked(host)
		if c.names != nil {
			l.Got = c.names(w, host, nth)
		}
		if l.Got == nil {
			l.Got = []netip.Addr{c.addr}
		}
	}
	w.rec.lookedUp(l)
	if len(l.Got) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return l.Got, nil
}

// Names returns the address of every name without a wildcard, for a hosts file.
func (w *Web) Names() map[string]netip.Addr {
	m := map[string]netip.Addr{Portal: portalAddr}
	for i := range w.cases {
		c := &w.cases[i]
		for _, h := range c.Hosts {
			if strings.HasPrefix(h, "*") {
				continue
			}
			m[h] = c.addr
			if c.names == nil {
				continue
			}
			if got := c.names(w, h, 0); len(got) > 0 {
				m[h] = got[0]
			}
		}
	}
	return m
}
