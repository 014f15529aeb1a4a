package admin

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"runtime/debug"
	"strings"
)

// tokenForm is what a token looks like: 32 random bytes in hex.
var tokenForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

func newToken() string {
	var b [32]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// guarded puts in front of h what holds for every request.
func (s *Server) guarded(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server", serverName)
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		defer s.contain(w, r)
		if err := s.check(r); err != nil {
			s.fail(w, r, err)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBodyBytes)
		h.ServeHTTP(w, r)
	})
}

// check returns why r is not from somebody who may use the server.
func (s *Server) check(r *http.Request) error {
	if !ownName(r.Host) {
		return fmt.Errorf("%w: %q", ErrForbidden, r.Host)
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) != 1 {
		return ErrUnauthorized
	}
	return nil
}

// ownName says whether a Host header is an IP address or localhost. A page
// that had its own name pointed at this machine sends that name.
func ownName(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	_, err = netip.ParseAddr(host)
	return err == nil || strings.EqualFold(host, "localhost")
}

// contain ends a request whose handler panicked; the server goes on. When part
// of the answer is out already, the connection is cut, so that nobody takes the
// part for the whole.
func (s *Server) contain(w http.ResponseWriter, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler { //nolint:errorlint // the very value, as net/http compares it
		panic(p)
	}
	s.log.Error("admin request panicked", "path", r.URL.Path, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	if a, ok := w.(*answer); ok && a.begun {
		panic(http.ErrAbortHandler)
	}
	s.fail(w, r, ErrInternal)
}

// answer remembers whether anything of it went out.
type answer struct {
	http.ResponseWriter
	begun bool
}

func (a *answer) WriteHeader(code int) {
	a.begun = true
	a.ResponseWriter.WriteHeader(code)
}

func (a *answer) Write(b []byte) (int, error) {
	a.begun = true
	return a.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
