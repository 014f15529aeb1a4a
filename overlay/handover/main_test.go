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
	"peerd/overlay/replica"
	"peerd/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	proto        = "/test/handover/1"
	replicaProto = "/test/replica/1"
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

// fakeSuccessor is a successor with no state besides its store.
type fakeSuccessor struct {
	db     *store.DB
	refuse error
	offer  func(from peer.ID) // called before it considers an offer, if set
	adopt  func() error       // called before it adopts, if set
	links  atomic.Int64       // pending URLs reported
}

func (h *fakeSuccessor) AcceptOffer(_ context.Context, from peer.ID, o Offer) ([]byte, error) {
	if h.offer != nil {
		h.offer(from)
	}
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

func (h *fakeSuccessor) TakeOwnership(
	_ context.Context, from peer.ID, o Offer, grant []byte,
) ([]byte, error) {
	if string(grant) != "grant" {
		return nil, fmt.Errorf("grant %q", grant)
	}
	if h.adopt != nil {
		if err := h.adopt(); err != nil {
			return nil, err
		}
	}
	byHost, err := h.db.PromoteOutlinks(o.Subnet)
	if err != nil {
		return nil, err
	}
	for _, n := range byHost {
		h.links.Add(int64(n))
	}
	lease := []byte("lease from " + from.String())
	if err := h.db.StartLog(o.Subnet, rand.Uint64()|1, o.Pos); err != nil {
		return nil, err
	}
	return lease, h.db.Update(func(tx *store.Tx) error {
		return tx.PutSubnet(store.Subnet{Prefix: o.Subnet, Phase: store.PhaseOwned, Epoch: o.Epoch,
			Lease: lease})
	})
}

// startReplica starts a replica.Service.
func startReplica(t testing.TB, h host.Host, db *store.DB) (*replica.Service, func()) {
	t.Helper()
	s, err := replica.New(replica.Config{
		Host: h, Protocol: replicaProto, DB: db, Policy: acceptAll{},
		URLs:      overlaytest.URLs(func(store.URL) error { return nil }),
		Heartbeat: 20 * time.Millisecond, BatchDelay: 2 * time.Millisecond,
		SyncEvery: 10 * time.Millisecond,
		Redial:    5 * time.Millisecond, Retry: 20 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	eventually(t, "the protocol is served", func() bool {
		return slices.Contains(h.Mux().Protocols(), protocol.ID(replicaProto))
	})
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return s, stop
}

// acceptAll is a replica.Policy that accepts all copies.
type acceptAll struct{}

func (acceptAll) AcceptCopy(peer.ID, replica.OpenRequest) error     { return nil }
func (acceptAll) CopyRequested(netip.Prefix)                        {}
func (acceptAll) CopyReported(netip.Prefix)                         {}
func (acceptAll) CurrentLease(netip.Prefix) (peer.ID, uint64, bool) { return "", 0, false }

// serve starts a successor.
func serve(t testing.TB, h host.Host, he *fakeSuccessor) (*replica.Service, func()) {
	t.Helper()
	c, end := startReplica(t, h, he.db)
	r := &Receiver{DB: he.db, Successor: he, Copies: c}
	s := r.Serve(h, proto, nil)
	stop := func() { s.Close(); end() }
	t.Cleanup(stop)
	return c, stop
}

// fill writes a subnet with three hosts: one with a long queue, one with fetched URLs, and
// an empty one.
func fill(t testing.TB, db *store.DB) {
	t.Helper()
	update(t, db, func(tx *store.Tx) error {
		return tx.PutSubnet(store.Subnet{Prefix: subnet, Phase: store.PhaseDeciding, Epoch: 1})
	})
	for i, name := range []string{"a.test", "b.test", "c.test"} {
		h := store.Host{Name: name, Subnet: subnet, Addr: subnet.Addr().Next(), NextAt: time.Now()}
		update(t, db, func(tx *store.Tx) error {
			tx.PutHost(h)
			return tx.PutRobots("http://"+name, []byte(name))
		})
		n := []int{600, 10, 0}[i]
		for n > 0 {
			update(t, db, func(tx *store.Tx) error {
				for range min(n, 400) {
					n--
					if _, err := tx.Push(name,
						store.Entry{URL: store.URL(fmt.Sprintf("http://%s/%d", name, n)),
							Depth: n % 3}, 0); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	update(t, db, func(tx *store.Tx) error { // fetched: seen and no longer queued
		var all []store.Entry
		err := tx.Queue("b.test", nil, func(e store.Entry) (bool, error) {
			all = append(all, e)
			return true, nil
		})
		for i, e := range all {
			err = errors.Join(err, tx.Remove("b.test", e), tx.PutVisit(store.Visit{
				URL: e.URL, Depth: e.Depth,
				Due:     time.UnixMicro(1e15).Add(time.Duration(i) * time.Hour),
				History: []byte{byte(i)},
			}))
		}
		// One of them is queued again, one is of a sitemap and was redirected to.
		due, derr := tx.TakeDue("b.test", time.UnixMicro(1e15), 1)
		if err = errors.Join(err, derr); err != nil || len(due) != 1 {
			return fmt.Errorf("%d are due: %w", len(due), err)
		}
		if _, err := tx.PushRevisit("b.test", store.Entry{URL: due[0].URL, Depth: 1}); err != nil {
			return err
		}
		_, err = tx.Push("b.test", store.Entry{URL: "http://b.test/sitemap",
			Kind: store.KindSitemap, Hops: 3}, 0)
		for i := range outlinks {
			u := store.URL(fmt.Sprintf("http://else.test/%d", i))
			_, derr := tx.AddPending(store.Pending{URL: u, From: "b.test",
				Found: time.UnixMicro(1e15)})
			err = errors.Join(err, derr)
		}
		return errors.Join(err, tx.PutState("b.test", []byte("learned")))
	})
}

// outlinks is the number of pending out-links that fill writes.
const outlinks = 7

// state is everything in a store about one host.
type state struct {
	host   store.Host
	queue  []store.Entry
	seen   []store.Digest
	robots map[string]string
	visits []store.Visit
	learnt string
}

// contents returns what a store has of the hosts that fill writes, with or without a
// record.
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
			err = errors.Join(err, tx.RobotsOf(name, func(o string, v []byte) error {
				s.robots[o] = string(v)
				return nil
			}))
			err = errors.Join(err, tx.Visits(name, nil, func(v store.Visit) (bool, error) {
				s.visits = append(s.visits, v)
				return true, nil
			}))
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

// owner is a peer that hands over its subnet.
type owner struct {
	db   *store.DB
	s    *Sender
	svc  *replica.Service
	stop func()
}

// newOwner starts a peer that owns what is in its store.
func newOwner(t testing.TB, db *store.DB, h host.Host) *owner {
	t.Helper()
	svc, stop := startReplica(t, h, db)
	return &owner{db: db, svc: svc, stop: stop, s: &Sender{Host: h, Protocol: proto, DB: db,
		Followers: svc}}
}

// handOver hands the subnet over and deletes its data.
func (o *owner) handOver(t testing.TB, to peer.ID) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	lease, err := o.s.Send(ctx, to, Offer{Subnet: subnet, Epoch: 2}, func() ([]byte, error) {
		return []byte("grant"), o.db.Update(func(tx *store.Tx) error {
			return tx.PutSubnet(store.Subnet{Prefix: subnet, Phase: store.PhaseCommitting,
				Epoch: 1})
		})
	})
	if err != nil {
		return err
	}
	if want := []byte("lease from " + o.s.Host.ID().String()); !bytes.Equal(lease, want) {
		t.Errorf("Send() = lease %q, want %q", lease, want)
	}
	if err := o.svc.Release(subnet); err != nil {
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

// flakyHost is a host that breaks a stream at the n-th read or write.
type flakyHost struct {
	host.Host
	gentle bool // what was written arrives; otherwise it may not

	mu   sync.Mutex
	left int  // operations until the break
	cut  bool // it has happened
}

func (c *flakyHost) NewStream(
	ctx context.Context, p peer.ID, protos ...protocol.ID,
) (network.Stream, error) {
	s, err := c.Host.NewStream(ctx, p, protos...)
	if err != nil {
		return nil, err
	}
	return &flakyStream{s, c}, nil
}

// repair makes the connection hold for another n operations.
func (c *flakyHost) repair(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut, c.left = false, n
}

func (c *flakyHost) wasCut() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cut
}

var errCut = errors.New("broken connection")

type flakyStream struct {
	network.Stream
	c *flakyHost
}

// do does one operation, or breaks the connection.
func (s *flakyStream) do(op func([]byte) (int, error), b []byte) (int, error) {
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

func (s *flakyStream) Write(b []byte) (int, error) { return s.do(s.Stream.Write, b) }
func (s *flakyStream) Read(b []byte) (int, error)  { return s.do(s.Stream.Read, b) }

// Reset does not discard what was written before a gentle break.
func (s *flakyStream) Reset() error {
	if s.c.gentle && s.c.wasCut() {
		return s.Close()
	}
	return s.Stream.Reset()
}

func checkSame(t testing.TB, got, want map[string]state) {
	t.Helper()
	for name, w := range want {
		g := got[name]
		if !reflect.DeepEqual(g, w) {
			t.Errorf("%s: %d queued, %d seen, robots %v, record %+v; want %d, %d, %v, %+v", name,
				len(g.queue), len(g.seen), g.robots, g.host, len(w.queue), len(w.seen), w.robots,
				w.host)
		}
	}
	if len(got) != len(want) {
		t.Errorf("there are %d hosts, want %d", len(got), len(want))
	}
}
