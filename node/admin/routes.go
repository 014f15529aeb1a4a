package admin

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// The limits of what a client may send, and how long it may take.
const (
	// MaxSeedURLs bounds the URLs of one seed request; Client splits longer
	// lists.
	MaxSeedURLs = 1000
	// MaxURLBytes bounds one URL of a seed request. It is more than a canonical
	// URL may have, because canonicalising may shorten.
	MaxURLBytes = 8 << 10

	// MaxLeave bounds how long a peer may hand over before it stops.
	MaxLeave = 24 * time.Hour

	maxBodyBytes = 4 << 20
	// writeStall is how long one write of a stream may wait for its reader.
	writeStall = 30 * time.Second
)

// The paths.
const (
	pathStatus  = "/v1/status"
	pathPeers   = "/v1/peers"
	pathSubnets = "/v1/subnets"
	pathQueue   = "/v1/queue"
	pathLinks   = "/v1/links"
	pathSeed    = "/v1/seed"
	pathStop    = "/v1/stop"
	pathLeave   = "/v1/leave"
	pathAlive   = "/v1/alive"
)

// handler returns everything that the server answers.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	get := func(path string, view func() any) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			s.reply(w, r, view())
		})
	}
	get(pathAlive, func() any { return struct{}{} }) // asks nothing of the node
	get(pathStatus, func() any { return s.node.Status().filled() })
	get(pathPeers, func() any { return filledAll(s.node.Peers(), Peer.filled) })
	get(pathSubnets, func() any { return filledAll(s.node.Subnets(), Subnet.filled) })
	get(pathQueue, func() any { return filledAll(s.node.Queue(), func(h Host) Host { return h }) })
	mux.HandleFunc("GET "+pathLinks, s.links)
	mux.HandleFunc("POST "+pathSeed, s.seed)
	mux.HandleFunc("POST "+pathStop, s.stop)
	mux.HandleFunc("POST "+pathLeave, s.leave)
	guarded := s.guarded(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		guarded.ServeHTTP(&answer{ResponseWriter: w}, r)
	})
}

// seed takes a SeedRequest and answers with a SeedResult.
func (s *Server) seed(w http.ResponseWriter, r *http.Request) {
	req, err := readSeedRequest(r.Body)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	untimed(w)
	res, err := s.node.Seed(r.Context(), req.URLs)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.reply(w, r, res.filled())
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

// readSeedRequest reads a SeedRequest within its limits.
func readSeedRequest(body io.Reader) (req SeedRequest, err error) {
	if err := readRequest(body, &req); err != nil {
		return SeedRequest{}, err
	}
	if len(req.URLs) > MaxSeedURLs {
		return SeedRequest{}, fmt.Errorf("%w: %d URLs, want at most %d", ErrTooLarge, len(req.URLs), MaxSeedURLs)
	}
	for _, u := range req.URLs {
		if len(u) > MaxURLBytes {
			return SeedRequest{}, fmt.Errorf("%w: a URL of %d bytes, want at most %d", ErrTooLarge, len(u), MaxURLBytes)
		}
	}
	return req, nil
}

// readLeaveRequest reads the limit of a LeaveRequest: above 0, and MaxLeave at
// most.
func readLeaveRequest(body io.Reader) (time.Duration, error) {
	var req LeaveRequest
	if err := readRequest(body, &req); err != nil {
		return 0, err
	}
	if limit := time.Duration(req.LimitS * float64(time.Second)); req.LimitS > 0 && req.LimitS <= MaxLeave.Seconds() && limit > 0 {
		return limit, nil
	}
	return 0, fmt.Errorf("%w: limit_s is %v, want more than 0 and at most %v", ErrBadRequest, req.LimitS, MaxLeave.Seconds())
}

// stop asks the node to stop and answers before it does.
func (s *Server) stop(w http.ResponseWriter, r *http.Request) {
	s.node.Stop()
	s.reply(w, r, struct {
		Stopping bool `json:"stopping"`
	}{true})
}

// leave asks the node to hand everything over and stop, and streams how far it
// is, one Drain a line. The last one says that it is over: a stream that was cut
// has none that does.
func (s *Server) leave(w http.ResponseWriter, r *http.Request) {
	limit, err := readLeaveRequest(r.Body)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	untimed(w)
	w.Header().Set("Content-Type", "application/x-ndjson")
	ctl := http.NewResponseController(w)
	enc := json.NewEncoder(&patient{w: w, ctl: ctl})
	err = s.node.Leave(r.Context(), limit, func(d Drain) error {
		return errors.Join(enc.Encode(d), ctl.Flush())
	})
	if err != nil { // the client went away, or sees that the stream is cut
		s.log.Debug("leave stream cut", "err", err)
	}
}

// links streams the pages, one JSON object a line, and ends with an empty
// line: a stream that was cut has none. Nothing but the buffer is held.
func (s *Server) links(w http.ResponseWriter, r *http.Request) {
	untimed(w)
	w.Header().Set("Content-Type", "application/x-ndjson")
	out := bufio.NewWriterSize(&patient{w: w, ctl: http.NewResponseController(w)}, 64<<10)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	lines := 0
	err := s.node.Links(r.Context(), func(l Link) error {
		if err := r.Context().Err(); err != nil {
			return err
		}
		lines++
		return enc.Encode(l.filled())
	})
	if err != nil {
		if a, ok := w.(*answer); ok && !a.begun {
			s.fail(w, r, err)
			return
		}
		s.log.Debug("links stream cut", "lines", lines, "err", err)
		panic(http.ErrAbortHandler) // the one way to end a body as incomplete
	}
	out.WriteByte('\n')
	out.Flush()
}

// untimed lifts the time limit on reading the request, which is read: net/http
// would take its expiry for a client that left and end the request's context.
func untimed(w http.ResponseWriter) {
	http.NewResponseController(w).SetReadDeadline(time.Time{}) // fails only with the connection
}

// patient gives each write the time of writeStall.
type patient struct {
	w   io.Writer
	ctl *http.ResponseController
}

func (p *patient) Write(b []byte) (int, error) {
	if err := p.ctl.SetWriteDeadline(time.Now().Add(writeStall)); err != nil {
		return 0, err
	}
	return p.w.Write(b)
}

// reply answers 200 with v as JSON.
func (s *Server) reply(w http.ResponseWriter, r *http.Request, v any) {
	data, err := json.Marshal(v)
	if err != nil { // a NaN among the numbers
		s.log.Error("admin answer not encodable", "path", r.URL.Path, "err", err)
		s.fail(w, r, ErrInternal)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(append(data, '\n'))
}

// fail answers with err and its status.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	code := statusOf(err)
	s.log.Debug("admin request failed", "path", r.URL.Path, "status", code, "err", err)
	data, _ := json.Marshal(fault{Error: err.Error()}) // strings always encode
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	w.Write(append(data, '\n'))
}
