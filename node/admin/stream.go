package admin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

const (
	// statusEvery is the time between two states in a stream of events.
	statusEvery = 2 * time.Second
	// feedEvery is that between two looks for new pages.
	feedEvery = time.Second
	// maxStreams bounds the streams of events at a time.
	maxStreams = 32
	// maxBurst bounds the messages at a time.
	maxBurst = 500
)

// events streams the state every two seconds, and what happens at the peer.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	s.follow(w, r, statusEvery, func(out *deadlineWriter, last uint64) (uint64, error) {
		last, err := sendNew(out, "event", s.cfg.Node.Events(),
			func(e Event) uint64 { return e.Seq }, last)
		if err != nil {
			return last, err
		}
		return last, sendEvent(out, "status", 0, filled(s.cfg.Node.Status()))
	})
}

// feed streams the pages that the peer fetches.
func (s *Server) feed(w http.ResponseWriter, r *http.Request) {
	fresh := r.Header.Get("Last-Event-ID") == "" && r.URL.Query().Get("after") == ""
	s.follow(w, r, feedEvery, func(out *deadlineWriter, last uint64) (uint64, error) {
		all := s.cfg.Node.NewPages()
		if fresh && len(all) > 0 {
			last = all[len(all)-1].Seq
		}
		fresh = false
		return sendNew(out, "page", all, func(p Page) uint64 { return p.Seq }, last)
	})
}

// follow streams what send sends, at once and then every so often, as Server-Sent Events (WHATWG
// HTML, section 9.2). It keeps nothing for a client but the number of the last message that was
// sent: the peer keeps a bounded number of them, and a slow client is told how many it missed.
func (s *Server) follow(
	w http.ResponseWriter, r *http.Request, every time.Duration,
	send func(out *deadlineWriter, last uint64) (uint64, error),
) {
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
	default:
		s.fail(w, r, fmt.Errorf("%w: %d event streams", ErrBusy, maxStreams))
		return
	}
	last, err := lastEvent(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	clearReadDeadline(w)
	w.Header().Set("Content-Type", mediaEvents)
	ctl := http.NewResponseController(w)
	out := &deadlineWriter{w: w, ctl: ctl}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if last, err = send(out, last); err == nil {
			err = ctl.Flush()
		}
		if err != nil {
			s.cfg.Logger.Debug("event stream ended", "err", err)
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
	}
}

// lastEvent returns the number of the last event that the client has; 0: none.
func lastEvent(r *http.Request) (uint64, error) {
	text := cmp.Or(r.Header.Get("Last-Event-ID"), r.URL.Query().Get("after"))
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: last event %q, want a number", ErrBadRequest, text)
	}
	return n, nil
}

// sendNew sends the messages after the one with the number last, and returns the new last.
func sendNew[T any](
	out *deadlineWriter, name string, all []T, number func(T) uint64, last uint64,
) (uint64, error) {
	if n := len(all); n > 0 && last > number(all[n-1]) {
		last = 0 // of an earlier run of the peer
	}
	for len(all) > 0 && number(all[0]) <= last {
		all = all[1:]
	}
	skip := max(0, len(all)-maxBurst)
	missed := uint64(skip)
	all = all[skip:]
	if len(all) > 0 && last > 0 {
		missed = number(all[0]) - last - 1
	}
	if missed > 0 && last > 0 {
		if err := sendEvent(out, "missed", 0, Missed{Events: missed}); err != nil {
			return last, err
		}
	}
	for _, v := range all {
		if err := sendEvent(out, name, number(v), v); err != nil {
			return last, err
		}
		last = number(v)
	}
	return last, nil
}

// sendEvent sends one message; id 0 leaves the number of the last event as it is.
func sendEvent(out *deadlineWriter, name string, id uint64, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	text := "event: " + name + "\n"
	if id > 0 {
		text += "id: " + strconv.FormatUint(id, 10) + "\n"
	}
	_, err = fmt.Fprintf(out, "%sdata: %s\n\n", text, data)
	return err
}

// A Happening is one message of the stream of events; one of its fields is not nil.
type Happening struct {
	Status *Status
	Event  *Event
	Missed *Missed
}

// Follow calls fn with the state of the peer, every two seconds, and with the events after the one
// with the number after. It returns when ctx ends, or with the error of the connection, which is
// io.ErrUnexpectedEOF if the peer has ended it.
func (c *Client) Follow(ctx context.Context, after uint64, fn func(Happening)) error {
	path := pathEvents + "?after=" + strconv.FormatUint(after, 10)
	name := ""
	return c.lines(ctx, http.MethodGet, path, nil, func(line []byte) (done bool, err error) {
		field, value, _ := bytes.Cut(line, []byte(": "))
		switch string(field) {
		case "event":
			name = string(value)
		case "data":
			h, err := happening(name, value)
			if err != nil {
				return false, unreadable(err)
			}
			fn(h)
		}
		return false, nil
	})
}

// happening decodes a message. That of an unknown name is empty.
func happening(name string, data []byte) (h Happening, err error) {
	switch name {
	case "status":
		err = json.Unmarshal(data, &h.Status)
	case "event":
		err = json.Unmarshal(data, &h.Event)
	case "missed":
		err = json.Unmarshal(data, &h.Missed)
	}
	return h, err
}
