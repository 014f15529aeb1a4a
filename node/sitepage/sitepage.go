// Package sitepage serves the page that a peer's User-Agent names, for the owners of web sites: who
// crawls, which peer crawls a site, how a site opts out, and how its server stops requests at once.
// It also takes pings of sites that have changed, by IndexNow.
//
// Any visitor may use it, so what it does is limited: it sends a request to a site only to read the
// file of its opt-out, and stops requests only to the address from which it is asked to. The
// package imports crawl/deny, crawl/ping and store for what it shows and takes, and
// node/httpserver. It has no scripts and sets no cookies.
package sitepage

import (
	"cmp"
	"context"
	_ "embed" // page.html
	"errors"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"peerd/crawl/deny"
	"peerd/crawl/ping"
	"peerd/internal/lru"
	"peerd/node/httpserver"
	"peerd/store"
)

// ErrRefused wraps errors that are due to what a visitor asks for. Visitors see their texts, which
// must not name what is internal to the peer, such as its networks and its name server.
var ErrRefused = errors.New("refused")

// About is what the page says of the peer.
type About struct {
	Peer, Network, UserAgent, Contact string
	MinDelay                          time.Duration
}

// Site is what the page says of a web site.
type Site struct {
	Host, Subnet  string
	Owner         string    // the peer that crawls it; "": none
	Self          bool      // it is this one
	Addrs         []string  // of the owner, as far as it is known
	OptedOutUntil time.Time // zero: it is not
}

// Peer is the peer that the page is about.
type Peer interface {
	About() About
	// Site looks up who crawls a host.
	Site(ctx context.Context, host string) (Site, error)
	// OptOut reads the opt-out of an origin, obeys it, and tells the other peers.
	OptOut(ctx context.Context, origin string) (obeyed bool, err error)
	// Ping tells the owner of a site that pages of it may have changed. All are of one host.
	Ping(ctx context.Context, notices []ping.Notice) error
	// StopAddr ends requests to an address for a while.
	StopAddr(addr netip.Addr) error
}

// Limits of what all visitors together may ask for.
const (
	lookupsPerSecond, lookupBurst = 2, 20
	readsPerSecond, readBurst     = 0.5, 10
	timeout                       = 40 * time.Second
	maxForm                       = 4 << 10
	maxConns, maxConnsOfSender    = 64, 16 // of those of one IPv4 /24 or IPv6 /48
	// Pings, which need a look-up each.
	pingsPerSecond, pingBurst = 10, 100
	// Pages that pings name: of all senders, and of those of one IPv4 /24 or IPv6 /48.
	pagesPerSecond, pageBurst             = 100, 5000
	senderPagesPerSecond, senderPageBurst = 5, ping.MaxPages
	maxSenders                            = 4096
)

// Server serves the page.
type Server struct {
	*httpserver.Server
	peer           Peer
	log            *slog.Logger
	lookups, reads *rate.Limiter
	pings, pages   *rate.Limiter
	senders        *lru.Cache[netip.Prefix, *rate.Limiter]
}

// page has names in double braces, in place of which show puts text. Package html/template would
// do that as well, but makes the program 8 MB larger: it looks methods up by name, so that the
// linker keeps all of them.
//
//go:embed page.html
var page string

// Listen opens a socket at HOST:PORT. The caller must call Run or Close.
func Listen(addr string, peer Peer, log *slog.Logger) (*Server, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("sitepage: %w", err)
	}
	s := &Server{peer: peer, log: log,
		lookups: rate.NewLimiter(lookupsPerSecond, lookupBurst),
		reads:   rate.NewLimiter(readsPerSecond, readBurst),
		pings:   rate.NewLimiter(pingsPerSecond, pingBurst),
		pages:   rate.NewLimiter(pagesPerSecond, pageBurst),
		senders: lru.New[netip.Prefix, *rate.Limiter](maxSenders)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.start)
	mux.HandleFunc("GET /site", s.site)
	mux.HandleFunc("POST /opt-out", s.optOut)
	mux.HandleFunc("POST /stop", s.stop)
	mux.HandleFunc("GET /indexnow", s.pingOne)
	mux.HandleFunc("POST /indexnow", s.pingMany)
	var own http.CrossOriginProtection // a page elsewhere cannot use the address of its visitor
	s.Server = httpserver.New("sitepage", &limited{Listener: ln}, own.Handler(mux), log)
	return s, nil
}

// view is what the page shows apart from what it says of the peer.
type view struct {
	site    *Site
	message string
}

// render returns the page.
func render(a About, v view) string {
	message := v.message
	if message != "" {
		message = `<p class="message">` + html.EscapeString(message) + "</p>"
	}
	return strings.NewReplacer(
		"{{message}}", message, "{{site}}", v.site.table(),
		"{{delay}}", a.MinDelay.String(), "{{agent}}", html.EscapeString(a.UserAgent),
		"{{contact}}", html.EscapeString(cmp.Or(a.Contact, "none")),
		"{{network}}", html.EscapeString(a.Network),
		"{{peer}}", html.EscapeString(a.Peer), "{{file}}", deny.OptOutPath,
	).Replace(page)
}

// table returns what is known of a site; nothing if s is nil.
func (s *Site) table() string {
	if s == nil {
		return ""
	}
	by, out := "no peer", "none is known here"
	switch {
	case s.Self:
		by = "this peer"
	case s.Owner != "":
		by = "<code>" + html.EscapeString(s.Owner) + "</code>"
		for _, a := range s.Addrs {
			by += "<br>" + html.EscapeString(a)
		}
	}
	if !s.OptedOutUntil.IsZero() {
		out = "obeyed here until " + s.OptedOutUntil.Format(time.DateOnly)
	}
	return fmt.Sprintf("<table>\n<tr><th>Site</th><td>%s, in %s</td></tr>\n"+
		"<tr><th>Crawled by</th><td>%s</td></tr>\n<tr><th>Opt-out</th><td>%s</td></tr>\n</table>",
		html.EscapeString(s.Host), html.EscapeString(s.Subnet), by, out)
}

// show sends the page with a message or a site.
func (s *Server) show(w http.ResponseWriter, status int, v view) {
	head := w.Header()
	head.Set("Content-Type", "text/html; charset=utf-8")
	head.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; "+
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, render(s.peer.About(), v)) // the visitor may have gone
}

func (s *Server) start(w http.ResponseWriter, _ *http.Request) { s.show(w, http.StatusOK, view{}) }

// fail shows an error, without its details if it is this peer's.
func (s *Server) fail(w http.ResponseWriter, err error) {
	if errors.Is(err, ErrRefused) || errors.Is(err, deny.ErrOrigin) {
		s.show(w, http.StatusBadRequest, view{message: err.Error()})
		return
	}
	s.log.Warn("failed to answer the owner of a web site", "err", err)
	s.show(w, http.StatusServiceUnavailable, view{message: "This did not work: the site did not " +
		"answer, or this peer could not. Try again later."})
}

func (s *Server) busy(w http.ResponseWriter) {
	s.show(w, http.StatusTooManyRequests, view{message: "Too many visitors. Try again soon."})
}

// origin returns the origin in a form, for which a host is enough.
func origin(w http.ResponseWriter, r *http.Request) (string, error) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	site := strings.TrimSpace(r.FormValue("site"))
	if !strings.Contains(site, "://") {
		site = "https://" + site
	}
	return deny.ParseOrigin(site)
}

func (s *Server) site(w http.ResponseWriter, r *http.Request) {
	o, err := origin(w, r)
	if err != nil {
		s.fail(w, err)
		return
	}
	if !s.lookups.Allow() {
		s.busy(w)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	site, err := s.peer.Site(ctx, store.URL(o).Host())
	if err != nil {
		s.fail(w, err)
		return
	}
	s.show(w, http.StatusOK, view{site: &site})
}

func (s *Server) optOut(w http.ResponseWriter, r *http.Request) {
	o, err := origin(w, r)
	if err != nil {
		s.fail(w, err)
		return
	}
	if !s.reads.Allow() {
		s.busy(w)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	obeyed, err := s.peer.OptOut(ctx, o)
	switch {
	case err != nil:
		s.fail(w, err)
	case obeyed:
		s.show(w, http.StatusOK, view{message: "Read " + o + deny.OptOutPath + ": the site opts " +
			"out. All peers are being told, and each reads the file before it obeys."})
	default:
		s.show(w, http.StatusOK, view{message: "Read " + o + deny.OptOutPath + ": the site does " +
			"not opt out. If it did before, all peers are being told to read the file again."})
	}
}

// stop ends requests to the address of the visitor.
func (s *Server) stop(w http.ResponseWriter, r *http.Request) {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err == nil {
		err = s.peer.StopAddr(from.Addr().Unmap())
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	s.show(w, http.StatusOK, view{message: fmt.Sprintf("This peer sends no request to %v for %v.",
		from.Addr().Unmap(), deny.MaxStop)})
}
