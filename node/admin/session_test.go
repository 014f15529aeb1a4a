package admin

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// withDashboard is a server with all routes. It returns its handler, and the routes.
func withDashboard() (*Server, http.Handler) {
	ok := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })
	s := newServer(Config{Node: newFake(), Metrics: ok, Dashboard: ok, Pprof: true})
	return s, s.handler()
}

// ask sends a request for a pattern, for at most a moment: streams do not end by themselves.
func ask(t *testing.T, h http.Handler, pattern string, change func(*http.Request)) int {
	t.Helper()
	method, path, _ := strings.Cut(pattern, " ")
	r := httptest.NewRequest(method, "http://127.0.0.1:4200"+path, strings.NewReader("{}"))
	change(r)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

// Every route refuses requests without a token, with a wrong one, with the name of another host
// and from pages of other origins. Only the dashboard's files and the login need no token.
func TestEveryRouteIsProtected(t *testing.T) {
	s, h := withDashboard()
	with := func(token string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
	}
	public := map[string]bool{"GET " + pathDashboard: true, "POST " + pathLogin: true}
	table := s.table()
	if len(table) < 30 {
		t.Fatalf("%d routes, want at least 30", len(table))
	}
	for _, r := range table {
		for name, change := range map[string]func(*http.Request){
			"no token": func(*http.Request) {}, "wrong token": with(newToken()),
			"wrong cookie": func(r *http.Request) {
				r.AddCookie(&http.Cookie{Name: cookieName(r.Host), Value: newToken()})
			},
		} {
			want := http.StatusUnauthorized
			if r.pattern == "GET "+pathDashboard {
				want = http.StatusOK
			}
			if got := ask(t, h, r.pattern, change); got != want {
				t.Errorf("%s with %s: status %d, want %d", r.pattern, name, got, want)
			}
		}
		if public[r.pattern] != (r.access == publicAccess) {
			t.Errorf("%s is public: %v", r.pattern, r.access == publicAccess)
		}
		for name, change := range map[string]func(*http.Request){
			"foreign host":   func(r *http.Request) { r.Host = "evil.example" },
			"foreign origin": func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") },
			"other port":     func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:1") },
			"null origin":    func(r *http.Request) { r.Header.Set("Origin", "null") },
			"cross-site": func(r *http.Request) {
				r.Header.Set("Sec-Fetch-Site",
					"cross-site")
			},
			"same-site": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") },
		} {
			got := ask(t, h, r.pattern, func(r *http.Request) {
				with(s.token)(r)
				change(r)
			})
			if got != http.StatusForbidden {
				t.Errorf("%s with a %s: status %d, want 403", r.pattern, name, got)
			}
		}
	}
}

// A session permits what the token for reading permits.
func TestSessionOnlyReads(t *testing.T) {
	s, h := withDashboard()
	cookie := logIn(t, s, h)
	for _, r := range s.table() {
		if r.media == mediaEvents || r.access == publicAccess {
			continue
		}
		got := ask(t, h, r.pattern, func(r *http.Request) { r.AddCookie(cookie) })
		if refused := got == http.StatusForbidden; refused != (r.access == fullAccess) {
			t.Errorf("%s with a session: status %d", r.pattern, got)
		}
	}
}

// logIn returns the cookie of a new session.
func logIn(t *testing.T, s *Server, h http.Handler) *http.Cookie {
	t.Helper()
	code, err := s.sessions.code()
	if err != nil {
		t.Fatal(err)
	}
	w := tryLogin(h, code)
	all := w.Result().Cookies()
	if w.Code != http.StatusOK || len(all) != 1 {
		t.Fatalf("login: status %d, cookies %v", w.Code, all)
	}
	if c := all[0]; !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" ||
		c.Name != "peerd-session-4200" {
		t.Errorf("cookie = %v", c)
	}
	return all[0]
}

func tryLogin(h http.Handler, code string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("POST", "http://127.0.0.1:4200"+pathLogin,
		strings.NewReader(`{"code":"`+code+`"}`)))
	return w
}

// A code works once and for two minutes, a session for a day, and both are bounded in number.
func TestCodesAndSessionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := withDashboard()
		code, err := s.sessions.code()
		if err != nil {
			t.Fatal(err)
		}
		if w := tryLogin(h, code); w.Code != http.StatusOK {
			t.Errorf("first login: status %d", w.Code)
		}
		if w := tryLogin(h, code); w.Code != http.StatusUnauthorized {
			t.Errorf("second login with one code: status %d, want 401", w.Code)
		}
		late, _ := s.sessions.code()
		time.Sleep(codeLife + time.Second)
		if w := tryLogin(h, late); w.Code != http.StatusUnauthorized {
			t.Errorf("login with an expired code: status %d, want 401", w.Code)
		}
		cookie := logIn(t, s, h)
		alive := func() int {
			return ask(t, h, "GET "+pathAlive, func(r *http.Request) { r.AddCookie(cookie) })
		}
		time.Sleep(sessionLife - time.Minute)
		if got := alive(); got != http.StatusOK {
			t.Errorf("status %d within a day", got)
		}
		time.Sleep(2 * time.Minute)
		if got := alive(); got != http.StatusUnauthorized {
			t.Errorf("status %d after a day, want 401", got)
		}
		for range maxCodes {
			if _, err := s.sessions.code(); err != nil {
				t.Fatal(err)
			}
		}
		if got := ask(t, h, "POST "+pathCodes, func(r *http.Request) {
			r.Header.Set("Authorization", "Bearer "+s.token)
		}); got != http.StatusTooManyRequests {
			t.Errorf("code beyond the limit: status %d, want 429", got)
		}
	})
}

// The newest sessions are valid: the others do not keep an operator out for a day.
func TestNewSessionReplacesOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := withDashboard()
		var all []*http.Cookie
		for range maxSessions + 1 {
			all = append(all, logIn(t, s, h))
			time.Sleep(time.Second)
		}
		for i, cookie := range all {
			want := http.StatusOK
			if i == 0 {
				want = http.StatusUnauthorized
			}
			got := ask(t, h, "GET "+pathAlive, func(r *http.Request) { r.AddCookie(cookie) })
			if got != want {
				t.Errorf("session %d: status %d, want %d", i, got, want)
			}
		}
		if n := len(s.sessions.tokens); n != maxSessions {
			t.Errorf("%d sessions, want %d", n, maxSessions)
		}
	})
}
