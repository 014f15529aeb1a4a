package admin

import (
	"fmt"
	"net/http"
	"net/http/pprof"
)

// access says who may use a route. Every request to one that is not public carries a token or
// the cookie of a session.
type access int

const (
	readAccess   access = iota // changes nothing: either token, or a session
	fullAccess                 // the token in api.json
	publicAccess               // without a token: the dashboard's files, and its login
)

// A route is one path of the server. OpenAPI documents list the fields other than handler.
type route struct {
	pattern string // as of http.ServeMux
	access  access
	summary string
	query   []parameter
	request any // a value of the type of the JSON body; nil: there is none
	// response is a value of the type of the JSON body; nil: the body has the type media.
	response any
	media    string
	handler  http.HandlerFunc
}

// A parameter is a parameter in the query of a URL.
type parameter struct{ name, kind, meaning string }

// routes are the paths of a server by their patterns.
type routes struct {
	mux    *http.ServeMux
	access map[string]access
}

func newRoutes(table []route) *routes {
	rs := &routes{mux: http.NewServeMux(), access: map[string]access{}}
	for _, r := range table {
		rs.mux.Handle(r.pattern, r.handler)
		rs.access[r.pattern] = r.access
	}
	return rs
}

// accessOf returns who may make a request; full access for an unknown path.
func (rs *routes) accessOf(r *http.Request) access {
	_, pattern := rs.mux.Handler(r)
	if a, ok := rs.access[pattern]; ok {
		return a
	}
	return fullAccess
}

// profiles returns the profiles of the process. They slow it down, and show what it has in memory.
func profiles() (all []route) {
	const path = "/debug/pprof/"
	for name, h := range map[string]http.HandlerFunc{
		"": pprof.Index, "cmdline": pprof.Cmdline, "profile": pprof.Profile,
		"symbol": pprof.Symbol, "trace": pprof.Trace,
	} {
		all = append(all, route{pattern: "GET " + path + name, access: fullAccess,
			handler: func(w http.ResponseWriter, r *http.Request) {
				clearReadDeadline(w)
				h(w, r)
			}})
	}
	return all
}

// checkRead returns why the token for reading, or a session, does not permit r.
func (rs *routes) checkRead(r *http.Request) error {
	if rs.accessOf(r) == fullAccess {
		return fmt.Errorf("%w: %s %s", ErrReadOnly, r.Method, r.URL.Path)
	}
	return nil
}
