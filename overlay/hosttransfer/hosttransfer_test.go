package hosttransfer

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"go.uber.org/goleak"

	"peerd/overlay/home"
	"peerd/overlay/overlaytest"
	"peerd/overlay/wire"
	"peerd/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const name = "x.test"

var (
	from = netip.MustParsePrefix("203.0.113.0/24")
	to   = netip.MustParsePrefix("198.51.100.0/24")
	addr = netip.MustParseAddr("198.51.100.7")
)

// record is a home record of the host in to, of epoch 1: what proves a move is not
// this package's matter.
func record(t testing.TB, h string) []byte {
	t.Helper()
	key, id := overlaytest.Identity(3)
	b, err := home.Seal(home.Record{Host: h, Subnet: to, By: id, Issued: time.Now(), Epoch: 1}, key)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// side is a peer; as an Successor it does as its fields say.
type side struct {
	*Service
	t       testing.TB
	refuse  error
	merge   Merge
	unsafe  bool // no replica has what has come
	arrived []store.Host
	routed  []store.Pending
	open    atomic.Int64 // Accepts not left
	until   atomic.Value // of time.Time, the deadline of the last Accept
}

func newSide(t testing.TB) *side {
	t.Helper()
	s := &side{t: t}
	s.Service = &Service{
		DB: overlaytest.Store(t, ""), Host: overlaytest.Host(t), Protocol: "/test/carry/1",
		Receiver: s, URLs: overlaytest.URLs(func(store.URL) error { return nil }),
	}
	return s
}

func (s *side) Accept(
	ctx context.Context, _ peer.ID, _ home.Record,
) (done bool, merge Merge, leave func(), err error) {
	until, _ := ctx.Deadline()
	s.until.Store(until)
	if s.refuse != nil {
		return false, NoMerge, nil, s.refuse
	}
	s.open.Add(1)
	return false, s.merge, func() { s.open.Add(-1) }, nil
}

func (s *side) Arrived(_ context.Context, h store.Host, _ []byte, _ time.Time) error {
	s.arrived = append(s.arrived, h)
	return nil
}

func (s *side) Safe(context.Context, netip.Prefix) bool { return !s.unsafe }

func (s *side) Route(found []store.Pending) error {
	s.routed = append(s.routed, found...)
	return nil
}

func (s *side) AcceptFetched(peer.ID, string, []byte) (leave func(), err error) {
	if s.refuse != nil {
		return nil, s.refuse
	}
	s.open.Add(1)
	return func() { s.open.Add(-1) }, nil
}

func (s *side) WithoutRequests(_ context.Context, _ string, fn func() error) error { return fn() }

var know = overlaytest.Introduce

func url(i int) store.URL { return store.URL(fmt.Sprintf("http://%s/%d", name, i)) }

// fill gives a peer the host: n URLs of which every third was fetched.
func (s *side) fill(n int) {
	s.t.Helper()
	for first := 0; first < n; first += 500 {
		err := s.DB.Update(func(tx *store.Tx) error {
			if first == 0 {
				tx.PutHost(store.Host{Name: name, Subnet: from, Addr: from.Addr().Next()})
				if err := tx.PutState(name, []byte("state")); err != nil {
					return err
				}
				if err := tx.PutRobots("http://"+name, []byte("robots")); err != nil {
					return err
				}
			}
			for i := first; i < min(first+500, n); i++ {
				if _, err := tx.Push(name, store.Entry{URL: url(i), Depth: i % 5}, 0); err != nil {
					return err
				}
				if i%7 == 0 {
					err := tx.GiveUp(store.GivenUp{URL: url(i), Error: "no answer"})
					if err != nil {
						return err
					}
				}
				if i%3 == 0 {
					if err := tx.PutVisit(store.Visit{URL: url(i),
						Due: time.Now().Add(time.Hour)}); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
	var gone []store.Entry
	err := s.DB.View(func(tx *store.Tx) error {
		return tx.Queue(name, nil, func(e store.Entry) (bool, error) {
			if _, err := tx.Visit(e.URL); err == nil {
				gone = append(gone, e)
			}
			return true, nil
		})
	})
	for part := range slices.Chunk(gone, 500) {
		if err == nil {
			err = s.DB.Update(func(tx *store.Tx) (err error) {
				for _, e := range part {
					err = errors.Join(err, tx.Remove(name, e))
				}
				return err
			})
		}
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// holds sums up what a peer has of the host.
type holds struct {
	host                          bool
	home                          netip.Prefix
	pending                       int64
	queued, seen, visits, givenUp int
	first                         store.URL
	state, robots                 string
}

func (s *side) holds() (h holds) {
	s.t.Helper()
	err := s.DB.View(func(tx *store.Tx) error {
		if rec, err := tx.Host(name); err == nil {
			h.host, h.home, h.pending = true, rec.Subnet, rec.Queued
		}
		state, _ := tx.State(name)
		robots, _ := tx.Robots("http://" + name)
		h.state, h.robots = string(state), string(robots)
		return errors.Join(
			tx.Queue(name, nil, func(e store.Entry) (bool, error) {
				if h.queued++; h.queued == 1 {
					h.first = e.URL
				}
				return true, nil
			}),
			tx.SeenDigests(name, nil, func(store.Digest) (bool, error) {
				h.seen++
				return true, nil
			}),
			tx.Visits(name, nil, func(store.Visit) (bool, error) { h.visits++; return true, nil }),
			tx.EachGivenUp(name, nil, func(store.GivenUp) (bool, error) {
				h.givenUp++
				return true, nil
			}),
		)
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return h
}

func TestTransfer(t *testing.T) {
	const n = 3000
	a, b := newSide(t), newSide(t)
	know(a.Host, b.Host)
	a.fill(n)
	want := a.holds()
	want.home = to
	o := Offer{Host: name, Addr: addr, Record: record(t, name), Wait: time.Minute}
	for range 2 { // the second time after an answer that was lost
		server := b.Serve()
		err := a.Transfer(t.Context(), b.Host.ID(), o)
		server.Close() // waits for the handler, which ends after its answer
		if err != nil {
			t.Fatal(err)
		}
		if got := b.holds(); got != want {
			t.Errorf("arrived %+v, want %+v", got, want)
		}
	}
	if len(b.arrived) != 2 || b.arrived[0].Addr != addr ||
		time.Until(b.arrived[0].NextAt) < 50*time.Second {
		t.Errorf("arrived %+v", b.arrived)
	}
	if b.open.Load() != 0 {
		t.Errorf("%d subnets are held, want none", b.open.Load())
	}
}

// The sender keeps its copy until the replicas of the receiver have the host.
func TestTransferWaitsForReplicas(t *testing.T) {
	a, b := newSide(t), newSide(t)
	know(a.Host, b.Host)
	a.fill(10)
	server := b.Serve()
	defer server.Close()
	o := Offer{Host: name, Addr: addr, Record: record(t, name)}
	b.unsafe = true
	if err := a.Transfer(t.Context(), b.Host.ID(), o); err == nil || errors.Is(err, ErrRefused) {
		t.Errorf("without a replica: %v, want that the transfer is repeated", err)
	}
	b.unsafe = false
	if err := a.Transfer(t.Context(), b.Host.ID(), o); err != nil {
		t.Errorf("with a replica: %v", err)
	}
}

// transferUpTo offers a host to b, which breaks off after so many URLs.
func (s *side) transferUpTo(b *side, o Offer, urls int) error {
	server := wire.Serve(b.Host, b.Protocol, limits, nil,
		func(ctx context.Context, c *wire.Conn) error {
			n := 0
			b.URLs = overlaytest.URLs(func(store.URL) error {
				if n++; n > urls {
					return errors.New("broken off")
				}
				return nil
			})
			return b.handle(ctx, c)
		})
	defer server.Close()
	return s.Transfer(s.t.Context(), b.Host.ID(), o)
}

// Broken off anywhere it leaves nothing behind, and is begun again.
func TestTransferInterrupted(t *testing.T) {
	a, b := newSide(t), newSide(t)
	know(a.Host, b.Host)
	a.fill(1200)
	want := a.holds()
	want.home = to
	o := Offer{Host: name, Addr: addr, Record: record(t, name)}
	for frames := range 12 {
		err := a.transferUpTo(b, o, 150*frames)
		got := b.holds()
		switch {
		case err == nil && got != want:
			t.Errorf("%d: arrived %+v, want %+v", frames, got, want)
		case err != nil && (got.host || got.queued+got.seen+got.visits+got.givenUp > 0):
			t.Errorf("%d: left behind %+v", frames, got)
		}
		if err == nil {
			return
		}
	}
	t.Error("it never arrived")
}

// A crash in the middle leaves a host of no subnet, which the next start sweeps.
func TestSweep(t *testing.T) {
	b := newSide(t)
	in := &intake{s: b.Service, o: Offer{Host: name, Addr: addr}, subnet: to}
	if err := in.begin(); err != nil {
		t.Fatal(err)
	}
	if err := in.store(chunk{Entries: []store.Entry{{URL: url(1)}},
		Seen: []store.Digest{url(2).Digest()}}); err != nil {
		t.Fatal(err)
	}
	if err := b.Sweep(); err != nil {
		t.Fatal(err)
	}
	if got := b.holds(); got != (holds{}) {
		t.Errorf("left %+v", got)
	}
}

// A host that is here already keeps its own, and learns what was seen elsewhere, but only from one
// that was its owner: others would keep pages from being fetched.
func TestMerge(t *testing.T) {
	for merge, seen := range map[Merge]int{MergeAll: 91, MergeURLs: 1} {
		a, b := newSide(t), newSide(t)
		know(a.Host, b.Host)
		server := b.Serve()
		defer server.Close()
		a.fill(90)
		b.merge = merge
		err := b.DB.Update(func(tx *store.Tx) error {
			tx.PutHost(store.Host{Name: name, Subnet: to, Addr: addr})
			_, err := tx.Push(name, store.Entry{URL: url(1000)}, 0)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Transfer(t.Context(), b.Host.ID(),
			Offer{Host: name, Addr: addr, Record: record(t, name)}); err != nil {
			t.Fatal(err)
		}
		got := b.holds()
		if got.queued != 1 || got.pending != 1 || got.seen != seen || got.home != to ||
			len(b.routed) != 60 || (got.givenUp > 0) != (merge == MergeAll) {
			t.Errorf("merge %v: %+v, %d routed", merge, got, len(b.routed))
		}
	}
}

func TestRefused(t *testing.T) {
	a, b := newSide(t), newSide(t)
	know(a.Host, b.Host)
	server := b.Serve()
	defer server.Close()
	a.fill(10)
	b.refuse = errors.New("x" + strings.Repeat("ü", maxReason)) // no character is cut
	good := Offer{Host: name, Addr: addr, Record: record(t, name)}
	for what, o := range map[string]Offer{
		"by the successor":    good,
		"without a record":    {Host: name, Addr: addr},
		"record of another":   {Host: name, Addr: addr, Record: record(t, "y.test")},
		"address out of home": {Host: name, Addr: from.Addr().Next(), Record: good.Record},
	} {
		if err := a.Transfer(t.Context(), b.Host.ID(), o); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if got := b.holds(); got != (holds{}) {
		t.Errorf("left %+v", got)
	}
}

// begin opens a conversation about a host, which the caller ends, and returns the answer.
func (s *side) begin(to *side, h string) (*wire.Conn, outcome) {
	s.t.Helper()
	c, err := wire.Dial(s.t.Context(), s.Host, to.Host.ID(), limits, s.Protocol)
	if err != nil {
		s.t.Fatal(err)
	}
	var r reply
	err = c.Send(Offer{Host: h, Addr: addr, Record: record(s.t, h)})
	if err == nil {
		err = c.Recv(&r)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return c, r.Outcome
}

// A conversation that goes on and on is ended, and its subnet is free to leave.
func TestEndlessTransferIsEnded(t *testing.T) {
	a, b := newSide(t), newSide(t)
	know(a.Host, b.Host)
	handled := make(chan error, 1)
	began := make(chan context.CancelFunc, 1)
	server := wire.Serve(b.Host, b.Protocol, limits, nil,
		func(ctx context.Context, c *wire.Conn) error {
			ctx, cancel := context.WithCancel(ctx)
			began <- cancel
			err := b.handle(ctx, c)
			handled <- err
			return err
		})
	defer server.Close()
	c, got := a.begin(b, name)
	defer c.Reset()
	if got != outcomeOK {
		t.Fatalf("outcome %d, want %d", got, outcomeOK)
	}
	if err := c.SendZ(chunk{}); err != nil {
		t.Fatal(err)
	}
	(<-began)() // as at the deadline
	if err := <-handled; err == nil || b.open.Load() != 0 {
		t.Errorf("handle() = %v, %d subnets are held; want an error and none", err, b.open.Load())
	}
	until, _ := b.until.Load().(time.Time)
	if left := time.Until(until); until.IsZero() || left > MaxTime {
		t.Errorf("it may last %v more, want at most %v", left, MaxTime)
	}
	if got := b.holds(); got != (holds{}) {
		t.Errorf("left %+v", got)
	}
}

// One peer does not take all places.
func TestPlacesForOtherPeers(t *testing.T) {
	a, b, other := newSide(t), newSide(t), newSide(t)
	know(a.Host, b.Host, other.Host)
	server := b.Serve()
	defer server.Close()
	for i := range maxIncoming {
		c, got := a.begin(b, fmt.Sprintf("h%d.test", i))
		defer c.Reset()
		want := outcomeOK
		if i >= maxFromPeer {
			want = outcomeRefused
		}
		if got != want {
			t.Errorf("host %d of one peer: outcome %d, want %d", i, got, want)
		}
	}
	c, got := other.begin(b, name)
	defer c.Reset()
	if got != outcomeOK {
		t.Errorf("host of another peer: outcome %d, want %d", got, outcomeOK)
	}
}

// A history that no replica would accept is left out, and the visit remains.
func TestLongHistory(t *testing.T) {
	c := chunk{Visits: []store.Visit{{URL: url(1), History: make([]byte, maxHistory)},
		{URL: url(2), History: make([]byte, maxHistory+1)}}}
	if err := c.check(name, func(store.URL) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if a, b := c.Visits[0], c.Visits[1]; len(a.History) != maxHistory || b.History != nil {
		t.Errorf("histories of %d and %d bytes, want %d and 0", len(a.History), len(b.History),
			maxHistory)
	}
}

// FuzzChunk checks what of a chunk may be used.
func FuzzChunk(f *testing.F) {
	good, err := wire.Marshal(chunk{Entries: []store.Entry{{URL: url(1), Depth: -1}},
		Robots: map[string][]byte{"http://" + name: {1}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, raw []byte) {
		var c chunk
		if wire.Unmarshal(raw, &c) != nil || c.check(name, func(store.URL) error {
			return nil
		}) != nil {
			return
		}
		for _, e := range c.Entries {
			if e.URL.Host() != name || e.Depth < 0 || e.Tries < 0 || e.Hops < 0 {
				t.Fatalf("used %+v", e)
			}
		}
	})
}
