package resolve

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/miekg/dns"
)

const (
	// maxStray is the number of messages that do not belong to a query after which a UDP
	// exchange ends.
	maxStray = 16
	// maxIdleConns and idleTimeout bound the open connections to a server that no query uses.
	maxIdleConns = 16
	idleTimeout  = 10 * time.Second
)

var errStray = errors.New("the response does not belong to the query")

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// plainTransport sends queries by UDP from a new port each, and by TCP if the response does not
// fit.
type plainTransport struct {
	addr string
	dial dialFunc
}

func (p *plainTransport) exchange(ctx context.Context, query *dns.Msg) (*dns.Msg, error) {
	resp, err := p.over(ctx, "udp", query)
	if err == nil && resp.Truncated {
		return p.over(ctx, "tcp", query)
	}
	return resp, err
}

func (p *plainTransport) over(
	ctx context.Context, network string, query *dns.Msg,
) (*dns.Msg, error) {
	conn, err := p.dial(ctx, network, p.addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return exchange(ctx, conn, query, network == "udp")
}

func (p *plainTransport) close() {}

// exchange sends a query over a connection and reads the response. Messages that do not belong to
// the query are skipped if skip is set.
func exchange(ctx context.Context, conn net.Conn, query *dns.Msg, skip bool) (*dns.Msg, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	c := &dns.Conn{Conn: conn, UDPSize: udpSize}
	if err := c.WriteMsg(query); err != nil {
		return nil, err
	}
	for range maxStray {
		raw, err := c.ReadMsgHeader(nil)
		if err != nil && raw == nil {
			return nil, err
		}
		resp, err := parseResponse(query, raw)
		if err == nil || !skip {
			return resp, err
		}
	}
	return nil, errStray
}

// parseResponse parses the response to a query.
func parseResponse(query *dns.Msg, raw []byte) (*dns.Msg, error) {
	resp := new(dns.Msg)
	if err := resp.Unpack(raw); err != nil && !resp.Truncated {
		return nil, err
	}
	if !answers(query, resp) {
		return nil, errStray
	}
	return resp, nil
}

// tlsTransport sends queries by TLS (RFC 7858), one at a time over each connection.
type tlsTransport struct {
	addr   string
	dial   dialFunc
	config *tls.Config

	mu   sync.Mutex
	idle []idleConn // those used last at the end
}

type idleConn struct {
	net.Conn
	since time.Time
}

func newTLSTransport(addr string, cfg ClientConfig) *tlsTransport {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if cfg.TLS != nil {
		config = cfg.TLS.Clone()
	}
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(addr)
	}
	config.ClientSessionCache = tls.NewLRUClientSessionCache(4)
	return &tlsTransport{addr: addr, dial: cfg.Dial, config: config}
}

func (t *tlsTransport) exchange(ctx context.Context, query *dns.Msg) (*dns.Msg, error) {
	for {
		conn, reused, err := t.conn(ctx)
		if err != nil {
			return nil, err
		}
		resp, err := exchange(ctx, conn, query, false)
		if err == nil && ctx.Err() == nil {
			t.keep(conn)
			return resp, nil
		}
		_ = conn.Close()
		if !reused || ctx.Err() != nil { // the server may have closed an idle connection
			return resp, err
		}
	}
}

// conn returns an idle connection or a new one.
func (t *tlsTransport) conn(ctx context.Context) (conn net.Conn, reused bool, err error) {
	t.mu.Lock()
	var old []idleConn
	for len(t.idle) > 0 && time.Since(t.idle[0].since) > idleTimeout {
		old, t.idle = append(old, t.idle[0]), t.idle[1:]
	}
	if n := len(t.idle); n > 0 {
		conn, t.idle = t.idle[n-1].Conn, t.idle[:n-1]
	}
	t.mu.Unlock()
	for _, c := range old {
		_ = c.Close()
	}
	if conn != nil {
		return conn, true, nil
	}
	raw, err := t.dial(ctx, "tcp", t.addr)
	if err != nil {
		return nil, false, err
	}
	c := tls.Client(raw, t.config)
	if err := c.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, false, fmt.Errorf("TLS handshake: %w", err)
	}
	return c, false, nil
}

func (t *tlsTransport) keep(conn net.Conn) {
	t.mu.Lock()
	if len(t.idle) < maxIdleConns {
		t.idle = append(t.idle, idleConn{conn, time.Now()})
		conn = nil
	}
	t.mu.Unlock()
	if conn != nil {
		_ = conn.Close()
	}
}

func (t *tlsTransport) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.idle {
		_ = c.Close()
	}
	t.idle = nil
}

// httpsTransport sends queries by HTTPS (RFC 8484).
type httpsTransport struct {
	url    string
	client *http.Client
}

func newHTTPSTransport(url string, cfg ClientConfig) *httpsTransport {
	t := &http.Transport{
		DialContext: cfg.Dial, TLSClientConfig: cfg.TLS, ForceAttemptHTTP2: true,
		MaxIdleConnsPerHost: maxIdleConns, IdleConnTimeout: idleTimeout,
		TLSHandshakeTimeout: roundTimeout, MaxResponseHeaderBytes: 16 << 10,
	}
	noRedirect := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &httpsTransport{url, &http.Client{Transport: t, CheckRedirect: noRedirect}}
}

func (h *httpsTransport) exchange(ctx context.Context, query *dns.Msg) (*dns.Msg, error) {
	query.Id = 0 // RFC 8484, section 4.1
	raw, err := query.Pack()
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/dns-message")
	req.Header.Set("Accept", "application/dns-message")
	resp, err := h.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("HTTP status %d", resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, dns.MaxMsgSize))
	if err != nil {
		return nil, err
	}
	return parseResponse(query, body)
}

func (h *httpsTransport) close() { h.client.CloseIdleConnections() }
