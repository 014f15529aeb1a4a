package owner

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/home"
	"peerd/overlay/hostmove"
	"peerd/overlay/hosttransfer"
	"peerd/overlay/lease"
	"peerd/overlay/outbox"
	"peerd/overlay/record/recordtest"
	"peerd/store"
)

// hostFrontier is a fakeFrontier that knows single hosts.
type hostFrontier struct {
	*fakeFrontier
	hmu     sync.Mutex
	addrs   map[string]netip.Addr
	held    map[string]time.Time
	retried []string // hosts that may be asked at once
	out     map[string]bool
}

func (f *hostFrontier) StaleHosts(time.Time, int) []string { return nil }
func (f *hostFrontier) HostAddr(host string) (netip.Prefix, netip.Addr, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, ok := f.hosts[host]
	f.hmu.Lock()
	defer f.hmu.Unlock()
	return p, f.addrs[host], ok
}

func (f *hostFrontier) DelayHost(host string, until time.Time) {
	f.hmu.Lock()
	defer f.hmu.Unlock()
	f.held[host] = until
}

func (f *hostFrontier) SetRetryAt(host string, _ time.Time) {
	f.hmu.Lock()
	defer f.hmu.Unlock()
	f.retried = append(f.retried, host)
}

func (f *hostFrontier) SetHostAddr(host string, a netip.Addr) (bool, error) {
	f.hmu.Lock()
	defer f.hmu.Unlock()
	f.addrs[host] = a
	return true, nil
}

func (f *hostFrontier) EvictHost(_ context.Context, host string) (time.Time, error) {
	f.mu.Lock()
	delete(f.hosts, host)
	f.mu.Unlock()
	f.hmu.Lock()
	defer f.hmu.Unlock()
	f.out[host] = true
	return time.Now().Add(time.Minute), nil
}

func (f *hostFrontier) AdoptHost(h store.Host, _ time.Time) {
	f.mu.Lock()
	f.hosts[h.Name] = h.Subnet
	f.mu.Unlock()
	f.hmu.Lock()
	defer f.hmu.Unlock()
	f.addrs[h.Name] = h.Addr
}

// in says in which subnet the frontier has a host.
func (f *hostFrontier) in(host string) netip.Prefix {
	p, _, _ := f.HostAddr(host)
	return p
}

// transferFunc is a Transferrer.
type transferFunc func(ctx context.Context, to peer.ID, o hosttransfer.Offer) error

func (c transferFunc) Transfer(ctx context.Context, to peer.ID, o hosttransfer.Offer) error {
	return c(ctx, to, o)
}

func (c transferFunc) TellFetched(
	ctx context.Context, to peer.ID, host string, lost []byte,
) error {
	return c(ctx, to, hosttransfer.Offer{Host: host, Lost: lost})
}

var (
	oldAddr, newAddr = netip.MustParseAddr("203.0.113.4"), netip.MustParseAddr("198.51.100.4")
	oldNet, newNet   = store.SubnetOf(oldAddr), store.SubnetOf(newAddr)
)

const mover = "mover.test"

// quick notices in a tenth of a second that a host has left.
func quick(c *Config) { c.HostMoves = hostmove.Pace{Span: 100 * time.Millisecond, Lookups: 4} }

// joinHosts is join with a frontier that knows single hosts.
func joinHosts(
	t *testing.T, me someone, dht *recordtest.DHT, db *store.DB, change func(*Config),
) (*member, *hostFrontier) {
	t.Helper()
	m := join(t, me, dht, db, func(c *Config) {
		quick(c)
		if change != nil {
			change(c)
		}
	})
	f := &hostFrontier{fakeFrontier: m.frontier, addrs: map[string]netip.Addr{},
		held: map[string]time.Time{}, out: map[string]bool{}}
	m.Attach(f)
	return m, f
}

func (m *member) say(host string, addrs ...netip.Addr) {
	m.outboxMu.Lock()
	defer m.outboxMu.Unlock()
	m.names[host] = addrs
}

// settle makes mover a host of ours with n URLs.
func (m *member) settle(n int) {
	m.t.Helper()
	m.say(mover, oldAddr)
	m.claim(oldNet)
	if r, err := m.resolver.Resolve(m.t.Context(), mover, netip.Addr{}); err != nil ||
		r.Kind != outbox.Own {
		m.t.Fatal(r, err)
	}
	m.plant(mover, oldNet, oldAddr, n)
}

func (m *member) storedHost(host string) (h store.Host, ok bool) {
	m.t.Helper()
	err := m.cfg.DB.View(func(tx *store.Tx) error {
		rec, err := tx.Host(host)
		if err == nil {
			h, ok = *rec, true
		}
		if errors.Is(err, store.ErrNotFound) {
			err = nil
		}
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return h, ok
}

// A host moves to another subnet of ours with its queue; one that only has another
// address in its home stays.
func TestHostMovesWithin(t *testing.T) {
	t.Parallel()
	m, f := joinHosts(t, folk[0], newDHT(), nil, nil)
	m.settle(5)
	m.claim(newNet)
	m.run()
	near := oldNet.Addr().Next()
	m.say(mover, near)
	m.SuspectHost(mover, store.OutcomeConnect)
	until(t, "the new address is dialled", func() bool {
		_, a, _ := f.HostAddr(mover)
		return a == near
	})
	begin := time.Now()
	m.say(mover, newAddr)
	m.SuspectHost(mover, store.OutcomeConnect)
	until(t, "the host has moved", func() bool { return f.in(mover) == newNet })
	if d := time.Since(begin); d < 100*time.Millisecond {
		t.Errorf("moved after %v", d)
	}
	if h, _ := m.storedHost(mover); h.Subnet != newNet || h.Addr != newAddr || h.Queued != 5 ||
		m.queued(mover) != 5 {
		t.Errorf("stored %+v, %d queued", h, m.queued(mover))
	}
	if r, err := m.cfg.Homes.Read(t.Context(), mover); err != nil || r.Subnet != newNet ||
		r.Epoch != 2 {
		t.Errorf("home %+v, %v", r, err)
	}
	until(t, "the move is done", func() bool { return !m.hosts.hostMoves.InTransit(mover) })
	f.hmu.Lock()
	defer f.hmu.Unlock()
	if f.held[mover].IsZero() {
		t.Error("its URLs were spent on the dead address")
	}
}

// A host goes to the owner of its new home before the world is told, and is tried
// again until it is there.
func TestHostIsTransferred(t *testing.T) {
	t.Parallel()
	dht := newDHT()
	other := join(t, folk[1], dht, nil, nil)
	other.claim(newNet)
	var mu sync.Mutex
	calls := 0
	var m *member
	var f *hostFrontier
	m, f = joinHosts(t, folk[0], dht, nil, func(c *Config) {
		c.Transferrer = transferFunc(func(ctx context.Context, to peer.ID,
			o hosttransfer.Offer) error {
			mu.Lock()
			defer mu.Unlock()
			calls++
			r, err := home.Open(o.Record)
			if err != nil || to != folk[1].id || r.Subnet != newNet || r.Epoch != 2 ||
				o.Addr != newAddr || o.Wait < 20*time.Second {
				t.Errorf("carried to %v: %+v, %+v, %v", to, o, r, err)
			}
			if now, err := other.cfg.Homes.Read(ctx, mover); err != nil || now.Epoch != 1 {
				t.Errorf("told the world before: %+v, %v", now, err)
			}
			if f.in(mover).IsValid() {
				t.Error("still in the frontier")
			}
			m.mu.Lock()
			s := m.subnets[oldNet]
			m.mu.Unlock()
			_, _, err = m.resolver.settleHome(ctx, mover, s, // Resolve began before the move
				outbox.Resolution{Subnet: oldNet, Addr: oldAddr}, []netip.Addr{oldAddr},
				[]netip.Addr{oldAddr})
			if !errors.Is(err, errLeaving) || f.in(mover).IsValid() {
				t.Errorf("resolved during the move: %v; in the frontier in %v", err, f.in(mover))
			}
			if calls < 3 {
				return errors.New("broken off")
			}
			return nil
		})
	})
	m.settle(5)
	m.run()
	m.say(mover, newAddr)
	m.SuspectHost(mover, store.OutcomeConnect)
	until(t, "the host has left", func() bool {
		_, ok := m.storedHost(mover)
		return !ok && !m.hosts.hostMoves.InTransit(mover)
	})
	if r, err := other.cfg.Homes.Read(t.Context(), mover); err != nil || r.Subnet != newNet {
		t.Errorf("home %+v, %v", r, err)
	}
	if m.queued(mover) != 0 || calls != 3 {
		t.Errorf("%d queued still, carried %d times", m.queued(mover), calls)
	}
	until(t, "its URLs go there", func() bool {
		r, err := m.resolver.Resolve(t.Context(), mover, netip.Addr{})
		return err == nil && r.Kind == outbox.Foreign && r.Owner == folk[1].id
	})
}

// A host that comes slowly does not keep a peer from stopping that is giving its subnet up.
func TestStopWhileHostComes(t *testing.T) { synctest.Test(t, stopWhileHostComes) }

func stopWhileHostComes(t *testing.T) {
	m, _ := joinHosts(t, folk[0], newDHT(), nil, nil)
	m.claim(newNet)
	for what, leave := range map[string]func(context.Context) error{
		"yield": func(ctx context.Context) error {
			return m.departures.yield(ctx, m.subnets[newNet])
		},
		"handover": func(ctx context.Context) error {
			return m.departures.handOver(ctx, m.subnets[newNet], folk[1].id.String())
		},
	} {
		exit, ok := m.hosts.Enter(newNet)
		if !ok {
			t.Fatal("the subnet takes no hosts")
		}
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() { left <- leave(ctx) }()
		synctest.Wait()
		select {
		case err := <-left:
			t.Errorf("%s: it did not wait: %v", what, err)
		default:
		}
		cancel()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, want %v", what, err, context.Canceled)
		}
		exit()
	}
}

// A host that is being transferred is not resolved, and keeps its subnet here, until it
// is there.
func TestHostComes(t *testing.T) { synctest.Test(t, hostComes) }

func hostComes(t *testing.T) {
	dht := newDHT()
	a, _ := joinHosts(t, folk[0], dht, nil, nil)
	b, f := joinHosts(t, folk[1], dht, nil, nil)
	a.settle(1)
	b.claim(newNet)
	_, sealed, err := a.cfg.Leases.Lookup(t.Context(), oldNet)
	if err != nil {
		t.Fatal(err)
	}
	value, err := a.cfg.Homes.Draft(t.Context(), mover, oldNet, newNet, sealed)
	if err != nil {
		t.Fatal(err)
	}
	r, err := home.Open(value)
	if err != nil {
		t.Fatal(err)
	}
	_, _, leave, err := b.HostReceiver().Accept(t.Context(), folk[0].id, r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.resolver.Resolve(t.Context(), mover, newAddr); !errors.Is(err, errLeaving) {
		t.Errorf("resolved on its way: %v", err)
	}
	free := make(chan struct{})
	go func() {
		if err := b.departures.awaitExits(t.Context(), b.subnets[newNet]); err != nil {
			t.Error(err)
		}
		close(free)
	}()
	synctest.Wait()
	select {
	case <-free:
		t.Error("its subnet may leave")
	default:
	}
	if err := b.HostReceiver().Arrived(t.Context(), store.Host{Name: mover, Subnet: newNet,
		Addr: newAddr}, value, time.Now()); err != nil {
		t.Fatal(err)
	}
	leave()
	<-free
	if f.in(mover) != newNet {
		t.Error("not in the frontier")
	}
}

// The owner of the new subnet fetches a host out of one with an owner that has been silent for
// long; not before.
func TestRescue(t *testing.T) {
	t.Parallel()
	for name, silence := range map[string]time.Duration{"long": home.Silence + time.Minute,
		"not long enough": home.Silence / 2} {
		t.Run(name, func(t *testing.T) {
			dht := newDHT()
			m, _ := joinHosts(t, folk[0], dht, nil, nil)
			end := time.Now().Add(-silence)
			sealed, err := lease.SealLease(lease.Lease{Subnet: oldNet, Owner: folk[1].id, Epoch: 1,
				Issued: end.Add(-time.Minute), Expires: end}, folk[1].key)
			if err != nil {
				t.Fatal(err)
			}
			first, err := home.Seal(home.Record{Host: mover, Subnet: oldNet, By: folk[1].id,
				Issued: end, Epoch: 1}, folk[1].key)
			if err != nil {
				t.Fatal(err)
			}
			for key, val := range map[string][]byte{lease.Key(oldNet): sealed,
				home.Key(mover): first} {
				if _, _, err := dht.Peer().Put(t.Context(), key, val); err != nil {
					t.Fatal(err)
				}
			}
			m.claim(newNet)
			m.say(mover, newAddr)
			m.run()
			own := func() bool {
				r, err := m.resolver.Resolve(t.Context(), mover, netip.Addr{})
				return err == nil && r.Kind == outbox.Own
			}
			if silence > home.Silence {
				until(t, "the host is ours", own)
				return
			}
			for range 30 {
				if own() {
					t.Fatal("taken from an owner that may come back")
				}
				<-time.After(10 * time.Millisecond)
			}
		})
	}
}

// RefreshOwner sees through what is remembered.
func TestRefresh(t *testing.T) {
	t.Parallel()
	dht := newDHT()
	a, b := join(t, folk[0], dht, nil, nil), join(t, folk[1], dht, nil, nil)
	if changed, err := a.resolver.RefreshOwner(t.Context(), oldNet, folk[1].id,
		false); err != nil || !changed {
		t.Errorf("RefreshOwner(unowned) = %v, %v, want true, nil", changed, err)
	}
	b.claim(oldNet)
	if changed, err := a.resolver.RefreshOwner(t.Context(), oldNet, folk[1].id,
		false); err != nil || changed {
		t.Errorf("unchanged: %v, %v", changed, err)
	}
	if changed, err := a.resolver.RefreshOwner(t.Context(), oldNet, folk[2].id,
		false); err != nil || !changed {
		t.Errorf("another's: %v, %v", changed, err)
	}
}
