package sitepage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"peerd/crawl/ping"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type fake struct {
	mu      sync.Mutex
	stopped []netip.Addr
	read    []string
	pinged  []ping.Notice
}

func (f *fake) Ping(_ context.Context, notices []ping.Notice) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch notices[0].Page.Host() {
	case "none.example":
		return fmt.Errorf("%w: not crawled", ErrRefused)
	case "down.example":
		return errors.New("disk of /secret is full")
	}
	f.pinged = append(f.pinged, notices...)
	return nil
}

func (*fake) About() About {
	return About{Peer: "12D3KooWself", Network: "gardens", UserAgent: "peerd/1", MinDelay: 1e9}
}

func (*fake) Site(_ context.Context, host string) (Site, error) {
	if host == "none.example" {
		return Site{}, fmt.Errorf("%w: no such host <script>", ErrRefused)
	}
	return Site{Host: host, Subnet: "192.0.2.0/24", Owner: "12D3KooWother",
		Addrs: []string{"/ip4/198.51.100.9/tcp/4101"}, OptedOutUntil: time.Unix(0, 0)}, nil
}

func (f *fake) OptOut(_ context.Context, origin string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.read = append(f.read, origin); origin == "https://down.example" {
		return false, errors.New("disk of /secret is full")
	}
	return origin == "https://a.example", nil
}

func (f *fake) StopAddr(a netip.Addr) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = append(f.stopped, a)
	return nil
}

// start runs a page and returns its URL without the slash.
func start(t *testing.T, f *fake) string {
	t.Helper()
	s, err := Listen("127.0.0.1:0", f, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return strings.TrimSuffix(s.URL(), "/")
}

// ask sends a request; form is nil for GET.
func ask(t *testing.T, to string, form url.Values, header ...string) (status int, body string) {
	t.Helper()
	method, text := http.MethodGet, ""
	if form != nil {
		method, text = http.MethodPost, form.Encode()
	}
	req, err := http.NewRequestWithContext(t.Context(), method, to, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestPage(t *testing.T) {
	f := new(fake)
	base := start(t, f)
	site := func(s string) url.Values { return url.Values{"site": {s}} }
	for _, c := range []struct {
		path   string
		form   url.Values
		status int
		want   string
	}{
		{"/", nil, 200, "/.well-known/peerd-optout"},
		{"/", nil, 200, "gardens"},
		{"/site?site=a.example", nil, 200, "12D3KooWother"},
		{"/site?site=a.example", nil, 200, "obeyed here until 1970-01-01"},
		{"/site?site=none.example", nil, 400, "no such host &lt;script&gt;"},
		{"/site?site=%3Cscript%3E", nil, 400, "not the URL of a web site"},
		{"/opt-out", site("a.example"), 200, "the site opts out"},
		{"/opt-out", site("http://b.example:8080/x"), 200, "does not opt out"},
		{"/opt-out", site("down.example"), 503, "did not answer"},
		{"/opt-out", site(""), 400, "not the URL of a web site"},
		{"/opt-out", site(strings.Repeat("a", maxForm)), 400, "not the URL of a web site"},
		{"/opt-out", nil, 405, ""}, {"/none", nil, 404, ""}, {"/stop", nil, 405, ""},
		{"/stop", url.Values{}, 200, "127.0.0.1"},
	} {
		status, body := ask(t, base+c.path, c.form)
		if status != c.status || !strings.Contains(body, c.want) ||
			strings.Contains(body, "<script") || strings.Contains(body, "secret") {
			t.Errorf("%s %v: %d, want %d with %q:\n%s", c.path, c.form, status, c.status, c.want,
				body)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.read) != 3 || f.read[1] != "http://b.example:8080" {
		t.Errorf("read the files of %v", f.read)
	}
	if len(f.stopped) != 1 || f.stopped[0] != netip.MustParseAddr("127.0.0.1") {
		t.Errorf("stopped %v", f.stopped)
	}
}

// A page of another site cannot use the address of its visitor.
func TestForeignForm(t *testing.T) {
	f := new(fake)
	base := start(t, f)
	status, _ := ask(t, base+"/stop", url.Values{}, "Origin", "http://evil.example",
		"X-Forwarded-For", "192.0.2.1")
	if status != http.StatusForbidden || len(f.stopped) != 0 {
		t.Errorf("status %d, stopped %v, want 403 and none", status, f.stopped)
	}
}

// Visitors cannot have more files read than the limit.
func TestReadsAreLimited(t *testing.T) {
	f := new(fake)
	base := start(t, f)
	for range 3 * readBurst {
		ask(t, base+"/opt-out", url.Values{"site": {"a.example"}})
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.read); n < readBurst || n > 2*readBurst {
		t.Errorf("%d files read, want about %d", n, readBurst)
	}
}

// Connections that do nothing are bounded.
func TestConnectionsAreLimited(t *testing.T) {
	base := start(t, new(fake))
	addr := strings.TrimPrefix(base, "http://")
	refused := 0
	for range 10 * maxConns {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
		if _, err := c.Read(make([]byte, 1)); errors.Is(err, io.EOF) {
			refused++
			if refused == 4 {
				return
			}
		}
	}
	t.Error("no connection was refused")
}

// Pings of one page and of several are passed on, with the status of IndexNow.
func TestPing(t *testing.T) {
	f := new(fake)
	base := start(t, f)
	const key = "0123456789abcdef"
	many := func(host, key string, urls ...string) string {
		return fmt.Sprintf(`{"host":%q,"key":%q,"urlList":["%s"]}`, host, key,
			strings.Join(urls, `","`))
	}
	for _, c := range []struct {
		query, body string
		status      int
	}{
		{"?url=https://a.example/x&key=" + key, "", 202},
		{"", many("a.example", key, "https://a.example/y", "http://a.example/z"), 202},
		{"?url=https://a.example/x", "", 400}, {"", "", 400},
		{"?url=https://a.example/x&key=k", "", 400},
		{"", strings.Repeat(" ", ping.MaxBody+1), 400},
		{"", many("a.example", key, "https://b.example/"), 422},
		{"?keyLocation=https://b.example/k&url=https://a.example/x&key=" + key, "", 422},
		{"?url=https://none.example/x&key=" + key, "", 422},
		{"?url=https://down.example/x&key=" + key, "", 503},
	} {
		method := http.MethodGet
		if c.query == "" {
			method = http.MethodPost
		}
		req, err := http.NewRequestWithContext(t.Context(), method, base+"/indexnow"+c.query,
			strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != c.status || strings.Contains(string(text), "secret") {
			t.Errorf("%s %.80s: %d %q, %v; want %d", c.query, c.body, resp.StatusCode, text, err,
				c.status)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.pinged) != 3 || f.pinged[2].Page != "http://a.example/z" {
		t.Errorf("passed on %v, want three pages", f.pinged)
	}
}

// One sender can name only so many pages.
func TestPingsAreLimited(t *testing.T) {
	base := start(t, new(fake))
	body := `{"host":"a.example","key":"0123456789abcdef","urlList":["http://a.example/"` +
		strings.Repeat(`,"http://a.example/"`, ping.MaxPages-1) + `]}`
	for _, want := range []int{http.StatusAccepted, http.StatusTooManyRequests} {
		resp, err := http.Post(base+"/indexnow", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("status %d, want %d", resp.StatusCode, want)
		}
	}
}
