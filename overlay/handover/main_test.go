package handover

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"go.uber.org/goleak"

	"peerd/overlay/wire"
	"peerd/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const proto = "/test/handover/1"

var (
	subnet = netip.MustParsePrefix("192.0.2.0/24")
	other  = netip.MustParsePrefix("198.51.100.0/24")
)

func open(t testing.TB, dir string) *store.DB {
	t.Helper()
	db, err := store.Open(dir, store.Options{MemTable: 8 << 20, BlockCache: 8 << 20, IndexCache: 4 << 20, InMemory: dir == ""})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func listen(t testing.TB) host.Host {
	t.Helper()
	h, err := libp2p.New(
		libp2p.ListenAddrStrings("/ip4/127.0.0.1/tcp/0"), libp2p.DisableMetrics(), libp2p.DisableRelay(),
		libp2p.ResourceManager(&network.NullResourceManager{}),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

func pair(t testing.TB) (a, b host.Host) {
	a, b = listen(t), listen(t)
	a.Peerstore().AddAddrs(b.ID(), b.Addrs(), time.Hour)
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
	return lease, h.db.Update(func(tx *store.Tx) error {
		return tx.PutSubnet(store.Subnet{Prefix: o.Subnet, Phase: store.PhaseOwned, Epoch: o.Epoch, Lease: lease})
	})
}

func serve(t testing.TB, h host.Host, he *heir) (*Receiver, *wire.Server) {
	t.Helper()
	r := &Receiver{DB: he.db, Heir: he, Check: func(u store.URL) error {
		if strings.HasSuffix(string(u), "/bad") {
			return errors.New("bad")
		}
		return nil
	}}
	if err := r.Sweep(); err != nil {
		t.Fatal(err)
	}
	s := r.Serve(h, proto, nil)
	t.Cleanup(s.Close)
	return r, s
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
		return errors.Join(err, tx.PutState("b.test", []byte("learned")))
	})
}

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
				s.host.NextAt, s.host.Assigned, s.host.DueAt = time.Time{}, false, time.Time{}
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

// leave is one try of an owner to hand its subnet over, and what it does after.
func leave(t testing.TB, db *store.DB, h host.Host, to peer.ID) error {
	t.Helper()
	s := &Sender{Host: h, Protocol: proto, DB: db}
	lease, err := s.Send(t.Context(), to, Offer{Subnet: subnet, Epoch: 2}, func() ([]byte, error) {
		return []byte("grant"), db.Update(func(tx *store.Tx) error {
			return tx.PutSubnet(store.Subnet{Prefix: subnet, Phase: store.PhaseCommitting, Epoch: 1})
		})
	})
	if err != nil {
		return err
	}
	if want := []byte("lease from " + h.ID().String()); !bytes.Equal(lease, want) {
		t.Errorf("lease %q", lease)
	}
	for name := range contents(t, db) {
		if err := db.DropHost(name); err != nil {
			t.Fatal(err)
		}
	}
	update(t, db, func(tx *store.Tx) error { return tx.DeleteSubnet(subnet) })
	return nil
}

// cutter is a host whose streams break at their n-th read or write.
type cutter struct {
	host.Host
	left   int  // operations until the cut
	gentle bool // what was written arrives; else it may not
	cut    bool // it has happened
}

func (c *cutter) NewStream(ctx context.Context, p peer.ID, protos ...protocol.ID) (network.Stream, error) {
	s, err := c.Host.NewStream(ctx, p, protos...)
	if err != nil {
		return nil, err
	}
	return &cutStream{s, c}, nil
}

var errCut = errors.New("the line is cut")

type cutStream struct {
	network.Stream
	c *cutter
}

// do does one operation, or cuts the line at it.
func (s *cutStream) do(op func([]byte) (int, error), b []byte) (int, error) {
	if s.c.cut {
		return 0, errCut
	}
	if s.c.left--; s.c.left > 0 {
		return op(b)
	}
	s.c.cut = true
	if !s.c.gentle {
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
	if s.c.cut && s.c.gentle {
		return s.Close()
	}
	return s.Stream.Reset()
}

// eventually waits until cond holds.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(20 * time.Second)
	for !cond() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("not within 20 s: %s", what)
		}
	}
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
