package handover

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"go.uber.org/goleak"

	"peerd/overlay/overlaytest"
	"peerd/overlay/shadow"
	"peerd/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	proto       = "/test/handover/1"
	shadowProto = "/test/shadow/1"
)

var (
	subnet = netip.MustParsePrefix("192.0.2.0/24")
	other  = netip.MustParsePrefix("198.51.100.0/24")
)

var (
	open       = overlaytest.Store
	listen     = overlaytest.Host
	eventually = overlaytest.Until
)

func pair(t testing.TB) (a, b host.Host) {
	a, b = listen(t), listen(t)
	overlaytest.Introduce(a, b)
	return a, b
}

func update(t testing.TB, db *store.DB, fn func(tx *store.Tx) error) {
	t.Helper()
	if err := db.Update(fn); err != nil {
		t.Fatal(err)
	}
}

// heir is a peer that takes over whatever is granted, and knows it from its
// disk alone.
type heir struct {
	db     *store.DB
	refuse error
	adopt  func() error // called before it adopts, if set
	links  atomic.Int64 // put aside
}

func (h *heir) count(byHost map[string]int) {
	for _, n := range byHost {
		h.links.Add(int64(n))
	}
}

func (h *heir) Consider(_ peer.ID, o Offer) ([]byte, error) {
	var have []byte
	err := h.db.View(func(tx *store.Tx) error {
		s, err := tx.Subnet(o.Subnet)
		if err == nil && s.Phase == store.PhaseOwned && s.Epoch >= o.Epoch {
			have = s.Lease
		}
		return nil
	})
	return have, errors.Join(err, h.refuse)
}

func (h *heir) Adopt(_ context.Context, from peer.ID, o Offer, grant []byte, hosts []store.Host) ([]byte, error) {
	if string(grant) != "grant" {
		return nil, fmt.Errorf("grant %q", grant)
	}
	if h.adopt != nil {
		if err := h.adopt(); err != nil {
			return nil, err
		}
	}
	lease := []byte("lease from " + from.String())
	if err := h.db.StartTail(o.Subnet, rand.Uint64()|1, o.Pos); err != nil {
		return nil, err
	}
	return lease, h.db.Update(func(tx *store.Tx) error {
		return tx.PutSubnet(store.Subnet{Prefix: o.Subnet, Phase: store.PhaseOwned, Epoch: o.Epoch, Lease: lease})
	})
}

// copies starts a peer's half of package shadow.
func copies(t testing.TB, h host.Host, db *store.DB) (*shadow.Service, func()) {
	t.Helper()
	s, err := shadow.New(shadow.Config{
		Host: h, Protocol: shadowProto, DB: db, Keeper: anything{},
		Check: func(store.URL) error { return nil },
		Beat:  20 * time.Millisecond, Gather: 2 * time.Millisecond, SyncEvery: 10 * time.Millisecond,
		Redial: 5 * time.Millisecond, Retry: 20 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	eventually(t, "it serves", func() bool { return slices.Contains(h.Mux().Protocols(), protocol.ID(shadowProto)) })
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return s, stop
}

// anything is a shadow.Keeper that takes anything.
type anything struct{}

func (anything) Willing(peer.ID, shadow.Open) error           { return nil }
func (anything) Wanted(netip.Prefix)                          {}
func (anything) Reminded(netip.Prefix)                        {}
func (anything) Current(netip.Prefix) (peer.ID, uint64, bool) { return "", 0, false }

// serve starts an heir.
func serve(t testing.TB, h host.Host, he *heir) (*shadow.Service, func()) {
	t.Helper()
	c, end := copies(t, h, he.db)
	r := &Receiver{DB: he.db, Heir: he, Copies: c, Deferred: he.count}
	s := r.Serve(h, proto, nil)
	stop := func() { s.Close(); end() }
	t.Cleanup(stop)
	return c, stop
}

// fill gives an owner three hosts: with a queue of several chunks, with a
// seen-set only, and with nothing.
func fill(t testing.TB, db *store.DB) {
	t.Helper()
	update(t, db, func(tx *store.Tx) error {
		return tx.PutSubnet(store.Subnet{Prefix: subnet, Phase: store.PhaseDeciding, Epoch: 1})
	})
	for i, name := range []string{"a.test", "b.test", "c.test"} {
		h := store.Host{Name: name, Subnet: subnet, Addr: subnet.Addr().Next(), NextAt: time.Now()}
		update(t, db, func(tx *store.Tx) error { tx.PutHost(h); return tx.PutRobots("http://"+name, []byte(name)) })
		n := []int{600, 10, 0}[i]
		for n > 0 {
			update(t, db, func(tx *store.Tx) error {
				for range min(n, 400) {
					n--
					if _, err := tx.Push(name, store.Entry{URL: store.URL(fmt.Sprintf("http://%s/%d", name, n)), Depth: n % 3}, 0); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	update(t, db, func(tx *store.Tx) error { // fetched: seen and no longer queued
		var all []store.Entry
		err := tx.Queue("b.test", nil, func(e store.Entry) (bool, error) { all = append(all, e); return true, nil })
		for i, e := range all {
			err = errors.Join(err, tx.Remove("b.test", e), tx.PutVisit(store.Visit{
				URL: e.URL, Depth: e.Depth, Due: time.UnixMicro(1e15).Add(time.Duration(i) * time.Hour), History: []byte{byte(i)},
			}))
		}
		// One of them is queued again, one is of a sitemap and was redirected to.
		due, derr := tx.TakeDue("b.test", time.UnixMicro(1e15), 1)
		if err = errors.Join(err, derr); err != nil || len(due) != 1 {
			return fmt.Errorf("%d are due: %w", len(due), err)
		}
		if _, err := tx.PushAgain("b.test", store.Entry{URL: due[0].URL, Depth: 1}); err != nil {
			return err
		}
		_, err = tx.Push("b.test", store.Entry{URL: "http://b.test/sitemap", Kind: store.KindSitemap, Hops: 3}, 0)
		for i := range outlinks {
			u := store.URL(fmt.Sprintf("http://else.test/%d", i))
			_, derr := tx.Defer(store.Pending{URL: u, From: "b.test", Found: time.UnixMicro(1e15)})
			err = errors.Join(err, derr)
		}
		return errors.Join(err, tx.PutState("b.test", []byte("learned")))
	})
}

// outlinks is how many URLs fill puts aside that pages of the subnet link to.
const outlinks = 7

// state is everything that a store knows of one host.
type state struct {
	host   store.Host
	queue  []store.Entry
	seen   []store.Digest
	robots map[string]string
	visits []store.Visit
	learnt string
}

// contents returns what a store knows of the hosts that fill makes, records
// missing or not.
func contents(t testing.TB, db *store.DB) map[string]state {
	t.Helper()
	all := map[string]state{}
	err := db.View(func(tx *store.Tx) error {
		for _, name := range []string{"a.test", "b.test", "c.test"} {
			s := state{robots: map[string]string{}}
			h, herr := tx.Host(name)
			if herr == nil {
				s.host = *h
				s.host.Assigned = false
			}
			err := tx.Queue(name, nil, func(e store.Entry) (bool, error) {
				e.Key = nil
				s.queue = append(s.queue, e)
				return true, nil
			})
			err = errors.Join(err, tx.SeenDigests(name, nil, func(d store.Digest) (bool, error) {
				s.seen = append(s.seen, d)
				return true, nil
			}))
			err = errors.Join(err, tx.RobotsOf(name, func(o string, v []byte) error { s.robots[o] = string(v); return nil }))
			err = errors.Join(err, tx.Visits(name, func(v store.Visit) (bool, error) { s.visits = append(s.visits, v); return true, nil }))
			learnt, serr := tx.State(name)
			if !errors.Is(serr, store.ErrNotFound) {
				err = errors.Join(err, serr)
			}
			s.learnt = string(learnt)
			if err != nil {
				return err
			}
			if herr == nil || len(s.queue)+len(s.seen) > 0 {
				all[name] = s
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func phase(t testing.TB, db *store.DB) store.Phase {
	t.Helper()
	var p store.Phase
	err := db.View(func(tx *store.Tx) error {
		s, err := tx.Subnet(subnet)
		p = s.Phase
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// owner is a peer that hands its subnet over.
type owner struct {
	db   *store.DB
	s    *Sender
	svc  *shadow.Service
	stop func()
}

// owns starts a peer that owns what fill makes, or what is on its disk.
func owns(t testing.TB, db *store.DB, h host.Host) *owner {
	t.Helper()
	svc, stop := copies(t, h, db)
	return &owner{db: db, svc: svc, stop: stop, s: &Sender{Host: h, Protocol: proto, DB: db, Shadows: svc}}
}

// leave is one try of an owner to hand its subnet over, and what it does after.
func (o *owner) leave(t testing.TB, to peer.ID) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	lease, err := o.s.Send(ctx, to, Offer{Subnet: subnet, Epoch: 2}, func() ([]byte, error) {
		return []byte("grant"), o.db.Update(func(tx *store.Tx) error {
			return tx.PutSubnet(store.Subnet{Prefix: subnet, Phase: store.PhaseCommitting, Epoch: 1})
		})
	})
	if err != nil {
		return err
	}
	if want := []byte("lease from " + o.s.Host.ID().String()); !bytes.Equal(lease, want) {
		t.Errorf("lease %q", lease)
	}
	if err := o.svc.Leave(subnet); err != nil {
		t.Fatal(err)
	}
	for name := range contents(t, o.db) {
		if err := o.db.DropHost(name); err != nil {
			t.Fatal(err)
		}
	}
	update(t, o.db, func(tx *store.Tx) error { return tx.DeleteSubnet(subnet) })
	return nil
}

// cutter is a host whose streams break at their n-th read or write.
type cutter struct {
	host.Host
	gentle bool // what was written arrives; else it may not

	mu   sync.Mutex
	left int  // operations until the cut
	cut  bool // it has happened
}

func (c *cutter) NewStream(ctx context.Context, p peer.ID, protos ...protocol.ID) (network.Stream, error) {
	s, err := c.Host.NewStream(ctx, p, protos...)
	if err != nil {
		return nil, err
	}
	return &cutStream{s, c}, nil
}

// mend makes the line hold for another n operations.
func (c *cutter) mend(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut, c.left = false, n
}

func (c *cutter) wasCut() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cut
}

var errCut = errors.New("the line is cut")

type cutStream struct {
	network.Stream
	c *cutter
}

// do does one operation, or cuts the line at it.
func (s *cutStream) do(op func([]byte) (int, error), b []byte) (int, error) {
	s.c.mu.Lock()
	was := s.c.cut
	s.c.left--
	s.c.cut = was || s.c.left <= 0
	now := s.c.cut
	s.c.mu.Unlock()
	switch {
	case !now:
		return op(b)
	case was || !s.c.gentle:
		_ = s.Stream.Reset()
		return 0, errCut
	}
	_, _ = op(b)
	_ = s.Close()
	return 0, errCut
}

func (s *cutStream) Write(b []byte) (int, error) { return s.do(s.Stream.Write, b) }
func (s *cutStream) Read(b []byte) (int, error)  { return s.do(s.Stream.Read, b) }

// Reset of a line that was cut gently takes back nothing that was written.
func (s *cutStream) Reset() error {
	if s.c.gentle && s.c.wasCut() {
		return s.Close()
	}
	return s.Stream.Reset()
}

func same(t testing.TB, got, want map[string]state) {
	t.Helper()
	for name, w := range want {
		g := got[name]
		if !reflect.DeepEqual(g, w) {
			t.Errorf("%s: %d queued, %d seen, robots %v, record %+v; want %d, %d, %v, %+v", name,
				len(g.queue), len(g.seen), g.robots, g.host, len(w.queue), len(w.seen), w.robots, w.host)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d hosts, want %d", len(got), len(want))
	}
}
