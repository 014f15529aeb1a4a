package fetch

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/net/proxy"
)

// ErrProxy means that the proxy could not be reached, or did not open a connection.
var ErrProxy = errors.New("proxy did not open a connection")

// maxProxyHead is the maximum size of a response of a proxy to CONNECT.
const maxProxyHead = 16 << 10

type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// parseProxy parses Config.Proxy. Its errors do not contain the password.
func parseProxy(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		return nil, errors.New("fetch: Proxy is not a URL")
	}
	switch u.Scheme {
	case "http", "socks5", "socks5h":
	default:
		return nil, fmt.Errorf("fetch: Proxy must begin with http:// or socks5://, not %q",
			u.Scheme)
	}
	if u.Hostname() == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("fetch: Proxy is not scheme://[user:password@]host[:port]")
	}
	if u.Port() == "" {
		port := map[string]string{"http": "8080", "socks5": "1080", "socks5h": "1080"}[u.Scheme]
		u.Host = net.JoinHostPort(u.Hostname(), port)
	}
	return u, nil
}

// proxyDialer returns a function that dials through the proxy p, which is reached with direct. The
// proxy is given an IP address, never a name, so that it connects only to addresses that the guard
// has checked.
func proxyDialer(p *url.URL, direct dialFunc) (dialFunc, error) {
	if p.Scheme == "http" {
		return func(ctx context.Context, network, addr string) (net.Conn, error) {
			return dialTunnel(ctx, p, direct, network, addr)
		}, nil
	}
	var auth *proxy.Auth
	if p.User != nil {
		password, _ := p.User.Password()
		auth = &proxy.Auth{User: p.User.Username(), Password: password}
	}
	d, err := proxy.SOCKS5("tcp", p.Host, auth, contextDialer(direct))
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := d.(proxy.ContextDialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrProxy, err)
		}
		return c, nil
	}, nil
}

// contextDialer adapts a dialFunc to golang.org/x/net/proxy.
type contextDialer dialFunc

func (d contextDialer) Dial(network, addr string) (net.Conn, error) {
	return d(context.Background(), network, addr)
}

func (d contextDialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	return d(ctx, network, addr)
}

// dialTunnel requests a connection to addr from an HTTP proxy (RFC 9110, section 9.3.6).
func dialTunnel(
	ctx context.Context, p *url.URL, direct dialFunc, network, addr string,
) (net.Conn, error) {
	c, err := direct(ctx, network, p.Host)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProxy, err)
	}
	giveUp := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	err = requestTunnel(c, p.User, addr)
	if !giveUp() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("%w: %w", ErrProxy, err)
	}
	return c, nil
}

// requestTunnel sends CONNECT over c and reads the response, but nothing after it.
func requestTunnel(c net.Conn, user *url.Userinfo, addr string) error {
	head := "CONNECT " + addr + " HTTP/1.1\r\nHost: " + addr + "\r\n"
	if user != nil {
		password, _ := user.Password()
		secret := base64.StdEncoding.EncodeToString([]byte(user.Username() + ":" + password))
		head += "Proxy-Authorization: Basic " + secret + "\r\n"
	}
	if _, err := io.WriteString(c, head+"\r\n"); err != nil {
		return err
	}
	r := bufio.NewReader(io.LimitReader(c, maxProxyHead))
	//nolint:bodyclose // the body is the tunnel
	resp, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return err
	}
	// After a 2xx response to CONNECT, all data belongs to the tunnel (RFC 9112, section 6.3).
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	if r.Buffered() > 0 {
		return errors.New("unexpected data after the response to CONNECT")
	}
	return nil
}
