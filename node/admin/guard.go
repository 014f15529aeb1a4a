package admin

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net/http"
	"regexp"
	"runtime/debug"
	"strings"

	"peerd/node/httpserver"
)

// tokenPattern matches a token: 32 random bytes in hexadecimal.
var tokenPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

func newToken() string {
	var b [32]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// protect adds to the paths what every request needs: headers, access control, a size limit, and
// an end when the server is drained.
func (s *Server) protect(rs *routes) http.Handler {
	return http.HandlerFunc(func(inner http.ResponseWriter, r *http.Request) {
		w := &responseWriter{ResponseWriter: inner}
		w.Header().Set("Server", serverName)
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		defer s.recoverPanic(w, r)
		if err := s.check(r, rs); err != nil {
			s.fail(w, r, err)
			return
		}
		if r.URL.Path != pathAlive { // which needs no Node, and tells clients when the peer ends
			end, err := s.requests.begin(r)
			if err != nil {
				s.fail(w, r, err)
				return
			}
			defer end()
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBodyBytes)
		rs.mux.ServeHTTP(w, r)
	})
}

// check returns why r may not use the server.
func (s *Server) check(r *http.Request, rs *routes) error {
	if !httpserver.AllowedHost(r.Host) {
		return fmt.Errorf("%w: %q", ErrForbidden, r.Host)
	}
	if err := checkOrigin(r); err != nil {
		return err
	}
	if rs.accessOf(r) == publicAccess {
		return nil
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case ok && sameToken(token, s.token):
		return nil
	case ok && sameToken(token, s.readToken), !ok && s.sessions.valid(r):
		return rs.checkRead(r)
	}
	return ErrUnauthorized
}

// checkOrigin refuses the requests of pages of other origins, by what their browser says of them.
// Following a link to this server is permitted; scripts there cannot read the response.
func checkOrigin(r *http.Request) error {
	if o := r.Header.Get("Origin"); o != "" && o != "http://"+r.Host {
		return fmt.Errorf("%w: origin %q", ErrForbidden, o)
	}
	switch site := r.Header.Get("Sec-Fetch-Site"); site {
	case "", "same-origin", "none":
		return nil
	default:
		if r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" {
			return nil
		}
		return fmt.Errorf("%w: a page of another origin", ErrForbidden)
	}
}

// sameToken compares in constant time.
func sameToken(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// recoverPanic ends a request after a panic of its handler. If part of the response was sent,
// it closes the connection, so that the client does not take the part for the whole.
func (s *Server) recoverPanic(w *responseWriter, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler { //nolint:errorlint // the very value, as net/http compares it
		panic(p)
	}
	s.cfg.Logger.Error("admin request panicked", "path", r.URL.Path, "panic", fmt.Sprint(p),
		"stack", string(debug.Stack()))
	if w.started {
		panic(http.ErrAbortHandler)
	}
	s.fail(w, r, ErrInternal)
}

// responseWriter remembers whether any part of the response was sent.
type responseWriter struct {
	http.ResponseWriter
	started bool
}

func (a *responseWriter) WriteHeader(code int) {
	a.started = true
	a.ResponseWriter.WriteHeader(code)
}

func (a *responseWriter) Write(b []byte) (int, error) {
	a.started = true
	return a.ResponseWriter.Write(b)
}

// Unwrap gives http.ResponseController access to the connection.
func (a *responseWriter) Unwrap() http.ResponseWriter { return a.ResponseWriter }
