package trace

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/overlaytest"
	"peerd/overlay/wire"
	"peerd/store"
)

const protocolID = "/peerd/test/trace/1.0.0"

// node is a Node that knows only URLs of one host.
type node func(store.URL) (State, error)

func (node) Check(u store.URL) error {
	if !strings.HasPrefix(string(u), "http://a.example/") {
		return errors.New("out of scope")
	}
	return nil
}

func (n node) URLState(u store.URL) (State, error) { return n(u) }

// service returns a peer that answers with a state.
func service(t *testing.T, local func(store.URL) (State, error)) *Service {
	t.Helper()
	s := &Service{Host: overlaytest.Host(t), Protocol: protocolID, Node: node(local),
		Timeout: time.Minute, Logger: overlaytest.Log(t)}
	server := s.Serve()
	t.Cleanup(server.Close)
	return s
}

func info(s *Service) peer.AddrInfo {
	return peer.AddrInfo{ID: s.Host.ID(), Addrs: s.Host.Addrs()}
}

// full is a state with all fields.
func full() State {
	return State{Place: Queued, Ahead: 3, Seen: true, NextVisit: 5, Owned: true,
		Host: store.HostFailing, HostRetry: 6,
		Fetch:   &Fetch{At: 1, Status: 200, Outcome: "ok", Bytes: 7, TookMs: 1.5, Served: true},
		GivenUp: &GivenUp{At: 2, Status: 404, Outcome: "http_error", Tries: 1, Error: "no"}}
}

// A peer answers for URLs of its network, and refuses others and too many requests.
func TestAsk(t *testing.T) {
	owner := service(t, func(u store.URL) (State, error) {
		if u == "http://a.example/broken" {
			return State{}, errors.New("broken")
		}
		return full(), nil
	})
	asker := service(t, nil)
	got, err := asker.Ask(t.Context(), info(owner), "http://a.example/x")
	if err != nil || !reflect.DeepEqual(got, full()) {
		t.Errorf("Ask() = %+v, %v", got, err)
	}
	for _, u := range []store.URL{"http://b.example/", "http://a.example/broken"} {
		if _, err := asker.Ask(t.Context(), info(owner), u); !errors.Is(err, ErrRefused) {
			t.Errorf("Ask(%s): %v", u, err)
		}
	}
	for i := 0; ; i++ {
		if _, err := asker.Ask(t.Context(), info(owner), "http://a.example/x"); err != nil {
			if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "busy") {
				t.Errorf("request %d: %v", i, err)
			}
			break
		}
		if i > 10_000 {
			t.Fatal("the requests of a peer are not limited")
		}
	}
}

// What no honest peer answers is an error.
func TestCheck(t *testing.T) {
	for name, spoil := range map[string]func(*State){
		"place":    func(s *State) { s.Place = places },
		"ahead":    func(s *State) { s.Ahead = -1 },
		"visit":    func(s *State) { s.NextVisit = math.MaxInt64 },
		"retry":    func(s *State) { s.HostRetry = -1 },
		"fetched":  func(s *State) { s.Fetch.At = math.MinInt64 },
		"bytes":    func(s *State) { s.Fetch.Bytes = -1 },
		"took":     func(s *State) { s.Fetch.TookMs = math.NaN() },
		"outcome":  func(s *State) { s.Fetch.Outcome = strings.Repeat("x", 33) },
		"control":  func(s *State) { s.GivenUp.Outcome = "a\x1b[2J" },
		"given up": func(s *State) { s.GivenUp.At = -1 },
		"tries":    func(s *State) { s.GivenUp.Tries = -1 },
	} {
		s := full()
		if err := s.check(); err != nil {
			t.Fatal(err)
		}
		spoil(&s)
		if err := s.check(); !errors.Is(err, ErrAnswer) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := full()
	s.GivenUp.Error = "a\x1b[2J" + strings.Repeat("b", 1000)
	if err := s.check(); err != nil || len(s.GivenUp.Error) > store.MaxErrorText ||
		strings.Contains(s.GivenUp.Error, "\x1b") {
		t.Errorf("the error text is %q, %v", s.GivenUp.Error, err)
	}
}

func FuzzMessages(f *testing.F) {
	for _, v := range []any{request{"http://a.example/"}, reply{State: full()},
		reply{Refused: "busy"}} {
		raw, err := wire.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var q request
		_ = wire.Unmarshal(raw, &q)
		var a reply
		if wire.Unmarshal(raw, &a) == nil && a.State.check() == nil && (a.State.Place >= places ||
			a.State.GivenUp != nil && len(a.State.GivenUp.Error) > store.MaxErrorText) {
			t.Fatalf("accepted %+v", a.State)
		}
	})
}
