// Package trace asks another peer what it knows of a URL: where the URL is counted, its last fetch
// or why it was given up, and its next visit. Any member may ask; most ask the owner of the URL's
// host.
//
// Callers set Local, which answers for this peer, and run Serve. Requests are limited per peer,
// because each reads the store. What a peer answers is checked for form and range, and a peer can
// still say what is not so. docs/protocol/trace.md describes the messages. The package imports
// overlay/wire, store and libp2p.
package trace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"peerd/overlay/wire"
	"peerd/store"
)

var (
	// ErrAnswer means that a peer sent an answer that no honest peer sends.
	ErrAnswer = errors.New("trace: invalid answer")
	// ErrRefused means that a peer refused to answer.
	ErrRefused = errors.New("trace: refused")
)

// Limits of messages. Bytes.
const (
	maxRequest = 8 << 10
	maxReply   = 4 << 10
	maxReason  = 256 // of a refusal that are quoted in an error
	maxName    = 32  // of an outcome
)

// requestRate limits the requests of each peer.
var requestRate = wire.Rate{PerSecond: 2, Burst: 8, TotalFactor: 4}

// Place is where a URL is counted at a peer. The values are sent: never renumber them.
type Place uint8

// The places.
const (
	None Place = iota
	Queued
	InFlight
	Pending
	places
)

// State is what a peer knows of a URL. Times are in Unix milliseconds; 0: none.
type State struct {
	Place     Place           `cbor:"1,keyasint,omitempty"`
	Ahead     int             `cbor:"2,keyasint,omitempty"` // URLs before it in the queue
	Seen      bool            `cbor:"3,keyasint,omitempty"`
	Fetch     *Fetch          `cbor:"4,keyasint,omitempty"` // the last one
	GivenUp   *GivenUp        `cbor:"5,keyasint,omitempty"`
	NextVisit int64           `cbor:"6,keyasint,omitempty"`
	Owned     bool            `cbor:"7,keyasint,omitempty"` // the peer crawls the host
	Host      store.HostState `cbor:"8,keyasint,omitempty"`
	HostRetry int64           `cbor:"9,keyasint,omitempty"`
}

// Fetch is a fetch of a URL.
type Fetch struct {
	At      int64   `cbor:"1,keyasint"`
	Status  int     `cbor:"2,keyasint,omitempty"` // HTTP status; 0: no response
	Outcome string  `cbor:"3,keyasint"`
	Bytes   int64   `cbor:"4,keyasint,omitempty"`
	TookMs  float64 `cbor:"5,keyasint,omitempty"`
	Served  bool    `cbor:"6,keyasint,omitempty"` // at the request of another peer
}

// GivenUp says why a URL is no longer tried.
type GivenUp struct {
	At      int64  `cbor:"1,keyasint"`
	Status  int    `cbor:"2,keyasint,omitempty"`
	Outcome string `cbor:"3,keyasint"`
	Tries   int    `cbor:"4,keyasint,omitempty"`
	Error   string `cbor:"5,keyasint,omitempty"` // see store.CutErrorText
}

// request asks for the state of a URL.
type request struct {
	URL store.URL `cbor:"1,keyasint"`
}

// reply is the reply to a request.
type reply struct {
	Refused string `cbor:"1,keyasint,omitempty"`
	State   State  `cbor:"2,keyasint"`
}

// check checks a state from another peer, and cuts its texts.
func (s *State) check() error {
	const latest = 1 << 45 // in the year 3084
	times := []int64{s.NextVisit, s.HostRetry}
	numbers := []int64{int64(s.Ahead)}
	var outcomes []string
	if f := s.Fetch; f != nil {
		times, outcomes = append(times, f.At), append(outcomes, f.Outcome)
		numbers = append(numbers, int64(f.Status), f.Bytes)
		if !(f.TookMs >= 0 && f.TookMs < latest) {
			return fmt.Errorf("%w: a fetch of %v ms", ErrAnswer, f.TookMs)
		}
	}
	if g := s.GivenUp; g != nil {
		times, outcomes = append(times, g.At), append(outcomes, g.Outcome)
		numbers = append(numbers, int64(g.Status), int64(g.Tries))
		g.Error = store.CutErrorText(g.Error)
	}
	for _, at := range times {
		if at < 0 || at > latest {
			return fmt.Errorf("%w: time %d", ErrAnswer, at)
		}
	}
	for _, n := range numbers {
		if n < 0 {
			return fmt.Errorf("%w: number %d", ErrAnswer, n)
		}
	}
	for _, o := range outcomes {
		if len(o) > maxName || o != store.CutErrorText(o) {
			return fmt.Errorf("%w: outcome %.*q", ErrAnswer, maxName, o)
		}
	}
	if s.Place >= places {
		return fmt.Errorf("%w: place %d", ErrAnswer, s.Place)
	}
	return nil
}

// A Node is the rest of this peer.
type Node interface {
	// Check checks a URL that another peer sent.
	Check(u store.URL) error
	// URLState returns what this peer knows of a valid URL.
	URLState(u store.URL) (State, error)
}

// Service asks other peers and answers them. Its fields are set before its methods are called,
// which may be concurrent.
type Service struct {
	Host     host.Host
	Protocol protocol.ID
	Node     Node
	// Timeout bounds connecting to a peer and the request together.
	Timeout time.Duration
	// Logger may be nil.
	Logger *slog.Logger

	limiter wire.Limiter
}

// Serve answers the requests of other peers until the returned Server is closed.
func (s *Service) Serve() *wire.Server {
	return wire.Serve(s.Host, s.Protocol, s.limits(maxRequest), s.Logger, s.handle)
}

func (s *Service) limits(most int) wire.Limits {
	return wire.Limits{MaxMsg: most, Timeout: s.Timeout}
}

// handle answers one request.
func (s *Service) handle(_ context.Context, c *wire.Conn) error {
	var q request
	if err := c.Recv(&q); err != nil {
		return err
	}
	if !s.limiter.Allow(requestRate, c.Peer(), time.Now()) {
		return c.Send(reply{Refused: "busy"})
	}
	if err := s.Node.Check(q.URL); err != nil {
		return c.Send(reply{Refused: "the URL is not one of this network"})
	}
	state, err := s.Node.URLState(q.URL)
	if err != nil {
		if s.Logger != nil {
			s.Logger.Warn("failed to read what is known of a URL", "url", q.URL, "err", err)
		}
		return c.Send(reply{Refused: "the store cannot be read"})
	}
	return c.Send(reply{State: state})
}

// Ask returns what a peer knows of a URL. The error matches ErrRefused or ErrAnswer where these
// apply, or is that of the connection.
func (s *Service) Ask(ctx context.Context, p peer.AddrInfo, u store.URL) (_ State, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	if err := s.Host.Connect(ctx, p); err != nil {
		return State{}, err
	}
	var a reply
	err = wire.Ask(ctx, s.Host, p.ID, s.limits(maxReply), s.Protocol, request{u}, &a)
	if err != nil {
		return State{}, err
	}
	if a.Refused != "" {
		return State{}, fmt.Errorf("%w: %.*q", ErrRefused, maxReason, a.Refused)
	}
	return a.State, a.State.check()
}
