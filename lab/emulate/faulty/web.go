package faulty

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Site describes one site and is its state. Its exported fields must not change after New.
type Site struct {
	Host string
	// Pages is the number of pages in its tree of links, in which every page links to Fan others;
	// 0 means 8. With a Fan of 1 only one URL of the site is known at a time.
	Pages, Fan int
	// LinkPrefix is written before the path of every link, such as "http://other.test".
	LinkPrefix string
	// Cert is the certificate of the site; "" is none: it serves HTTP only. A site with a
	// certificate redirects from HTTP.
	Cert CertKind
	// Header is added to every answer.
	Header http.Header
	// Files are answered as they are and linked from the first page.
	Files map[string]http.HandlerFunc
	// Robots answers robots.txt; nil answers 404.
	Robots http.HandlerFunc

	fault atomic.Pointer[Fault]
}

// URL returns the URL of the first page.
func (s *Site) URL() string { return s.origin() + "/" }

func (s *Site) origin() string {
	if s.Cert != "" {
		return "https://" + s.Host
	}
	return "http://" + s.Host
}

func (s *Site) fan() int {
	if s.Fan == 0 {
		return 8
	}
	return s.Fan
}

func (s *Site) filePaths() []string { return slices.Sorted(maps.Keys(s.Files)) }

// urls returns the URLs of all pages and files.
func (s *Site) urls() (all []string) {
	for k := range s.Pages {
		all = append(all, s.origin()+PagePath(k))
	}
	for _, path := range s.filePaths() {
		all = append(all, s.origin()+path)
	}
	return all
}

// Break makes all answers from now on have a fault. It replaces an earlier fault.
func (s *Site) Break(f Fault) { s.fault.Store(&f) }

// Mend ends the fault.
func (s *Site) Mend() { s.fault.Store(nil) }

// Web is a set of sites and its log. It is safe for concurrent use.
type Web struct {
	sites  []*Site
	byHost map[string]*Site
	certs  *authority
	rec    recorder
}

// New returns a web of these sites, which must have different hosts.
func New(sites []*Site) (*Web, error) {
	certs, err := newAuthority()
	if err != nil {
		return nil, err
	}
	w := &Web{sites: sites, byHost: map[string]*Site{}, certs: certs,
		rec: recorder{fetched: map[string]int{}}}
	for _, s := range sites {
		w.byHost[s.Host] = s
	}
	return w, nil
}

// Sites returns the sites.
func (w *Web) Sites() []*Site { return w.sites }

// Pages returns the number of pages and files of all sites.
func (w *Web) Pages() (n int) {
	for _, s := range w.sites {
		n += s.Pages + len(s.Files)
	}
	return n
}

// CA returns the certificate of the authority in PEM form.
func (w *Web) CA() []byte { return w.certs.pem }

// connKey is the context key of the number of a connection.
type connKey struct{}

// Serve serves HTTP and HTTPS on these listeners until ctx ends, and returns nil then. No
// request is answered when it has returned.
func (w *Web) Serve(ctx context.Context, plain, secure net.Listener) error {
	var handlers sync.WaitGroup
	srv := &http.Server{
		Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			handlers.Add(1)
			defer handlers.Done()
			w.serve(rw, r)
		}),
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, w.rec.connected())
		},
		TLSConfig:         &tls.Config{GetCertificate: w.certificate},
		ReadHeaderTimeout: 30 * time.Second,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	failed := make(chan error, 2)
	go func() { failed <- srv.Serve(plain) }()
	go func() { failed <- srv.ServeTLS(secure, "", "") }()
	var err error
	running := 2
	select {
	case <-ctx.Done():
	case err = <-failed:
		running--
	}
	srv.Close()
	for range running {
		<-failed
	}
	handlers.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}

func (w *Web) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	s := w.byHost[hello.ServerName]
	if s == nil || s.Cert == "" {
		return nil, errors.New("no certificate for this name")
	}
	return w.certs.get(s.Host, s.Cert)
}

// serve answers and logs a request.
func (w *Web) serve(rw http.ResponseWriter, r *http.Request) {
	host := hostOf(r.Host)
	s := w.byHost[host]
	h := Hit{At: time.Now(), Host: host, Path: r.URL.RequestURI(), HTTPS: r.TLS != nil,
		Peer: addrOf(r.RemoteAddr)}
	h.Conn, _ = r.Context().Value(connKey{}).(int64)
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		h.Addr = addrOf(a.String())
	}
	if s != nil {
		_, page := s.page(h.Path)
		_, file := s.Files[h.Path]
		h.Page = (page || file) && h.HTTPS == (s.Cert != "")
	}
	i := w.rec.begin(h)
	meter := &meter{ResponseWriter: rw}
	defer func() {
		broken := recover()
		w.rec.end(i, meter.status, meter.sent, broken == nil && meter.err == nil &&
			meter.complete())
		if broken != nil {
			panic(broken)
		}
	}()
	if s == nil {
		http.Error(meter, "no such site", http.StatusMisdirectedRequest)
		return
	}
	var answer http.Handler = http.HandlerFunc(s.serve)
	if f := s.fault.Load(); f != nil {
		answer = (*f)(answer)
	}
	answer.ServeHTTP(meter, r)
}

// serve answers a request without a fault.
func (s *Site) serve(rw http.ResponseWriter, r *http.Request) {
	maps.Copy(rw.Header(), s.Header)
	if s.Cert != "" && r.TLS == nil {
		http.Redirect(rw, r, "https://"+s.Host+r.URL.RequestURI(), http.StatusMovedPermanently)
		return
	}
	if r.URL.Path == "/robots.txt" && s.Robots != nil {
		s.Robots(rw, r)
		return
	}
	if file := s.Files[r.URL.RequestURI()]; file != nil {
		file(rw, r)
		return
	}
	if k, ok := s.page(r.URL.RequestURI()); ok {
		s.servePage(rw, k)
		return
	}
	http.NotFound(rw, r)
}

// meter counts what is written to a ResponseWriter.
type meter struct {
	http.ResponseWriter
	status int
	sent   int64
	err    error
}

func (m *meter) WriteHeader(status int) {
	m.status = status
	m.ResponseWriter.WriteHeader(status)
}

func (m *meter) Write(p []byte) (int, error) {
	if m.status == 0 {
		m.status = http.StatusOK
	}
	n, err := m.ResponseWriter.Write(p)
	m.sent += int64(n)
	if err != nil {
		m.err = err
	}
	return n, err
}

// complete reports whether the whole body was written.
func (m *meter) complete() bool {
	n := m.Header().Get("Content-Length")
	return n == "" || n == strconv.FormatInt(m.sent, 10)
}

// Unwrap lets http.ResponseController find Flush and Hijack.
func (m *meter) Unwrap() http.ResponseWriter { return m.ResponseWriter }

func hostOf(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.ToLower(host)
}

// addrOf returns the address of HOST:PORT, which net/http wrote.
func addrOf(s string) netip.Addr {
	at, _ := netip.ParseAddrPort(s)
	return at.Addr().Unmap()
}
