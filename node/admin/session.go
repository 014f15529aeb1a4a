package admin

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// codeLife is how long a login code is valid; sessionLife how long a session is.
	codeLife    = 2 * time.Minute
	sessionLife = 24 * time.Hour
	// maxCodes and maxSessions bound how many there are at a time.
	maxCodes    = 16
	maxSessions = 64
)

// sessions holds the browsers that may read. A command with the token of api.json creates a code;
// a browser exchanges it, once, for a cookie. Both are random and in memory only.
type sessions struct {
	mu     sync.Mutex
	codes  map[string]time.Time // the ends, by code
	tokens map[string]time.Time // by the value of the cookie
}

func newSessions() *sessions {
	return &sessions{codes: map[string]time.Time{}, tokens: map[string]time.Time{}}
}

// code returns a new login code.
func (s *sessions) code() (string, error) { return s.add(s.codes, codeLife, maxCodes) }

// exchange returns the value of a new cookie for a code, which is used up.
func (s *sessions) exchange(code string) (string, error) {
	s.mu.Lock()
	end, ok := s.codes[code]
	delete(s.codes, code)
	ok = ok && !time.Now().After(end)
	if ok && len(s.tokens) >= maxSessions { // the first one to end makes room
		delete(s.tokens, slices.MinFunc(slices.Collect(maps.Keys(s.tokens)),
			func(a, b string) int { return s.tokens[a].Compare(s.tokens[b]) }))
	}
	s.mu.Unlock()
	if !ok {
		return "", fmt.Errorf("%w: the code is used up or expired; run \"peerd dashboard\" again",
			ErrUnauthorized)
	}
	return s.add(s.tokens, sessionLife, maxSessions)
}

// add adds a random entry to one of the maps.
func (s *sessions) add(
	to map[string]time.Time, life time.Duration, most int,
) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for t, end := range to {
		if now.After(end) {
			delete(to, t)
		}
	}
	if len(to) >= most {
		return "", ErrBusy
	}
	t := newToken()
	to[t] = now.Add(life)
	return t, nil
}

// valid reports whether r has the cookie of a session.
func (s *sessions) valid(r *http.Request) bool {
	c, err := r.Cookie(cookieName(r.Host))
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	end, ok := s.tokens[c.Value] // 32 random bytes: the time of a look-up reveals nothing useful
	return ok && time.Now().Before(end)
}

// cookieName returns the name of the cookie of a server. Browsers send cookies to all ports of an
// address, so each peer of a machine has a name of its own.
func cookieName(host string) string {
	_, port, err := net.SplitHostPort(host)
	if err != nil || strings.Trim(port, "0123456789") != "" {
		port = "80"
	}
	return "peerd-session-" + port
}

// login answers a LoginRequest with the cookie of a session.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	req, err := readRequest[LoginRequest](r.Body)
	var token string
	if err == nil {
		token, err = s.sessions.exchange(req.Code)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: cookieName(r.Host), Value: token, Path: "/", HttpOnly: true,
		SameSite: http.SameSiteStrictMode, MaxAge: int(sessionLife.Seconds()),
	})
	s.reply(w, r, struct{}{})
}
