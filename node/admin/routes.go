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

// handler returns the handler of all paths.
func (s *Server) handler() http.Handler {
	guarded := s.protect(newRoutes(s.table()))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		guarded.ServeHTTP(&responseWriter{ResponseWriter: w}, r)
	})
}

// table returns all routes.
func (s *Server) table() []route {
	all := slices.Concat(s.views(), s.lists(), s.streams(), s.actions())
	if s.metrics != nil {
		all = append(all, route{pattern: "GET " + pathMetrics, summary: "Metrics for Prometheus",
			media: mediaText, handler: s.metrics.ServeHTTP})
	}
	if s.dashboard != nil {
		all = append(all, route{pattern: "GET " + pathDashboard, access: publicAccess,
			summary: "The files of the dashboard", media: mediaHTML,
			handler: s.dashboard.ServeHTTP})
	}
	if s.pprof {
		all = append(all, profiles()...)
	}
	return all
}

// views are the routes that answer with one value.
func (s *Server) views() []route {
	get := func(path, summary string, response any, view func() any) route {
		return route{pattern: "GET " + path, summary: summary, response: response,
			handler: func(w http.ResponseWriter, r *http.Request) { s.reply(w, r, view()) }}
	}
	return []route{
		get(pathAlive, "Whether the peer runs", struct{}{},
			func() any { return struct{}{} }), // does not use the node
		get(pathStatus, "The state of the peer", Status{},
			func() any { return s.node.Status().normalized() }),
		get(pathDisk, "The free space, and when it will be used up", Disk{},
			func() any { return s.node.Disk() }),
		get(pathGain, "Download times against those of random owners and of the fastest peers",
			Gain{}, func() any { return s.node.Gain() }),
		{pattern: "GET " + pathPlacement, response: Placement{}, handler: s.placement,
			summary: "The owner of a host, address or subnet, and why it is the owner",
			query:   []parameter{{"of", "string", "a host name, an address or a subnet"}}},
		{pattern: "GET " + pathTrace, response: Trace{}, handler: s.trace,
			summary: "What this peer, and the owner, know of a URL",
			query:   []parameter{{"url", "string", "the URL, which need not be canonical"}}},
		{pattern: "GET " + pathSearch, response: SearchResult{}, handler: s.search,
			summary: "Search the pages of all peers",
			query: []parameter{{"q", "string", "the query"}, {"offset", "integer", "hits to skip"},
				{"limit", "integer", "hits to return"}}},
		{pattern: "GET " + pathOpenAPI, summary: "This description", media: mediaJSON,
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", mediaJSON)
				w.Write(OpenAPI)
			}},
	}
}

// lists are the routes that answer with a part of a list.
func (s *Server) lists() []route {
	n := s.node
	return []route{
		listRoute(s, pathPeers, "The other peers", noError(n.Peers), Peer.normalized),
		listRoute(s, pathSubnets, "The subnets that the peer owns", noError(n.Subnets),
			Subnet.normalized),
		listRoute(s, pathServers, "The decided subnets of all peers, by the owner map",
			noError(n.Servers), Site.normalized),
		listRoute(s, pathMoves, "Subnets that came and went, the latest first", noError(n.Moves),
			same[Move]),
		listRoute(s, pathQueue, "The hosts that have URLs waiting", noError(n.Queue), same[Host]),
		listRoute(s, pathPages, "Pages that were fetched recently, the latest first",
			noError(n.RecentPages), same[Page]),
		listRoute(s, pathLimits, "What may limit the peer, and whether it does",
			noError(n.Limits), same[Limit]),
		listRoute(s, pathSettings, "The settings in effect", noError(n.Settings), same[Setting]),
		listRoute(s, pathDenied, "The deny list", n.DenyList, same[DenyRule]),
		listRoute(s, pathHistory, "Counters every five minutes of the last day, the oldest first",
			noError(n.History), same[Sample]),
		listRoute(s, pathJournal, "What happened recently, the latest first", s.journal,
			same[Event]),
	}
}

// noError adapts a list that cannot fail.
func noError[T any](rows func() []T) func() ([]T, error) {
	return func() ([]T, error) { return rows(), nil }
}

// journal returns the events, the latest first.
func (s *Server) journal() ([]Event, error) {
	all := slices.Clone(s.node.Events())
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

// actions are the routes that change something.
func (s *Server) actions() []route {
	return []route{
		{pattern: "POST " + pathRetry, access: fullAccess, handler: s.retry,
			request:  RetryRequest{},
			response: RetryResult{}, summary: "Queue URLs again that were given up"},
		{pattern: "POST " + pathRobots, access: fullAccess, handler: s.robots,
			request: RobotsRequest{}, response: []RobotsFile{},
			summary: "What is known of the robots.txt of a host"},
		{pattern: "POST " + pathSeed, access: fullAccess, handler: s.addURLs(s.node.Seed),
			request: SeedRequest{}, response: SeedResult{}, summary: "Add URLs to the crawl"},
		{pattern: "POST " + pathChanged, access: fullAccess, handler: s.addURLs(s.node.Changed),
			request: SeedRequest{}, response: SeedResult{},
			summary: "Announce that pages have changed"},
		{pattern: "POST " + pathStop, access: fullAccess, handler: s.stop, response: Stopping{},
			summary: "Stop the peer"},
		{pattern: "POST " + pathLeave, access: fullAccess, handler: s.leave,
			request: LeaveRequest{}, media: mediaLines,
			summary: "Hand everything over, then stop; one line for each step of progress"},
		{pattern: "POST " + pathPause, access: fullAccess, handler: s.pause,
			request: PauseRequest{}, response: struct{}{},
			summary: "Stop fetching for a while, or go on"},
		{pattern: "POST " + pathReload, access: fullAccess, handler: s.reload,
			response: Reloaded{}, summary: "Read config.toml again"},
		{pattern: "POST " + pathCodes, access: fullAccess, handler: s.createCode,
			response: LoginCode{}, summary: "Create a code with which one browser can log in"},
		{pattern: "POST " + pathLogin, access: publicAccess, handler: s.login,
			request: LoginRequest{}, response: struct{}{},
			summary: "Exchange a code for the cookie of a session that may read"},
	}
}

// placementTimeout bounds the time in which a host name is looked up.
const placementTimeout = 10 * time.Second

// placement answers with the Placement of a host, address or subnet.
func (s *Server) placement(w http.ResponseWriter, r *http.Request) {
	of := strings.TrimSpace(r.URL.Query().Get("of"))
	err := fmt.Errorf("%w: the parameter of needs a host, an address or a subnet", ErrBadRequest)
	var p Placement
	if of != "" && len(of) <= maxSearch {
		ctx, cancel := context.WithTimeout(r.Context(), placementTimeout)
		defer cancel()
		p, err = s.node.Placement(ctx, strings.ToLower(of))
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.reply(w, r, p.normalized())
}

// robots answers a RobotsRequest with the files of the host.
func (s *Server) robots(w http.ResponseWriter, r *http.Request) {
	var req RobotsRequest
	err := readRequest(r.Body, &req)
	if err == nil && len(req.Host) > MaxURLBytes {
		err = fmt.Errorf("%w: a host of %d bytes", ErrTooLarge, len(req.Host))
	}
	var files []RobotsFile
	if err == nil {
		files, err = s.node.Robots(req.Host, req.Refresh)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.reply(w, r, normalizeAll(files, func(f RobotsFile) RobotsFile { return f }))
}

// addURLs returns a handler that passes the URLs of a SeedRequest to add and answers with the
// SeedResult.
func (s *Server) addURLs(
	add func(context.Context, []string) (SeedResult, error),
) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		req, err := readSeedRequest(r.Body)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		clearReadDeadline(w)
		res, err := add(r.Context(), req.URLs)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		s.reply(w, r, res.normalized())
	}
}

// readRequest decodes exactly one JSON value.
func readRequest(body io.Reader, to any) error {
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	err := d.Decode(to)
	if err == nil && d.More() {
		err = errors.New("more than one JSON value")
	}
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return fmt.Errorf("%w: want at most %d bytes", ErrTooLarge, large.Limit)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrBadRequest, err)
	}
	return nil
}

// readSeedRequest decodes a SeedRequest and checks its limits.
func readSeedRequest(body io.Reader) (req SeedRequest, err error) {
	if err := readRequest(body, &req); err != nil {
		return SeedRequest{}, err
	}
	if len(req.URLs) > MaxSeedURLs {
		return SeedRequest{}, fmt.Errorf("%w: %d URLs, want at most %d", ErrTooLarge, len(req.URLs),
			MaxSeedURLs)
	}
	for _, u := range req.URLs {
		if len(u) > MaxURLBytes {
			return SeedRequest{}, fmt.Errorf("%w: a URL of %d bytes, want at most %d", ErrTooLarge,
				len(u), MaxURLBytes)
		}
	}
	return req, nil
}

// readLeaveRequest decodes a LeaveRequest and returns its limit: more than 0, and at most
// MaxLeave.
func readLeaveRequest(body io.Reader) (time.Duration, error) {
	var req LeaveRequest
	if err := readRequest(body, &req); err != nil {
		return 0, err
	}
	if limit := time.Duration(req.LimitS * float64(time.Second)); req.LimitS > 0 &&
		req.LimitS <= MaxLeave.Seconds() && limit > 0 {
		return limit, nil
	}
	return 0, fmt.Errorf("%w: limit_s is %v, want more than 0 and at most %v", ErrBadRequest,
		req.LimitS, MaxLeave.Seconds())
}

// stop requests a stop of the node and answers before it happens.
func (s *Server) stop(w http.ResponseWriter, r *http.Request) {
	s.node.Stop()
	s.reply(w, r, Stopping{true})
}

// pause answers a PauseRequest when it is in effect.
func (s *Server) pause(w http.ResponseWriter, r *http.Request) {
	var req PauseRequest
	err := readRequest(r.Body, &req)
	switch {
	case err != nil:
	case req.Resume:
		err = s.node.Resume()
	case !(req.ForS >= 0 && req.ForS <= MaxPause.Seconds()):
		err = fmt.Errorf("%w: for_s is %v, want 0 to %v", ErrBadRequest, req.ForS,
			MaxPause.Seconds())
	default:
		err = s.node.Pause(time.Duration(req.ForS * float64(time.Second)))
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.reply(w, r, struct{}{})
}

// reload has the node read config.toml again.
func (s *Server) reload(w http.ResponseWriter, r *http.Request) {
	res, err := s.node.Reload()
	if err != nil {
		s.fail(w, r, fmt.Errorf("%w: %w", ErrBadRequest, err))
		return
	}
	res.Applied, res.Restart = nonNil(res.Applied), nonNil(res.Restart)
	s.reply(w, r, res)
}

// leave requests a stop that first hands everything over, and streams the progress, one Drain a
// line. Done is set in the last line of a complete stream.
func (s *Server) leave(w http.ResponseWriter, r *http.Request) {
	limit, err := readLeaveRequest(r.Body)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	clearReadDeadline(w)
	w.Header().Set("Content-Type", mediaLines)
	ctl := http.NewResponseController(w)
	enc := json.NewEncoder(&deadlineWriter{w: w, ctl: ctl})
	err = s.node.Leave(r.Context(), limit, func(d Drain) error {
		return errors.Join(enc.Encode(d), ctl.Flush())
	})
	if err != nil { // the client has gone, or sees an incomplete stream
		s.log.Debug("leave stream cut", "err", err)
	}
}

// retry answers a RetryRequest with a RetryResult.
func (s *Server) retry(w http.ResponseWriter, r *http.Request) {
	req, err := readRetryRequest(r.Body)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	clearReadDeadline(w)
	res, err := s.node.Retry(r.Context(), req)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.reply(w, r, res)
}

// readRetryRequest decodes a RetryRequest and checks that exactly one field is set.
func readRetryRequest(body io.Reader) (req RetryRequest, err error) {
	if err := readRequest(body, &req); err != nil {
		return RetryRequest{}, err
	}
	if len(req.URL)+len(req.Host) > MaxURLBytes {
		return RetryRequest{}, fmt.Errorf("%w: want at most %d bytes", ErrTooLarge, MaxURLBytes)
	}
	for _, one := range []RetryRequest{{Host: req.Host}, {URL: req.URL}, {All: req.All}} {
		if req == one && one != (RetryRequest{}) {
			return req, nil
		}
	}
	return RetryRequest{}, fmt.Errorf("%w: want one of host, url and all", ErrBadRequest)
}

// links streams the pages.
func (s *Server) links(w http.ResponseWriter, r *http.Request) {
	after := r.URL.Query().Get("after")
	s.stream(w, r, func(encode func(any) error) error {
		return s.node.Links(r.Context(), after,
			func(l Link) error { return encode(l.normalized()) })
	})
}

// givenUp streams the URLs that were given up.
func (s *Server) givenUp(w http.ResponseWriter, r *http.Request) {
	host := r.URL.Query().Get("host")
	s.stream(w, r, func(encode func(any) error) error {
		return s.node.GivenUp(r.Context(), host, func(g GivenUp) error { return encode(g) })
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
		return enc.Encode(v)
	})
	if err != nil {
		if a, ok := w.(*responseWriter); ok && !a.started {
			s.fail(w, r, err)
			return
		}
		s.log.Debug("admin stream cut", "path", r.URL.Path, "lines", lines, "err", err)
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
	data, err := json.Marshal(v)
	if err != nil { // a NaN among the numbers
		s.log.Error("admin answer not encodable", "path", r.URL.Path, "err", err)
		s.fail(w, r, ErrInternal)
		return
	}
	w.Header().Set("Content-Type", mediaJSON)
	w.Write(append(data, '\n'))
}

// fail answers with err and its status.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	code := statusOf(err)
	s.log.Debug("admin request failed", "path", r.URL.Path, "status", code, "err", err)
	data, _ := json.Marshal(errorBody{Error: err.Error()}) // strings always encode
	w.Header().Set("Content-Type", mediaJSON)
	w.WriteHeader(code)
	w.Write(append(data, '\n'))
}
