package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// Config limits what a server may cost us. DefaultConfig has usable values for
// all but UserAgent.
type Config struct {
	// UserAgent is sent with every request: product, version, contact URL.
	UserAgent string
	// Guard decides which addresses may be dialled; nil allows public ones only.
	Guard *Guard
	// Dial opens a connection to addr, an IP address with port; nil means a
	// plain net.Dialer. The connection must outlive ctx, and its RemoteAddr
	// must be the address reached: the guard checks it again.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// TLS is the base of every TLS session (root certificates, versions); nil
	// means the defaults of crypto/tls. The server's name is always the host's.
	TLS *tls.Config
	// AcceptInvalidTLS takes servers whose certificate is expired, self-signed
	// or another host's; Result.TLS tells. Otherwise they are OutcomeTLS.
	AcceptInvalidTLS bool
	// HTTP1Only never speaks HTTP/2, for archives that want no translation.
	HTTP1Only bool
	// Proxy, if not empty, is what every connection goes through: a URL with
	// scheme http (CONNECT, for plain http too) or socks5, and perhaps user
	// and password. It is asked for IP addresses that the guard allows, never
	// for names, and is itself exempt from the guard. Dial gets its host and
	// port as they stand here. Timing.Connect is then until the proxy has
	// connected us.
	Proxy string

	ConnectTimeout time.Duration // TCP handshake
	TLSTimeout     time.Duration // TLS handshake
	HeadTimeout    time.Duration // request written to end of the answer's head
	TotalTimeout   time.Duration // the whole of a Do
	RateWindow     time.Duration // what MinRate is measured over
	DrainTimeout   time.Duration // reading away a small body that is not taken
	IdleTimeout    time.Duration // an idle connection is closed after this

	MaxHead        int64 // bytes of an answer's head, 1xx answers included
	MaxBody        int64 // bytes of a body, before and after decoding; longer ones are cut
	MaxRatio       int64 // decoded bytes per byte on the wire, beyond the first MiB
	MinRate        int64 // bytes of a body per second on the wire, in every RateWindow; 0 = no demand
	MaxIdle        int   // idle connections in all
	MaxIdlePerHost int   // idle connections per (scheme, host, port, address)
}

// DefaultConfig returns a Config that suits a crawler on the public web; the
// caller adds the UserAgent.
func DefaultConfig() Config {
	return Config{
		ConnectTimeout: 10 * time.Second,
		TLSTimeout:     10 * time.Second,
		HeadTimeout:    20 * time.Second,
		TotalTimeout:   60 * time.Second,
		RateWindow:     10 * time.Second,
		DrainTimeout:   2 * time.Second,
		// Servers keep idle connections for 5 s (Apache, which announces it)
		// to 75 s (nginx). A close that crosses a request costs a fetch.
		IdleTimeout:    30 * time.Second,
		MaxHead:        64 << 10,
		MaxBody:        8 << 20,
		MaxRatio:       200,
		MinRate:        512,
		MaxIdle:        256,
		MaxIdlePerHost: 2,
	}
}

// Validate reports everything that is wrong with c, in one error.
func (c Config) Validate() error {
	var errs []error
	if strings.TrimSpace(c.UserAgent) == "" {
		errs = append(errs, errors.New("fetch: UserAgent is empty"))
	}
	if strings.ContainsFunc(c.UserAgent, func(r rune) bool { return r < ' ' || r > '~' }) {
		errs = append(errs, fmt.Errorf("fetch: UserAgent is not plain ASCII: %q", c.UserAgent))
	}
	for _, f := range []struct {
		name     string
		positive bool
	}{
		{"ConnectTimeout", c.ConnectTimeout > 0}, {"TLSTimeout", c.TLSTimeout > 0},
		{"HeadTimeout", c.HeadTimeout > 0}, {"TotalTimeout", c.TotalTimeout > 0},
		{"DrainTimeout", c.DrainTimeout > 0}, {"IdleTimeout", c.IdleTimeout > 0},
		{"MaxHead", c.MaxHead > 0}, {"MaxBody", c.MaxBody > 0}, {"MaxRatio", c.MaxRatio > 0},
		{"RateWindow", c.RateWindow > 0 || c.MinRate == 0},
	} {
		if !f.positive {
			errs = append(errs, fmt.Errorf("fetch: %s must be positive", f.name))
		}
	}
	if c.MaxIdle < 0 || c.MaxIdlePerHost < 0 || c.MinRate < 0 {
		errs = append(errs, errors.New("fetch: MaxIdle, MaxIdlePerHost and MinRate must not be negative"))
	}
	if c.Proxy != "" {
		if _, err := parseProxy(c.Proxy); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
