package replica

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"go.uber.org/goleak"

	"peerd/overlay/overlaytest"
	"peerd/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const proto = "/test/replica/1"

var (
	subnet = netip.MustParsePrefix("192.0.2.0/24")
	other  = netip.MustParsePrefix("198.51.100.0/24")
)

var (
	open       = overlaytest.Store
	listen     = overlaytest.Host
	eventually = overlaytest.Until
)

func hostPair(t testing.TB) (a, b host.Host) {
	a, b = listen(t), listen(t)
	overlaytest.Introduce(a, b)
	return a, b
}

// fakePolicy accepts copies unless it is told to refuse.
type fakePolicy struct {
	mu        sync.Mutex
	refuse    error
	current   func(netip.Prefix) (peer.ID, uint64, bool)
	opens     []OpenRequest
	reported  []netip.Prefix
	requested []netip.Prefix
}

func (k *fakePolicy) AcceptCopy(_ peer.ID, o OpenRequest) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.opens = append(k.opens, o)
	return k.refuse
}

func (k *fakePolicy) CurrentLease(p netip.Prefix) (peer.ID, uint64, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.current == nil {
		return "", 0, false
	}
	return k.current(p)
}

func (k *fakePolicy) CopyRequested(p netip.Prefix) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.requested = append(k.requested, p)
}

func (k *fakePolicy) CopyReported(p netip.Prefix) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reported = append(k.reported, p)
}

func (k *fakePolicy) set(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refuse = err
}

// member is one peer.
type member struct {
	*Service
	host   host.Host
	db     *store.DB
	policy *fakePolicy
	stop   func()
}

func checkURL(u store.URL) error {
	if strings.HasSuffix(string(u), "/bad") {
		return errors.New("bad")
	}
	return nil
}

// startMember starts a Service.
func startMember(t testing.TB, h host.Host, db *store.DB, change func(*Config)) *member {
	t.Helper()
	m := &member{host: h, db: db, policy: &fakePolicy{}}
	cfg := Config{
		Host: h, Protocol: proto, QueryProtocol: "/test/copies/1", DB: db, Policy: m.policy,
		URLs:      overlaytest.URLs(checkURL),
		Heartbeat: 50 * time.Millisecond, BatchDelay: 5 * time.Millisecond,
		SyncEvery: 20 * time.Millisecond,
		Redial:    10 * time.Millisecond, Retry: 50 * time.Millisecond, Logger: overlaytest.Log(t),
	}
	if change != nil {
		change(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	m.Service = s
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	eventually(t, "the protocol is served", func() bool {
		return slices.Contains(h.Mux().Protocols(), protocol.ID(proto))
	})
	m.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(m.stop)
	return m
}

func update(t testing.TB, db *store.DB, fn func(tx *store.Tx) error) {
	t.Helper()
	if err := db.Update(fn); err != nil {
		t.Fatal(err)
	}
}

func entry(host string, i int) store.Entry {
	return store.Entry{URL: store.URL(fmt.Sprintf("http://%s/%d", host, i)), Depth: i % 3}
}

// addHost adds a host with n queued URLs.
func addHost(t testing.TB, db *store.DB, p netip.Prefix, name string, n int) {
	t.Helper()
	update(t, db, func(tx *store.Tx) error {
		tx.PutHost(store.Host{Name: name, Subnet: p, Addr: p.Addr().Next()})
		return errors.Join(tx.PutRobots("http://"+name, []byte(name)),
			tx.PutState(name, []byte("state of "+name)))
	})
	push(t, db, name, 0, n)
}

// push queues the URLs with the numbers from to to-1.
func push(t testing.TB, db *store.DB, name string, from, to int) {
	t.Helper()
	for from < to {
		update(t, db, func(tx *store.Tx) error {
			for range min(to-from, 300) {
				if _, err := tx.Push(name, entry(name, from), 0); err != nil {
					return err
				}
				from++
			}
			return nil
		})
	}
}

// crawl fetches n pages of a host: each leaves the queue, has a visit due, and links to
// another host.
func crawl(t testing.TB, db *store.DB, name string, n int) {
	t.Helper()
	for range n {
		update(t, db, func(tx *store.Tx) error {
			e, err := tx.Peek(name)
			if err != nil {
				return err
			}
			_, err = tx.AddPending(store.Pending{
				URL: store.URL(strings.Replace(string(e.URL), name, "else.test", 1)), From: name,
				Found: time.UnixMicro(1e15),
			})
			return errors.Join(err, tx.Remove(name, e),
				tx.PutVisit(store.Visit{URL: e.URL, Due: time.UnixMicro(1e15),
					History: []byte("once")}))
		})
	}
}

// addOwned adds an owned subnet with three hosts.
func addOwned(t testing.TB, db *store.DB, p netip.Prefix) {
	t.Helper()
	update(t, db, func(tx *store.Tx) error {
		return tx.PutSubnet(store.Subnet{Prefix: p, Phase: store.PhaseOwned, Epoch: 1,
			Lease: []byte("lease"), Evidence: []byte("evidence")})
	})
	addHost(t, db, p, "a.test", 1500)
	addHost(t, db, p, "b.test", 20)
	addHost(t, db, p, "c.test", 0)
	crawl(t, db, "b.test", 5)
}

// contents returns everything in a store that a snapshot of a subnet contains.
func contents(t testing.TB, db *store.DB, p netip.Prefix) map[string]any {
	t.Helper()
	all := map[string]any{}
	err := db.View(func(tx *store.Tx) error {
		hosts, err := tx.HostsOf(p)
		if err != nil {
			return err
		}
		for _, h := range hosts {
			h.Assigned = false
			all[h.Name] = h
			var es []store.Entry
			err := tx.Queue(h.Name, nil, func(e store.Entry) (bool, error) {
				es = append(es, e)
				return true, nil
			})
			var ds []store.Digest
			err = errors.Join(err, tx.SeenDigests(h.Name, nil, func(d store.Digest) (bool, error) {
				ds = append(ds, d)
				return true, nil
			}))
			var vs []store.Visit
			err = errors.Join(err, tx.Visits(h.Name, nil, func(v store.Visit) (bool, error) {
				vs = append(vs, v)
				return true, nil
			}))
			rs := map[string]string{}
			err = errors.Join(err, tx.RobotsOf(h.Name, func(o string, v []byte) error {
				rs[o] = string(v)
				return nil
			}))
			st, serr := tx.State(h.Name)
			if !errors.Is(serr, store.ErrNotFound) {
				err = errors.Join(err, serr)
			}
			if err != nil {
				return err
			}
			all[h.Name+" queue"], all[h.Name+" seen"], all[h.Name+" visits"] = es, ds, vs
			all[h.Name+" robots"], all[h.Name+" state"] = rs, string(st)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// checkSame checks that a copy equals the owner's data, out-links included.
func checkSame(t testing.TB, owner, replica *store.DB, p netip.Prefix) {
	t.Helper()
	want, got := contents(t, owner, p), contents(t, replica, p)
	for k, w := range want {
		if !reflect.DeepEqual(got[k], w) {
			t.Errorf("%s: %.300v, want %.300v", k, fmt.Sprint(got[k]), fmt.Sprint(w))
		}
	}
	if len(got) != len(want) {
		t.Errorf("the copy has %d items, want %d", len(got), len(want))
	}
	if w, g := links(t, owner, p, false), links(t, replica, p, true); !reflect.DeepEqual(w, g) {
		t.Errorf("the copy has %d out-links, want %d", len(g), len(w))
	}
}

// links returns the out-links of a subnet.
func links(t testing.TB, db *store.DB, p netip.Prefix, replica bool) map[store.URL]bool {
	t.Helper()
	all := map[store.URL]bool{}
	take := func(x store.Pending) (bool, error) {
		if replica || x.FromSubnet == p || !x.FromSubnet.IsValid() {
			all[x.URL] = true
		}
		return true, nil
	}
	err := db.View(func(tx *store.Tx) error {
		if replica {
			return tx.Outlinks(p, take)
		}
		return tx.PendingOf("else.test", take)
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func withTimeout(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func follow(t testing.TB, o *member, p netip.Prefix, to *member) {
	t.Helper()
	if err := o.Follow(p, to.host.ID(), 1); err != nil {
		t.Fatal(err)
	}
}

func flush(t testing.TB, o *member, p netip.Prefix, to ...peer.ID) {
	t.Helper()
	if err := o.Flush(withTimeout(t), p, to...); err != nil {
		t.Fatal(err)
	}
}
