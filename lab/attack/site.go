package attack

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// A site is a web server that logs what is requested. It answers with the text of a page, and
// with 404 without one.
type site struct {
	host   string
	addr   netip.AddrPort
	pages  map[string]string // by path
	server *http.Server

	mu   sync.Mutex
	hits []hit
}

// hit is one request.
type hit struct {
	at   time.Time
	host string // as requested, without the port
	path string
	addr netip.Addr // of the server
}

// newSite serves a site of n pages at /p0 and so on, all of which the first links to.
func newSite(host string, at netip.Addr, n int) (*site, error) {
	s := &site{host: host, pages: map[string]string{"/robots.txt": "User-agent: *\n"}}
	var links strings.Builder
	for i := range n {
		path := fmt.Sprintf("/p%d", i)
		fmt.Fprintf(&links, "<a href=%s>%d</a> ", path, i)
		s.pages[path] = fmt.Sprintf("<p>Page %d of %s has a text of its own, number %d.", i, host,
			i*i)
	}
	if n > 0 {
		s.pages["/p0"] = "<title>All pages</title>" + links.String()
	}
	return s, s.listen(at)
}

// listen opens a free port of an address. An address 0.0.0.0 stands for all of 127.0.0.0/8.
func (s *site) listen(at netip.Addr) error {
	ln, err := net.Listen("tcp", netip.AddrPortFrom(at, 0).String())
	if err != nil {
		return fmt.Errorf("attack: serve %s: %w", s.host, err)
	}
	s.addr = netip.AddrPortFrom(at, uint16(ln.Addr().(*net.TCPAddr).Port))
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.server.Serve(ln) }() // ends with close
	return nil
}

func (s *site) close() error {
	if err := s.server.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// ServeHTTP answers a request.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	at, _ := netip.ParseAddrPort(local.String())
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	s.mu.Lock()
	s.hits = append(s.hits, hit{time.Now(), host, r.URL.RequestURI(), at.Addr().Unmap()})
	text, ok := s.pages[r.URL.Path]
	s.mu.Unlock()
	switch {
	case !ok:
		http.NotFound(w, r)
		return
	case r.URL.Path == "/robots.txt":
		w.Header().Set("Content-Type", "text/plain")
	default:
		w.Header().Set("Content-Type", "text/html")
	}
	_, _ = w.Write([]byte(text))
}

// put adds or replaces a page.
func (s *site) put(path, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages[path] = text
}

// url returns the URL of a path.
func (s *site) url(path string) string {
	return fmt.Sprintf("http://%s:%d%s", s.host, s.addr.Port(), path)
}

// all returns what was requested so far.
func (s *site) all() []hit {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]hit(nil), s.hits...)
}

// fetched returns how many different pages were requested, without robots.txt and those that do
// not exist.
func (s *site) fetched() int {
	seen := map[string]bool{}
	for _, h := range s.all() {
		if _, ok := s.pages[h.path]; ok && h.path != "/robots.txt" {
			seen[h.path] = true
		}
	}
	return len(seen)
}
