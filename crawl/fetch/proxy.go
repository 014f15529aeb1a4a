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

// ErrProxy says that the proxy could not be reached, or did not connect us.
var ErrProxy = errors.New("proxy does not connect")

// maxProxyHead bounds a proxy's answer to CONNECT.
const maxProxyHead = 16 << 10

type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// parseProxy reads Config.Proxy. Its errors do not tell the password.
func parseProxy(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		return nil, errors.New("fetch: Proxy is no URL")
	}
	switch u.Scheme {
	case "http", "socks5", "socks5h":
	default:
		return nil, fmt.Errorf("fetch: Proxy must begin with http:// or socks5://, not %q", u.Scheme)
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

// through returns what dials by way of the proxy p, which direct reaches. The
// proxy is told an IP address and never a name, so that it cannot be led
// anywhere that the guard has not seen.
func through(p *url.URL, direct dialFunc) (dialFunc, error) {
	if p.Scheme == "http" {
		return func(ctx context.Context, network, addr string) (net.Conn, error) {
			return tunnel(ctx, p, direct, network, addr)
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

// contextDialer makes a dialFunc what golang.org/x/net/proxy takes.
type contextDialer dialFunc

func (d contextDialer) Dial(network, addr string) (net.Conn, error) {
	return d(context.Background(), network, addr)
}

func (d contextDialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	return d(ctx, network, addr)
}

// tunnel asks an HTTP proxy for a connection to addr (RFC 9110, section 9.3.6).
func tunnel(ctx context.Context, p *url.URL, direct dialFunc, network, addr string) (net.Conn, error) {
	c, err := direct(ctx, network, p.Host)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProxy, err)
	}
	giveUp := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	err = askTunnel(c, p.User, addr)
	if !giveUp() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("%w: %w", ErrProxy, err)
	}
	return c, nil
}

// askTunnel sends CONNECT over c and reads the answer, and not a byte more.
func askTunnel(c net.Conn, user *url.Userinfo, addr string) error {
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
	resp, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return err
	}
	// What a 2xx to a CONNECT is followed by is the tunnel (RFC 9112, 6.3).
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	if r.Buffered() > 0 {
		return errors.New("it speaks before we do")
	}
	return nil
}
