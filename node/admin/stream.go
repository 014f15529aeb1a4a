package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

const (
	// statusEvery is the time between two states in a stream of events.
	statusEvery = 2 * time.Second
	// maxStreams bounds the streams of events at a time.
	maxStreams = 32
	// maxBurst bounds the events between two states.
	maxBurst = 500
)

// events streams the state every two seconds, and what happens at the peer, as Server-Sent Events
// (WHATWG HTML, section 9.2). It keeps nothing for a client but the number of the last event that
// was sent: the peer keeps a bounded number of events, and a slow client is told how many it
// missed.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
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
	tick := time.NewTicker(statusEvery)
	defer tick.Stop()
	for {
		if last, err = s.sendEvents(out, last); err == nil {
			err = errors.Join(sendEvent(out, "status", 0, s.node.Status().normalized()),
				ctl.Flush())
		}
		if err != nil {
			s.log.Debug("event stream ended", "err", err)
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
	text := r.Header.Get("Last-Event-ID")
	if text == "" {
		text = r.URL.Query().Get("after")
	}
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: last event %q, want a number", ErrBadRequest, text)
	}
	return n, nil
}

// sendEvents sends the events after the one with the number last, and returns the new last.
func (s *Server) sendEvents(out *deadlineWriter, last uint64) (uint64, error) {
	all := s.node.Events()
	if n := len(all); n > 0 && last > all[n-1].Seq {
		last = 0 // of an earlier run of the peer
	}
	for len(all) > 0 && all[0].Seq <= last {
		all = all[1:]
	}
	skip := max(0, len(all)-maxBurst)
	missed := uint64(skip)
	all = all[skip:]
	if len(all) > 0 && last > 0 {
		missed = all[0].Seq - last - 1
	}
	if missed > 0 && last > 0 {
		if err := sendEvent(out, "missed", 0, Missed{Events: missed}); err != nil {
			return last, err
		}
	}
	for _, e := range all {
		if err := sendEvent(out, "event", e.Seq, e); err != nil {
			return last, err
		}
		last = e.Seq
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
