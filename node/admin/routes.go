package admin

import (
	"bufio"
	"context"
	_ "embed" // openapi.json
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Limits of requests and responses.
const (
	// MaxSeedURLs bounds the URLs of one seed request; Client splits longer lists.
	MaxSeedURLs = 1000
	// MaxURLBytes bounds one URL of a seed request. It is larger than the limit for canonical
	// URLs, because canonicalization may shorten a URL.
	MaxURLBytes = 8 << 10

	// MaxLeave bounds the time for handing over before a stop.
	MaxLeave = 24 * time.Hour

	// MaxPause bounds the time of a pause that ends by itself.
	MaxPause = 366 * 24 * time.Hour

	maxBodyBytes = 4 << 20
	// writeTimeout bounds one write of a stream.
	writeTimeout = 30 * time.Second
)

// The paths.
const (
	pathStatus    = "/v1/status"
	pathPeers     = "/v1/peers"
	pathSubnets   = "/v1/subnets"
	pathServers   = "/v1/servers"
	pathMoves     = "/v1/moves"
	pathQueue     = "/v1/queue"
	pathPages     = "/v1/pages"
	pathLimits    = "/v1/limits"
	pathSettings  = "/v1/settings"
	pathDenied    = "/v1/denied"
	pathHistory   = "/v1/history"
	pathDisk      = "/v1/disk"
	pathPlacement = "/v1/placement" // ?of=HOST
	pathGain      = "/v1/gain"
	pathEvents    = "/v1/events"
	pathFeed      = "/v1/feed"
	pathJournal   = "/v1/journal"
	pathOpenAPI   = "/v1/openapi.json"
	pathLinks     = "/v1/links"
	pathGivenUp   = "/v1/given-up" // ?host=HOST
	pathRetry     = "/v1/retry"
	pathRobots    = "/v1/robots"
	pathTrace     = "/v1/trace"  // ?url=URL
	pathSearch    = "/v1/search" // ?q=QUERY&offset=N&limit=N
	pathSeed      = "/v1/seed"
	pathChanged   = "/v1/changed"
	pathStop      = "/v1/stop"
	pathLeave     = "/v1/leave"
	pathPause     = "/v1/pause"
	pathReload    = "/v1/reload"
	pathAlive     = "/v1/alive"
	pathCodes     = "/v1/login-codes"
	pathLogin     = "/v1/login"
	pathMetrics   = "/metrics" // where Prometheus looks by default
	pathDashboard = "/dashboard/"
)

// OpenAPI is the description of the API in OpenAPI 3.1, which the server has at /v1/openapi.json.
// It is generated from the table of routes and from the types.
//
//go:generate go test . -run TestOpenAPI -args -update
//go:embed openapi.json
var OpenAPI []byte

// Media types.
const (
	mediaJSON   = "application/json"
	mediaLines  = "application/x-ndjson"
	mediaEvents = "text/event-stream"
	mediaText   = "text/plain"
	mediaHTML   = "text/html"
)

func (s *Server) handler() http.Handler { return s.protect(newRoutes(s.table())) }

func (s *Server) table() []route {
	all := slices.Concat(s.views(), s.lists(), s.streams(), s.actions())
	if s.cfg.Metrics != nil {
		all = append(all, route{pattern: "GET " + pathMetrics, summary: "Metrics for Prometheus",
			media: mediaText, handler: s.cfg.Metrics.ServeHTTP})
	}
	if s.cfg.Dashboard != nil {
		all = append(all, route{pattern: "GET " + pathDashboard, access: publicAccess,
			summary: "The files of the dashboard", media: mediaHTML,
			handler: s.cfg.Dashboard.ServeHTTP})
	}
	if s.cfg.Pprof {
		all = append(all, profiles()...)
	}
	return all
}

// answering returns a route that answers with the value of view.
func answering[T any](s *Server, r route, view func(*http.Request) (T, error)) route {
	var none T
	r.response = none
	r.handler = func(w http.ResponseWriter, q *http.Request) {
		v, err := view(q)
		if err != nil {
			s.fail(w, q, err)
			return
		}
		s.reply(w, q, v)
	}
	return r
}

// views are the routes that answer with one value.
func (s *Server) views() []route {
	n := s.cfg.Node
	return []route{
		answering(s, route{pattern: "GET " + pathAlive, summary: "Whether the peer runs"},
			func(*http.Request) (struct{}, error) { return struct{}{}, nil }), // without the node
		answering(s, route{pattern: "GET " + pathStatus, summary: "The state of the peer"},
			func(*http.Request) (Status, error) { return n.Status(), nil }),
		answering(s, route{pattern: "GET " + pathDisk,
			summary: "The free space, and when it will be used up"},
			func(*http.Request) (Disk, error) { return n.Disk(), nil }),
		answering(s, route{pattern: "GET " + pathGain,
			summary: "Download times against those of random owners and of the fastest peers"},
			func(*http.Request) (Gain, error) { return n.Gain(), nil }),
		answering(s, route{pattern: "GET " + pathPlacement,
			summary: "The owner of a host, address or subnet, and why it is the owner",
			query:   []parameter{{"of", "string", "a host name, an address or a subnet"}},
		}, s.placement),
		answering(s, route{pattern: "GET " + pathTrace,
			summary: "What this peer, and the owner, know of a URL",
			query:   []parameter{{"url", "string", "the URL, which need not be canonical"}},
		}, s.trace),
		answering(s, route{pattern: "GET " + pathSearch, summary: "Search the pages of all peers",
			query: []parameter{{"q", "string", "the query"}, {"offset", "integer", "hits to skip"},
				{"limit", "integer", "hits to return"}}}, s.search),
		{pattern: "GET " + pathOpenAPI, summary: "This description", media: mediaJSON,
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", mediaJSON)
				w.Write(OpenAPI)
			}},
	}
}

// lists are the routes that answer with a part of a list.
func (s *Server) lists() []route {
	n := s.cfg.Node
	return []route{
		listRoute(s, pathPeers, "The other peers", noError(n.Peers)),
		listRoute(s, pathSubnets, "The subnets that the peer owns", noError(n.Subnets)),
		listRoute(s, pathServers, "The decided subnets of all peers, by the owner map",
			noError(n.Servers)),
		listRoute(s, pathMoves, "Subnets that came and went, the latest first", noError(n.Moves)),
		listRoute(s, pathQueue, "The hosts that have URLs waiting", noError(n.Queue)),
		listRoute(s, pathPages, "Pages that were fetched recently, the latest first",
			noError(n.RecentPages)),
		listRoute(s, pathLimits, "What may limit the peer, and whether it does",
			noError(n.Limits)),
		listRoute(s, pathSettings, "The settings in effect", noError(n.Settings)),
		listRoute(s, pathDenied, "The deny list", n.DenyList),
		listRoute(s, pathHistory, "Counters every five minutes of the last day, the oldest first",
			noError(n.History)),
		listRoute(s, pathJournal, "What happened recently, the latest first", s.journal),
	}
}

// noError adapts a list that cannot fail.
func noError[T any](rows func() []T) func() ([]T, error) {
	return func() ([]T, error) { return rows(), nil }
}

// journal returns the events, the latest first.
func (s *Server) journal() ([]Event, error) {
	all := slices.Clone(s.cfg.Node.Events())
	slices.Reverse(all)
	return all, nil
}

// streams are the routes that answer line by line.
func (s *Server) streams() []route {
	return []route{
		{pattern: "GET " + pathEvents, media: mediaEvents, handler: s.events,
			summary: "Server-Sent Events: status every two seconds, event, and missed",
			query: []parameter{{"after", "integer",
				"number of the last event that the client has"}}},
		{pattern: "GET " + pathFeed, media: mediaEvents, handler: s.feed,
			summary: "Server-Sent Events: page for each page as it is fetched, and missed",
			query: []parameter{{"after", "integer", "number of the last page that the client " +
				"has; if absent, only later pages are sent"}}},
		{pattern: "GET " + pathLinks, media: mediaLines, handler: s.links,
			summary: "All pages that the peer fetched; an empty line ends a complete response",
			query: []parameter{{"after", "string",
				"the URL of a page: only those behind it, in the order of the response"}}},
		{pattern: "GET " + pathGivenUp, media: mediaLines, handler: s.givenUp,
			summary: "The URLs that were given up; an empty line ends a complete response",
			query:   []parameter{{"host", "string", "only those of this host"}}},
	}
}

// action returns a route that changes something: it passes the body of a request to do, and answers
// with the result.
func action[Q checked, T any](
	s *Server, path, summary string, do func(context.Context, Q) (T, error),
) route {
	var request Q
	var response T
	return route{pattern: "POST " + path, access: fullAccess, summary: summary, request: request,
		response: response, handler: func(w http.ResponseWriter, r *http.Request) {
			q, err := readRequest[Q](r.Body)
			var v T
			if err == nil {
				clearReadDeadline(w)
				v, err = do(r.Context(), q)
			}
			if err != nil {
				s.fail(w, r, err)
				return
			}
			s.reply(w, r, v)
		}}
}

// actions are the routes that change something.
func (s *Server) actions() []route {
	n := s.cfg.Node
	post := func(path, summary string) route {
		return route{pattern: "POST " + path, access: fullAccess, summary: summary}
	}
	seed := func(add func(context.Context, []string) (SeedResult, error)) func(context.Context,
		SeedRequest) (SeedResult, error) {
		return func(ctx context.Context, q SeedRequest) (SeedResult, error) {
			return add(ctx, q.URLs)
		}
	}
	leave := post(pathLeave,
		"Hand everything over, then stop; one line for each step of progress")
	leave.request, leave.media, leave.handler = LeaveRequest{}, mediaLines, s.leave
	return []route{
		action(s, pathRetry, "Queue URLs again that were given up", n.Retry),
		action(s, pathRobots, "What is known of the robots.txt of a host",
			func(_ context.Context, q RobotsRequest) ([]RobotsFile, error) {
				return n.Robots(q.Host, q.Refresh)
			}),
		action(s, pathSeed, "Add URLs to the crawl", seed(n.Seed)),
		action(s, pathChanged, "Announce that pages have changed", seed(n.Changed)),
		answering(s, post(pathStop, "Stop the peer"), func(*http.Request) (Stopping, error) {
			n.Stop() // it is answered before it happens
			return Stopping{true}, nil
		}),
		leave,
		action(s, pathPause, "Stop fetching for a while, or go on",
			func(_ context.Context, q PauseRequest) (struct{}, error) {
				if q.Resume {
					return struct{}{}, n.Resume()
				}
				return struct{}{}, n.Pause(time.Duration(q.ForS * float64(time.Second)))
			}),
		answering(s, post(pathReload, "Read config.toml again"),
			func(*http.Request) (Reloaded, error) {
				res, err := n.Reload()
				if err != nil {
					err = fmt.Errorf("%w: %w", ErrBadRequest, err)
				}
				return res, err
			}),
		answering(s, post(pathCodes, "Create a code with which one browser can log in"),
			func(*http.Request) (LoginCode, error) {
				code, err := s.sessions.code()
				return LoginCode{Code: code, LifeS: codeLife.Seconds()}, err
			}),
		{pattern: "POST " + pathLogin, access: publicAccess, handler: s.login,
			request: LoginRequest{}, response: struct{}{},
			summary: "Exchange a code for the cookie of a session that may read"},
	}
}

// placementTimeout bounds the time in which a host name is looked up.
const placementTimeout = 10 * time.Second

// placement returns the Placement of a host, address or subnet.
func (s *Server) placement(r *http.Request) (Placement, error) {
	of := strings.TrimSpace(r.URL.Query().Get("of"))
	if of == "" || len(of) > maxSearch {
		return Placement{}, fmt.Errorf(
			"%w: the parameter of needs a host, an address or a subnet", ErrBadRequest)
	}
	ctx, cancel := context.WithTimeout(r.Context(), placementTimeout)
	defer cancel()
	return s.cfg.Node.Placement(ctx, strings.ToLower(of))
}

// checked is the body of a request, of which check returns what is wrong with it.
type checked interface{ check() error }

// readRequest decodes exactly one JSON value, and checks it.
func readRequest[Q checked](body io.Reader) (q Q, err error) {
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	if err = d.Decode(&q); err == nil && d.More() {
		err = errors.New("more than one JSON value")
	}
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		err = fmt.Errorf("%w: want at most %d bytes", ErrTooLarge, large.Limit)
	case err != nil:
		err = fmt.Errorf("%w: %w", ErrBadRequest, err)
	default:
		err = q.check()
	}
	if err != nil {
		var none Q
		return none, err
	}
	return q, nil
}

func (r SeedRequest) check() error {
	if len(r.URLs) > MaxSeedURLs {
		return fmt.Errorf("%w: %d URLs, want at most %d", ErrTooLarge, len(r.URLs), MaxSeedURLs)
	}
	for _, u := range r.URLs {
		if len(u) > MaxURLBytes {
			return fmt.Errorf("%w: a URL of %d bytes, want at most %d", ErrTooLarge, len(u),
				MaxURLBytes)
		}
	}
	return nil
}

func (r RobotsRequest) check() error {
	if len(r.Host) > MaxURLBytes {
		return fmt.Errorf("%w: a host of %d bytes", ErrTooLarge, len(r.Host))
	}
	return nil
}

func (r LeaveRequest) check() error {
	if r.LimitS > 0 && r.LimitS <= MaxLeave.Seconds() && r.limit() > 0 {
		return nil
	}
	return fmt.Errorf("%w: limit_s is %v, want more than 0 and at most %v", ErrBadRequest,
		r.LimitS, MaxLeave.Seconds())
}

func (r LeaveRequest) limit() time.Duration {
	return time.Duration(r.LimitS * float64(time.Second))
}

func (r PauseRequest) check() error {
	if r.Resume || r.ForS >= 0 && r.ForS <= MaxPause.Seconds() {
		return nil
	}
	return fmt.Errorf("%w: for_s is %v, want 0 to %v", ErrBadRequest, r.ForS, MaxPause.Seconds())
}

// check returns an error unless exactly one field is set.
func (r RetryRequest) check() error {
	if len(r.URL)+len(r.Host) > MaxURLBytes {
		return fmt.Errorf("%w: want at most %d bytes", ErrTooLarge, MaxURLBytes)
	}
	for _, one := range []RetryRequest{{Host: r.Host}, {URL: r.URL}, {All: r.All}} {
		if r == one && one != (RetryRequest{}) {
			return nil
		}
	}
	return fmt.Errorf("%w: want one of host, url and all", ErrBadRequest)
}

func (LoginRequest) check() error { return nil }

// leave requests a stop that first hands everything over, and streams the progress, one Drain a
// line. Done is set in the last line of a complete stream.
func (s *Server) leave(w http.ResponseWriter, r *http.Request) {
	q, err := readRequest[LeaveRequest](r.Body)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	clearReadDeadline(w)
	w.Header().Set("Content-Type", mediaLines)
	ctl := http.NewResponseController(w)
	enc := json.NewEncoder(&deadlineWriter{w: w, ctl: ctl})
	err = s.cfg.Node.Leave(r.Context(), q.limit(), func(d Drain) error {
		return errors.Join(enc.Encode(d), ctl.Flush())
	})
	if err != nil { // the client has gone, or sees an incomplete stream
		s.cfg.Logger.Debug("leave stream cut", "err", err)
	}
}

// links streams the pages.
func (s *Server) links(w http.ResponseWriter, r *http.Request) {
	after := r.URL.Query().Get("after")
	s.stream(w, r, func(encode func(any) error) error {
		return s.cfg.Node.Links(r.Context(), after, func(l Link) error { return encode(l) })
	})
}

// givenUp streams the URLs that were given up.
func (s *Server) givenUp(w http.ResponseWriter, r *http.Request) {
	host := r.URL.Query().Get("host")
	s.stream(w, r, func(encode func(any) error) error {
		return s.cfg.Node.GivenUp(r.Context(), host, func(g GivenUp) error { return encode(g) })
	})
}

// stream answers with what each passes to encode, one JSON object a line. An empty line ends a
// complete stream. It holds nothing but the buffer in memory.
func (s *Server) stream(
	w http.ResponseWriter, r *http.Request, each func(encode func(any) error) error,
) {
	clearReadDeadline(w)
	w.Header().Set("Content-Type", mediaLines)
	out := bufio.NewWriterSize(&deadlineWriter{w: w, ctl: http.NewResponseController(w)}, 64<<10)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	lines := 0
	err := each(func(v any) error {
		if err := r.Context().Err(); err != nil {
			return err
		}
		lines++
		return enc.Encode(filled(v))
	})
	if err != nil {
		if a, ok := w.(*responseWriter); ok && !a.started {
			s.fail(w, r, err)
			return
		}
		s.cfg.Logger.Debug("admin stream cut", "path", r.URL.Path, "lines", lines, "err", err)
		panic(http.ErrAbortHandler) // the only way to end a body as incomplete
	}
	out.WriteByte('\n')
	out.Flush()
}

// clearReadDeadline removes the time limit for reading the request, which has been read.
// net/http would take its expiry for the end of the connection and end the context of the
// request.
func clearReadDeadline(w http.ResponseWriter) {
	http.NewResponseController(w).SetReadDeadline(time.Time{}) // fails only with the connection
}

// deadlineWriter bounds each write by writeTimeout.
type deadlineWriter struct {
	w   io.Writer
	ctl *http.ResponseController
}

func (p *deadlineWriter) Write(b []byte) (int, error) {
	if err := p.ctl.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return p.w.Write(b)
}

// reply answers with status 200 and v as JSON.
func (s *Server) reply(w http.ResponseWriter, r *http.Request, v any) {
	data, err := json.Marshal(filled(v))
	if err != nil { // a NaN among the numbers
		s.cfg.Logger.Error("admin answer not encodable", "path", r.URL.Path, "err", err)
		s.fail(w, r, ErrInternal)
		return
	}
	w.Header().Set("Content-Type", mediaJSON)
	w.Write(append(data, '\n'))
}

// fail answers with err and its status.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	code := statusOf(err)
	s.cfg.Logger.Debug("admin request failed", "path", r.URL.Path, "status", code, "err", err)
	data, _ := json.Marshal(errorBody{Error: err.Error()}) // strings always encode
	w.Header().Set("Content-Type", mediaJSON)
	w.WriteHeader(code)
	w.Write(append(data, '\n'))
}
