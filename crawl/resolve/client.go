package resolve

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

const (
	// lookupTimeout bounds the time of a lookup.
	lookupTimeout = 10 * time.Second
	// rounds is how many times all name servers are asked one query, if none answers. The first
	// round allows each of them roundTimeout, the next twice that.
	rounds       = 2
	roundTimeout = 2 * time.Second
	// maxQueries bounds the queries of one lookup for one type of address: a name server that
	// does not follow an alias to its end is asked again.
	maxQueries = 8
	// secondFamily is how long a lookup that has addresses of one family waits for the other.
	secondFamily = time.Second
	// partialTTL is the lifetime of an answer in which the other family is missing because of a
	// failure.
	partialTTL = time.Minute
)

// ClientConfig configures a Client.
type ClientConfig struct {
	// Servers are asked in this order; the next one if one fails. Empty means those of the
	// system's resolv.conf, which is read again when it changes.
	Servers []Server
	// Rate is the number of queries per second to one server; 0 means DefaultRate.
	Rate int
	// Dial connects to name servers; nil means net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// TLS is the base of the configuration for tls and https; nil means the default.
	TLS *tls.Config
	// Hosts and ResolvConf replace the paths of the system's files.
	Hosts, ResolvConf string
}

// DefaultRate is used if ClientConfig.Rate is zero.
const DefaultRate = 500

// Client is a stub resolver (RFC 1034, section 5.3.1): it asks name servers that resolve names
// completely. Its methods are safe for concurrent use.
type Client struct {
	cfg    ClientConfig
	hosts  *watched[hostTable]
	conf   *watched[resolvConf] // nil if the configuration names servers
	limits *limits

	mu        sync.Mutex
	upstreams map[Server]*upstream
}

// NewClient returns a Client. It starts nothing.
func NewClient(cfg ClientConfig) *Client {
	if cfg.Rate <= 0 {
		cfg.Rate = DefaultRate
	}
	if cfg.Dial == nil {
		cfg.Dial = (&net.Dialer{}).DialContext
	}
	cfg.Hosts, cfg.ResolvConf = cmp.Or(cfg.Hosts, hostsPath), cmp.Or(cfg.ResolvConf, resolvConfPath)
	c := &Client{
		cfg: cfg, hosts: watch[hostTable](cfg.Hosts), limits: newLimits(),
		upstreams: map[Server]*upstream{},
	}
	if len(cfg.Servers) == 0 {
		c.conf = watch[resolvConf](cfg.ResolvConf)
	}
	return c
}

// Close closes idle connections to name servers. No lookup may be running.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, u := range c.upstreams {
		u.transport.close()
	}
	clear(c.upstreams)
}

// Lookup is the Lookup of a Client. The hosts file has precedence. A name with a single label that
// does not exist is looked up in the search domains of resolv.conf, too; other names are not.
func (c *Client) Lookup(ctx context.Context, host string) (Answer, error) {
	if addrs := c.hosts.get()[host]; len(addrs) > 0 {
		return Answer{Addrs: addrs, TTL: hostsTTL}, nil
	}
	a, err := c.lookupName(ctx, host)
	if err == nil || c.conf == nil || strings.Contains(host, ".") {
		return a, err
	}
	for _, domain := range c.conf.get().search {
		if !errors.Is(err, ErrNotFound) {
			break
		}
		if name := host + "." + domain; isValidName(name) {
			a, err = c.lookupName(ctx, name)
		}
	}
	return a, err
}

// servers returns at least one server.
func (c *Client) servers() []Server {
	if c.conf != nil {
		return c.conf.get().servers
	}
	return c.cfg.Servers
}

// upstreamOf returns the upstream of a server. Those that resolv.conf names no more are kept,
// because they may come back.
func (c *Client) upstreamOf(s Server) *upstream {
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.upstreams[s]
	if u == nil {
		u = newUpstream(s, c.cfg)
		c.upstreams[s] = u
	}
	return u
}

// family is the result of the queries for one type of address.
type family struct {
	addrs []netip.Addr
	ttl   time.Duration
	err   *Error
}

// lookupName looks up the A and AAAA records of a name at the same time.
func (c *Client) lookupName(ctx context.Context, name string) (Answer, error) {
	if err := c.limits.wait(ctx, name); err != nil {
		return Answer{}, err
	}
	if err := take(ctx, c.order(c.servers())[0].rate); err != nil {
		return Answer{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	results := make(chan family, perLookup)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for _, qtype := range [perLookup]uint16{dns.TypeA, dns.TypeAAAA} {
		wg.Go(func() { results <- c.lookupType(ctx, name, qtype) })
	}
	first := <-results
	if len(first.addrs) == 0 {
		return combine(name, first, <-results)
	}
	t := time.NewTimer(secondFamily)
	defer t.Stop()
	select {
	case second := <-results:
		return combine(name, first, second)
	case <-t.C:
		return combine(name, first, family{err: &Error{Reason: ReasonTimeout}})
	}
}

// combine returns the answer of the two families of addresses.
func combine(name string, a, b family) (Answer, error) {
	if len(a.addrs) == 0 {
		a, b = b, a
	}
	if len(a.addrs) > 0 {
		ttl := a.ttl
		switch {
		case len(b.addrs) > 0:
			ttl = min(ttl, b.ttl)
		case !errors.Is(b.err, ErrNotFound):
			ttl = min(ttl, partialTTL)
		}
		return Answer{Addrs: append(a.addrs, b.addrs...), TTL: max(ttl, time.Second)}, nil
	}
	e := *worse(a.err, b.err)
	e.Host = name
	return Answer{}, &e
}

// worse returns the error that decides about a name without addresses: NXDOMAIN is about all types
// of records (RFC 8020), while a missing address of one family says nothing about the other.
func worse(a, b *Error) *Error {
	rank := func(e *Error) int {
		switch {
		case e.Reason == ReasonNXDomain:
			return 2
		case !errors.Is(e, ErrNotFound):
			return 1
		}
		return 0
	}
	if rank(b) > rank(a) || rank(b) == rank(a) && b.ttl < a.ttl {
		return b
	}
	return a
}

// lookupType queries one type of address and follows aliases.
func (c *Client) lookupType(ctx context.Context, name string, qtype uint16) family {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	ttl := maxRecordTTL
	for i := range maxQueries {
		resp, err := c.ask(ctx, name, qtype, i == 0)
		if err != nil {
			return family{err: err}
		}
		r := follow(resp, name, qtype)
		ttl = min(ttl, r.ttl)
		switch {
		case r.err != nil:
			if r.err.ttl > 0 {
				r.err.ttl = min(r.err.ttl, ttl)
			}
			return family{err: r.err}
		case len(r.addrs) > 0:
			return family{addrs: r.addrs, ttl: ttl}
		}
		name = r.alias
	}
	return family{err: &Error{Reason: ReasonMalformed, cause: errors.New("too many aliases")}}
}

// ask sends one query to one server after another until one answers. The token for the first is
// taken already if paid is set.
func (c *Client) ask(
	ctx context.Context, name string, qtype uint16, paid bool,
) (*dns.Msg, *Error) {
	servers := c.servers()
	last := &Error{Reason: ReasonTimeout}
	failed := map[Server]bool{} // those that answered with an error
	for round := range rounds {
		for _, u := range c.order(servers) {
			if failed[u.server] {
				continue
			}
			if !paid && u.rate.Wait(ctx) != nil {
				return nil, last
			}
			paid = false
			resp, err := u.query(ctx, name, qtype, roundTimeout<<round)
			if err == nil {
				return resp, nil
			}
			if ctx.Err() != nil {
				err.Reason = ReasonTimeout
				return nil, err
			}
			failed[u.server] = err.Reason != ReasonTimeout
			last = err
		}
	}
	return nil, last
}

// order returns the upstreams of servers, those that failed recently last.
func (c *Client) order(servers []Server) []*upstream {
	var up, down []*upstream
	for _, s := range servers {
		if u := c.upstreamOf(s); u.isFailing(time.Now()) {
			down = append(down, u)
		} else {
			up = append(up, u)
		}
	}
	return append(up, down...)
}
