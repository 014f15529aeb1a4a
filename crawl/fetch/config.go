package fetch

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"time"

	"peerd/crawl/deny"
	"peerd/internal/faults"
)

// Config configures a Fetcher and limits what a server may do. DefaultConfig returns usable values
// for all fields except UserAgent.
type Config struct {
	// UserAgent is sent with every request: product, version, contact URL.
	UserAgent string
	// Guard decides which addresses may be dialled; nil allows only public ones.
	Guard *Guard
	// Deny are the hosts and networks that the operator does not want to be requested; nil: none.
	Deny *deny.List
	// Lookups says how long the lookup of a host took, for Timing.DNS; 0 if there was none since
	// the last fetch of it. Nil: that is not known.
	Lookups interface {
		TakeDuration(host string) time.Duration
	}
	// Dial opens a connection to addr, an IP address with port; nil means a net.Dialer. The
	// connection must outlive ctx. Its RemoteAddr must be the address that was reached: the guard
	// checks it again.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// TLS is the base configuration of all TLS sessions (root certificates, versions); nil means
	// the defaults of crypto/tls. The server name is always that of the host.
	TLS *tls.Config
	// AcceptInvalidTLS accepts certificates that are expired, self-signed or of another host;
	// Result.TLS reports them. Without it, the outcome is OutcomeTLS.
	AcceptInvalidTLS bool
	// HTTP2 offers HTTP/2 to servers. The heads of its responses are a translation.
	HTTP2 bool
	// Proxy is the proxy of all connections, if it is not empty: a URL with the scheme http
	// (CONNECT, also for plain http) or socks5, optionally with user and password. The proxy is
	// given only IP addresses that the guard allows, never names. The guard does not apply to the
	// proxy itself; Dial gets its host and port as in the URL. Timing.Connect then includes the
	// time until the proxy has opened the connection.
	Proxy string

	ConnectTimeout time.Duration // TCP handshake
	HeadTimeout    time.Duration // from the request to the end of the response head
	TotalTimeout   time.Duration // a call of Do up to the end of the head; see also SteadyRate
	RateWindow     time.Duration // interval over which MinRate is measured
	DrainTimeout   time.Duration // reading a small body that is not wanted
	IdleTimeout    time.Duration // an idle connection is closed after this

	MaxHead int64 // bytes of a response head, including 1xx responses
	MaxBody int64 // bytes of a body, before and after decoding; longer ones are cut
	// MinRate is the minimum number of bytes of a body per second, as received, in every
	// RateWindow; 0 means no minimum. SteadyRate is the number of bytes of a body for which a call
	// of Do may take a second more than TotalTimeout. While others wait for the memory that a body
	// holds (BodyMemory), it has less time.
	MinRate, SteadyRate int64

	// MaxRaw is how many bytes of a body are kept with Request.KeepRaw if it is not wanted, by its
	// media type or else a pattern for that: image/png, image/*, */*. Of others 64 KiB are kept.
	MaxRaw map[string]int64
	// BodyMemory is the memory in bytes of all bodies together that are being received or were not
	// released, apart from 256 KiB of each; 0 means no limit. A body that does not fit waits.
	// Decoders of short bodies may need a third as much.
	BodyMemory int64
	// MaxPartial is the memory in bytes for beginnings of bodies that were cut.
	MaxPartial int64

	MaxIdle        int // idle connections in total
	MaxIdlePerHost int // idle connections per (scheme, host, port, address)
	// MaxSessions is the number of hosts of which a TLS session is kept, so that a new connection
	// needs neither certificates nor signatures (RFC 8446, section 2.2).
	MaxSessions int
}

// DefaultConfig returns a Config for a crawler of the public web. The caller must set the
// UserAgent.
func DefaultConfig() Config {
	return Config{
		ConnectTimeout: 10 * time.Second,
		HeadTimeout:    20 * time.Second,
		TotalTimeout:   60 * time.Second,
		RateWindow:     10 * time.Second,
		DrainTimeout:   2 * time.Second,
		// Servers close idle connections after 5 s (Apache, which announces it) to 75 s (nginx). If
		// the server closes a connection while a request is in transit, a fetch is lost.
		IdleTimeout:    30 * time.Second,
		MaxHead:        64 << 10,
		MaxBody:        8 << 20,
		MinRate:        512,
		SteadyRate:     16 << 10,
		BodyMemory:     64 << 20,
		MaxPartial:     8 << 20,
		MaxIdle:        256,
		MaxIdlePerHost: 2,
		MaxSessions:    256,
	}
}

// Validate returns all errors in c, joined.
func (c Config) Validate() error {
	f := faults.Of("fetch")
	f.If(strings.TrimSpace(c.UserAgent) == "", "UserAgent is empty")
	f.If(strings.ContainsFunc(c.UserAgent, func(r rune) bool { return r < ' ' || r > '~' }),
		"UserAgent is not plain ASCII: %q", c.UserAgent)
	for name, v := range map[string]int64{
		"ConnectTimeout": int64(c.ConnectTimeout), "HeadTimeout": int64(c.HeadTimeout),
		"TotalTimeout": int64(c.TotalTimeout), "DrainTimeout": int64(c.DrainTimeout),
		"IdleTimeout": int64(c.IdleTimeout), "MaxHead": c.MaxHead, "MaxBody": c.MaxBody,
		"RateWindow": int64(c.RateWindow), "SteadyRate": c.SteadyRate,
	} {
		f.If(v <= 0, "%s must be positive", name)
	}
	f.If(min(int64(c.MaxIdle), int64(c.MaxIdlePerHost), int64(c.MaxSessions), c.MinRate,
		c.BodyMemory, c.MaxPartial) < 0, "MaxIdle, MaxIdlePerHost, MaxSessions, MinRate, "+
		"BodyMemory and MaxPartial must not be negative")
	if c.Proxy != "" {
		_, err := parseProxy(c.Proxy)
		f.Add(err)
	}
	return f.Err()
}
