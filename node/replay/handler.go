package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"peerd/crawl/canon"
	"peerd/node/httpserver"
	"peerd/store"
	"peerd/store/warc"
)

const (
	maxQueries = 2       // requests that list captures at the same time
	maxBodies  = 16      // captures that are sent at the same time
	maxListed  = 10_000  // captures in a TimeMap
	maxRewrite = 8 << 20 // size in bytes of a page or style sheet, and what its links may add
)

// Config configures a Handler.
type Config struct {
	Archive *warc.Reader
	// Source says in the banner of a page by which peer it was fetched; may be "".
	Source string
	// Logger may be nil: no logging.
	Logger *slog.Logger
}

// Handler serves the pages of an archive. It is safe for concurrent use.
type Handler struct {
	cfg                        Config
	queries, bodies, rewriting places
}

// places are as many as there may be requests of a kind at the same time.
type places chan struct{}

// take waits for a place. The caller must call the function that it returns.
func (p places) take(ctx context.Context) (release func(), err error) {
	select {
	case p <- struct{}{}:
		return func() { <-p }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// New returns a handler.
func New(cfg Config) *Handler {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Handler{cfg: cfg, queries: make(places, maxQueries), bodies: make(places, maxBodies),
		rewriting: make(places, 1)}
}

// Content security policies: of archived pages, and of the replay's own ones.
const (
	pagePolicy = "sandbox; default-src 'none'; img-src 'self' data:; media-src 'self'; " +
		"style-src 'self' 'unsafe-inline'; font-src 'self'; frame-src 'self'; " +
		"form-action 'none'; base-uri 'none'"
	ownPolicy = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; " +
		"base-uri 'none'; frame-ancestors 'none'"
)

// ServeHTTP serves one request. The Host header must be an IP address or localhost, because the
// browser of a page that directed its own name to this machine sends that name.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("X-DNS-Prefetch-Control", "off")
	head.Set("Cache-Control", "no-store")
	head.Set("Content-Security-Policy", ownPolicy)
	switch {
	case !httpserver.AllowedHost(r.Host):
		http.Error(w, "the Host header is neither an IP address nor localhost",
			http.StatusForbidden)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		head.Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	path := r.URL.EscapedPath()
	switch {
	case path == "/":
		show(w, http.StatusOK, startPage)
	case path == "/cdx":
		h.cdx(w, r)
	case path == "/web" && r.FormValue("url") != "":
		redirect(w, "/web/*/"+safe.Replace(r.FormValue("url")))
	case strings.HasPrefix(path, "/web/"):
		h.web(w, r, strings.TrimPrefix(r.URL.RequestURI(), "/web/"))
	default:
		http.Error(w, "no such path", http.StatusNotFound)
	}
}

// redirect does what http.Redirect does, which would merge the slashes of a URL within the path.
func redirect(w http.ResponseWriter, path string) {
	w.Header().Set("Location", path)
	w.WriteHeader(http.StatusFound)
}

// target is what a path below /web/ asks for.
type target struct {
	url      store.URL
	kind     targetKind
	at       time.Time // of a memento
	exact    bool      // at was given to the second
	modifier string    // of a memento: "id_", "if_" or the like, or ""
}

type targetKind int

const (
	timeGate targetKind = iota
	memento
	timeMap
	listing
)

// parseTarget parses what follows "/web/" in a request.
func parseTarget(s string) (t target, err error) {
	first, rest, cut := strings.Cut(s, "/")
	switch {
	case strings.HasPrefix(s, "timemap/link/"):
		t.kind, s = timeMap, strings.TrimPrefix(s, "timemap/link/")
	case cut && first == "*":
		t.kind, s = listing, rest
	case cut && first != "" && first[0] >= '0' && first[0] <= '9' && !strings.Contains(first, "."):
		stamp := first
		if n := len(stamp) - 3; n > 0 && stamp[n+2] == '_' {
			stamp, t.modifier = stamp[:n], stamp[n:]
		}
		if t.at, err = parseStamp(stamp, false); err != nil {
			return t, err
		}
		t.kind, t.exact, s = memento, len(stamp) == len(stampLayout), rest
	}
	t.url, err = parseURL(s)
	return t, err
}

// parseURL parses the URL of a request. Some clients leave out the scheme or one of its slashes.
func parseURL(s string) (store.URL, error) {
	scheme, rest, ok := strings.Cut(s, ":/")
	switch {
	case ok && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https")):
		s = scheme + "://" + strings.TrimLeft(rest, "/")
	case !strings.Contains(s, "://"):
		s = "http://" + s
	}
	return canon.Parse(s)
}

// parseStamp parses a time of 4 to 14 digits, from the year to the second. What is missing is the
// beginning of the span, or with last the end.
func parseStamp(s string, last bool) (time.Time, error) {
	if len(s) < 4 || len(s) > len(stampLayout) || len(s)%2 != 0 ||
		strings.Trim(s, "0123456789") != "" {
		return time.Time{}, fmt.Errorf("%.20q is not a time such as 20260131235959", s)
	}
	at, err := time.Parse(stampLayout[:len(s)], s)
	if err != nil {
		return at, fmt.Errorf("%.20q is not a time such as 20260131235959", s)
	}
	if last {
		switch len(s) {
		case 4:
			at = at.AddDate(1, 0, 0)
		case 6:
			at = at.AddDate(0, 1, 0)
		case 8:
			at = at.AddDate(0, 0, 1)
		case 10:
			at = at.Add(time.Hour)
		case 12:
			at = at.Add(time.Minute)
		default:
			at = at.Add(time.Second)
		}
		at = at.Add(-time.Second)
	}
	return at, nil
}

func (h *Handler) web(w http.ResponseWriter, r *http.Request, path string) {
	t, err := parseTarget(path)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	switch t.kind {
	case timeMap:
		err = h.timeMap(w, r, t.url)
	case listing:
		err = h.listing(w, r, t.url)
	case timeGate:
		err = h.timeGate(w, r, t.url)
	case memento:
		err = h.memento(w, r, t)
	}
	if err != nil {
		h.fail(w, r, t.url, err)
	}
}

// fail answers a request for a URL that failed before anything was sent.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, u store.URL, err error) {
	switch {
	case errors.Is(err, context.Canceled):
	case errors.Is(err, errNotFound):
		show(w, http.StatusNotFound, missingPage(u))
	default:
		h.cfg.Logger.Warn("replaying failed", "url", u, "err", err)
		http.Error(w, "the capture cannot be shown: "+err.Error(), http.StatusInternalServerError)
	}
}
