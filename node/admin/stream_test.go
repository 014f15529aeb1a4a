package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// happened adds events with numbers up to last to f; only the newest keep are there.
func (f *fake) happened(last, keep uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = nil
	for i := max(last, keep) - keep + 1; i <= last; i++ {
		f.events = append(f.events, Event{Seq: i, Text: fmt.Sprint("event ", i)})
	}
}

// message is one message of a stream of events.
type message struct{ name, id, data string }

// listen opens a stream and returns its response and a function that reads the next message.
func listen(t *testing.T, file, path string) (*http.Response, func() message) {
	t.Helper()
	api, err := readAPIFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+api.Addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+api.Token)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	return resp, func() (m message) {
		for lines.Scan() && lines.Text() != "" {
			key, value, _ := strings.Cut(lines.Text(), ": ")
			switch key {
			case "event":
				m.name = value
			case "id":
				m.id = value
			case "data":
				m.data = value
			}
		}
		return m
	}
}

// A stream has the events that the client has not, says how many it missed, and the state.
func TestEvents(t *testing.T) {
	for _, tt := range []struct {
		after      string
		last, keep uint64
		want       []string // names and numbers
	}{
		{"", 2, 2, []string{"event 1", "event 2", "status "}},
		{"?after=1", 3, 3, []string{"event 2", "event 3", "status "}},
		{"?after=2", 6, 2, []string{"missed ", "event 5", "event 6", "status "}},
		{"?after=9", 2, 2, []string{"event 1", "event 2", "status "}}, // the peer has restarted
		{"", 0, 0, []string{"status "}},
	} {
		f := newFake()
		f.status.PeerID = "p"
		f.happened(tt.last, tt.keep)
		file, stop := serve(t, f)
		resp, next := listen(t, file, pathEvents+tt.after)
		if got := resp.Header.Get("Content-Type"); got != mediaEvents {
			t.Errorf("Content-Type: %s", got)
		}
		for _, want := range tt.want {
			m := next()
			if got := m.name + " " + m.id; got != want {
				t.Errorf("%s of %d events: got %q, want %q", tt.after, tt.last, got, want)
			}
			var missed Missed
			if m.name == "missed" {
				if err := json.Unmarshal([]byte(m.data),
					&missed); err != nil || missed.Events != 2 {
					t.Errorf("missed %+v, %v, want 2", missed, err)
				}
			}
		}
		stop() // ends the stream
		if m := next(); m.name != "" && m.name != "status" {
			t.Errorf("after the stop: %+v", m)
		}
	}
}

// A feed has the pages after the one that the client has, or those that are new.
func TestFeed(t *testing.T) {
	for _, tt := range []struct {
		after string
		want  []string
	}{
		{"?after=1", []string{"page 2", "page 3", "page 4"}},
		{"?after=9", []string{"page 1", "page 2", "page 3", "page 4"}},
		{"", []string{"page 4"}},
	} {
		f := newFake()
		f.happened(3, 3)
		file, stop := serve(t, f)
		_, next := listen(t, file, pathFeed+tt.after)
		for i, want := range tt.want {
			if i == len(tt.want)-1 {
				f.happened(4, 3)
			}
			if m := next(); m.name+" "+m.id != want {
				t.Errorf("%q: got %+v, want %s", tt.after, m, want)
			}
		}
		stop()
	}
}

// The number of streams is bounded, and a place is free again when a client has gone.
func TestStreamsAreBounded(t *testing.T) {
	file, _ := serve(t, newFake())
	var last *http.Response
	for range maxStreams {
		var next func() message
		last, next = listen(t, file, pathEvents)
		next()
	}
	if resp, _ := listen(t, file, pathEvents); resp.StatusCode != http.StatusTooManyRequests {
		t.Errorf("one more stream: status %d, want 429", resp.StatusCode)
	}
	last.Body.Close()
	await(t, func() bool {
		resp, _ := listen(t, file, pathEvents)
		return resp.StatusCode == http.StatusOK
	})
}

func TestBadLastEvent(t *testing.T) {
	file, _ := serve(t, newFake())
	if resp, _ := listen(t, file, pathEvents+"?after=x"); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("status %d, want 400", resp.StatusCode)
	}
}

// Follow reads what the stream sends, from the event that the client names on.
func TestFollow(t *testing.T) {
	f := newFake()
	f.status.PeerID = "p"
	f.happened(6, 2)
	file, stop := serve(t, f)
	defer stop()
	c, err := Dial(file)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []string
	err = c.Follow(ctx, 2, func(h Happening) {
		switch {
		case h.Missed != nil:
			got = append(got, fmt.Sprint("missed ", h.Missed.Events))
		case h.Event != nil:
			got = append(got, h.Event.Text)
		case h.Status != nil:
			got = append(got, "status of "+h.Status.PeerID)
			cancel()
		}
	})
	want := []string{"missed 2", "event 5", "event 6", "status of p"}
	if !slices.Equal(got, want) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	for _, bad := range []string{"status", "event", "missed"} {
		if _, err := happening(bad, []byte("{")); err == nil {
			t.Errorf("%s: no error for a broken message", bad)
		}
	}
	if h, err := happening("new", []byte("{")); err != nil || h != (Happening{}) {
		t.Errorf("a message of an unknown name: %+v, %v", h, err)
	}
}
