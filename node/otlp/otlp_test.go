package otlp

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

type sent struct {
	ResourceSpans []struct {
		Resource   struct{ Attributes []attr }
		ScopeSpans []struct{ Spans []span }
	}
}

type attr struct {
	Key   string
	Value map[string]string
}

type span struct {
	TraceID, SpanID, ParentSpanID, Name string
	StartTimeUnixNano, EndTimeUnixNano  string
	Attributes                          []attr
	Status                              struct {
		Code    int
		Message string
	}
}

// TestExporter checks what a collector receives: all spans, also those at the end.
func TestExporter(t *testing.T) {
	var got sent
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != "POST" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s of %q", r.Method, r.Header.Get("Content-Type"))
		}
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
	}))
	defer srv.Close()
	e := New(Config{Endpoint: srv.URL, Client: srv.Client(), Logger: slog.Default(),
		Resource: []Attr{{"service.name", "peerd"}}})
	at := time.Unix(1700000000, 5)
	e.Add(Span{Name: "fetch", Start: at, End: at.Add(time.Second), Error: "reset",
		Attrs: []Attr{{"url.full", "http://a.example/"}, {"n", int64(1) << 60}},
		Parts: []Span{{Name: "connect", Start: at, End: at.Add(time.Millisecond)}}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.Run(ctx); err != nil {
		t.Fatal(err)
	}
	r := got.ResourceSpans[0]
	want := []attr{{"service.name", map[string]string{"stringValue": "peerd"}}}
	if !reflect.DeepEqual(r.Resource.Attributes, want) {
		t.Errorf("resource = %v, want %v", r.Resource.Attributes, want)
	}
	all := r.ScopeSpans[0].Spans
	if len(all) != 2 {
		t.Fatalf("%d spans, want 2", len(all))
	}
	s, part := all[0], all[1]
	if len(s.TraceID) != 32 || len(s.SpanID) != 16 || s.ParentSpanID != "" ||
		part.TraceID != s.TraceID || part.ParentSpanID != s.SpanID || part.SpanID == s.SpanID {
		t.Errorf("identifiers: %+v, %+v", s, part)
	}
	if s.Name != "fetch" || s.StartTimeUnixNano != "1700000000000000005" ||
		s.EndTimeUnixNano != "1700000001000000005" || s.Status.Code != 2 ||
		s.Status.Message != "reset" || part.Status.Code != 0 ||
		s.Attributes[1].Value["intValue"] != "1152921504606846976" {
		t.Errorf("span = %+v", s)
	}
}

// No connection to the collector stays open when Run has ended.
func TestConnectionsAreClosed(t *testing.T) {
	closed := make(chan struct{}, 1)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter,
		*http.Request) {
	}))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			closed <- struct{}{}
		}
	}
	srv.Start()
	defer srv.Close()
	e := New(Config{Endpoint: srv.URL, Client: srv.Client(), Logger: slog.Default()})
	e.Add(Span{Name: "fetch"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.Run(ctx); err != nil {
		t.Fatal(err)
	}
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Error("the connection is still open")
	}
}

// All spans that wait at the end are sent, unless the collector is too slow.
func TestFlush(t *testing.T) {
	for delay, want := range map[time.Duration]int{0: maxWaiting, 4 * time.Second: 2 * maxBatch} {
		synctest.Test(t, func(t *testing.T) {
			got := 0
			e := New(Config{Endpoint: "http://collector/", Logger: slog.New(slog.DiscardHandler),
				Client: &http.Client{Transport: transport(func(r *http.Request) error {
					select {
					case <-time.After(delay):
					case <-r.Context().Done():
						return r.Context().Err()
					}
					var s sent
					if err := json.NewDecoder(r.Body).Decode(&s); err != nil {
						t.Error(err)
					}
					got += len(s.ResourceSpans[0].ScopeSpans[0].Spans)
					return io.EOF // no answer is read
				})}})
			for range maxWaiting {
				e.Add(Span{Name: "x"})
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			began := time.Now()
			if err := e.Run(ctx); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); got != want || took > timeout {
				t.Errorf("%d spans were sent in %v, each request took %v; want %d", got, took,
					delay, want)
			}
		})
	}
}

// A collector that fails, or does not answer, holds nothing up and is reported now and then.
func TestFailingCollector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		calls := 0
		e := New(Config{Endpoint: "http://collector/", Logger: slog.New(slog.NewTextHandler(&log,
			nil)), Client: &http.Client{Transport: transport(func(r *http.Request) error {
			calls++
			<-r.Context().Done()
			return r.Context().Err()
		})}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- e.Run(ctx) }()
		for range 30 * 60 {
			for range 10 {
				e.Add(Span{Name: "x"})
			}
			time.Sleep(time.Second)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n := strings.Count(log.String(), "lost spans"); n != 3 {
			t.Errorf("%d messages in half an hour, want 3:\n%s", n, &log)
		}
		if calls < 100 {
			t.Errorf("%d calls, want one each 10 to 15 s", calls)
		}
	})
}

type transport func(*http.Request) error

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return nil, f(r) }
