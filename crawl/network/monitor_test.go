package network_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"peerd/crawl/network"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A mode is how a destination behaves.
type mode int

const (
	drops mode = iota // the zero value: nothing comes back
	accepts
	refuses
	noRoute
)

// world is a network that a test changes over time.
type world struct {
	t   *testing.T
	m   *network.Monitor
	log bytes.Buffer

	mu      sync.Mutex
	servers map[netip.Addr]mode
	names   network.Evidence
	gateway network.Evidence
	heard   time.Time
	dials   int
	ports   map[uint16]int
	waiting bool
	resting bool // politeness forbids to ask any server
	foreign bool // other peers fetch from all servers
	taken   int  // reservations that have not ended
	sent    int  // reservations that ended with a connection that may have been noticed
	changes []string
}

// newWorld starts a Monitor for the test's network, which is up.
func newWorld(t *testing.T) *world {
	w := &world{
		t: t, servers: map[netip.Addr]mode{}, ports: map[uint16]int{},
		names: network.RemoteAnswer, gateway: network.LocalAnswer,
	}
	probe := func(e *network.Evidence) network.Probe {
		return func(ctx context.Context) network.Evidence {
			w.mu.Lock()
			now := *e
			w.mu.Unlock()
			if now == network.NoAnswer {
				<-ctx.Done()
			}
			return now
		}
	}
	m, err := network.New(network.Config{
		Connect: w.connect, Probes: []network.Probe{probe(&w.names), probe(&w.gateway)},
		Node:   w,
		Logger: slog.New(slog.NewTextHandler(&w.log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.m = m
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := m.Run(ctx); err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

func (w *world) Heard() time.Time { w.mu.Lock(); defer w.mu.Unlock(); return w.heard }

func (w *world) Waiting() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.waiting }

func (w *world) MayFetch(netip.Addr) bool { w.mu.Lock(); defer w.mu.Unlock(); return !w.foreign }

func (w *world) Reserve(_ netip.Addr, always bool) (end func(sent bool), ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.resting && !always {
		return nil, false
	}
	w.taken++
	return func(sent bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.taken--; sent {
			w.sent++
		}
	}, true
}

// counts returns the connections, and the reservations that ended with one that may have been
// noticed and that have not ended.
func (w *world) counts() (dials, sent, taken int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dials, w.sent, w.taken
}

// lose changes whether other peers fetch from all servers.
func (w *world) lose(foreign bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.foreign = foreign
}

// rest changes whether politeness forbids to ask servers.
func (w *world) rest(resting bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.resting = resting
}

func (w *world) Changed(now, before network.State) {
	w.changes = append(w.changes, fmt.Sprint(before.Status, " to ", now.Status))
}

// connect behaves as the address does now.
func (w *world) connect(ctx context.Context, addr netip.AddrPort) error {
	w.mu.Lock()
	w.dials++
	w.ports[addr.Port()]++
	now := w.servers[addr.Addr()]
	w.mu.Unlock()
	switch now {
	case accepts:
		return nil
	case refuses:
		return &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	case noRoute:
		return &net.OpError{Op: "dial", Err: syscall.ENETUNREACH}
	}
	<-ctx.Done()
	return ctx.Err()
}

// set changes the behaviour of servers.
func (w *world) set(now mode, servers ...netip.Addr) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range servers {
		w.servers[a] = now
	}
}

// others changes what name servers and gateway answer.
func (w *world) others(names, gateway network.Evidence) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.names, w.gateway = names, gateway
}

// wait changes whether requests are in progress.
func (w *world) wait(waiting bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = waiting
}

// fetch makes one request of the crawler, which takes ten seconds if nothing comes back.
func (w *world) fetch(servers ...netip.Addr) {
	var wg sync.WaitGroup
	for _, a := range servers {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			if err := w.connect(ctx, netip.AddrPortFrom(a, 80)); err != nil {
				w.m.Failed(a, fmt.Errorf("connect: %w", err))
				return
			}
			w.m.Answered(a)
		})
	}
	wg.Wait()
}

// want checks the status after d.
func (w *world) want(after time.Duration, s network.Status) {
	w.t.Helper()
	time.Sleep(after)
	synctest.Wait()
	if got := w.m.State(); got.Status != s || w.m.Online() == (s == network.Offline) {
		w.t.Errorf("state = %+v, online %v, want %v", got, w.m.Online(), s)
	}
}

// addrs returns n addresses in different subnets.
func addrs(n int) (all []netip.Addr) {
	for i := range n {
		all = append(all, netip.AddrFrom4([4]byte{192, 0, byte(i), 1}))
	}
	return all
}

func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, sites := newWorld(t), addrs(6)
		w.set(accepts, sites...)
		w.fetch(sites...)
		w.want(0, network.Online)

		w.set(drops, sites...)
		w.others(network.NoAnswer, network.NoAnswer)
		w.fetch(sites...)
		first := time.Now()
		w.want(3*time.Second, network.Offline)
		if since := w.m.State().Since; !since.Equal(first) {
			t.Errorf("offline since %v, want the first failure %v", since, first)
		}
		if r := w.m.State().Reason; !strings.Contains(r, "deadline exceeded") {
			t.Errorf("reason = %q, want the last error", r)
		}
		w.want(10*time.Minute, network.Offline)
		if w.dials > 5000 {
			t.Errorf("%d connections attempted in ten minutes, want few", w.dials)
		}

		w.set(accepts, sites[5])
		w.want(10*time.Second, network.Online)
		want := []string{"suspected to offline", "offline to online"}
		if !slices.Equal(w.changes, want) {
			t.Errorf("changes = %q, want %q", w.changes, want)
		}
		log := w.log.String()
		if strings.Count(log, "lost the network") != 1 ||
			strings.Count(log, "regained the network") != 1 ||
			strings.Count(log, "\n") != 2 {
			t.Errorf("log = %s, want one line at the beginning and one at the end", log)
		}
	})
}

func TestWhatEndsAnOutage(t *testing.T) {
	for name, restore := range map[string]func(w *world, sites []netip.Addr){
		"server accepts": func(w *world, s []netip.Addr) { w.set(accepts, s[0]) },
		"server refuses": func(w *world, s []netip.Addr) { w.set(refuses, s[1]) },
		"name servers":   func(w *world, _ []netip.Addr) { w.others(3, network.NoAnswer) },
		"peer heard": func(w *world, _ []netip.Addr) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.heard = time.Now()
		},
		// of two failed destinations only: see TestGatewayAlone
		"gateway": func(w *world, _ []netip.Addr) { w.others(network.NoAnswer, 2) },
		"request that was in progress": func(w *world, s []netip.Addr) {
			w.set(accepts, s[0])
			w.m.Answered(s[0])
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, sites := newWorld(t), addrs(2)
				w.others(network.NoAnswer, network.NoAnswer)
				w.fetch(sites...)
				w.want(time.Minute, network.Offline)
				restore(w, sites)
				w.want(6*time.Second, network.Online)
			})
		})
	}
}

// A gateway answers also if its own connection is down. It counts while few destinations have
// failed.
func TestGatewayAlone(t *testing.T) {
	for _, names := range []network.Evidence{network.NoAnswer, network.LocalAnswer} {
		for n, want := range map[int]network.Status{2: network.Online, 6: network.Offline} {
			synctest.Test(t, func(t *testing.T) {
				w, sites := newWorld(t), addrs(n)
				w.others(names, network.LocalAnswer)
				w.fetch(sites...)
				w.want(10*time.Second, want)
				w.set(accepts, sites...)
				w.fetch(sites...)
				w.want(5*time.Second, network.Online)
			})
		}
	}
}

// A gateway that answers alone does not count either if the name servers have answered before: the
// network is down also for a crawl of one site. Where name servers never answer for other names, as
// in a closed network, nothing follows from their silence.
func TestGatewayOfOneSite(t *testing.T) {
	for _, closed := range []bool{false, true} {
		for _, names := range []network.Evidence{network.NoAnswer, network.LocalAnswer} {
			synctest.Test(t, func(t *testing.T) {
				w, site := newWorld(t), addrs(1)
				if closed {
					w.others(names, network.LocalAnswer)
				}
				w.set(accepts, site...)
				if !closed { // the first time, the answer is too late
					w.others(network.NoAnswer, network.LocalAnswer)
				}
				w.wait(true)
				w.fetch(site...)
				w.want(5*time.Second, network.Online)
				if !closed {
					w.others(network.RemoteAnswer, network.LocalAnswer)
				}
				w.fetch(site...)
				w.want(3*time.Second, network.Online)
				w.wait(false)

				w.set(drops, site...)
				w.others(names, network.LocalAnswer)
				w.fetch(site...)
				w.fetch(site...)
				want := network.Offline
				if closed {
					want = network.Online
				}
				w.want(5*time.Second, want)
				w.want(time.Hour, want)
				w.set(accepts, site...)
				if closed {
					w.fetch(site...)
				}
				w.want(5*time.Second, network.Online)
			})
		}
	}
}

// A site that fails alone while the name servers answer does not make the peer offline.
func TestOneSiteFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, site := newWorld(t), addrs(1)
		w.set(accepts, site...)
		w.fetch(site...)
		w.set(drops, site...)
		for range 10 {
			w.fetch(site...)
			w.want(time.Minute, network.Online)
		}
	})
}

func TestNoOutage(t *testing.T) {
	tests := map[string]func(w *world, sites []netip.Addr){
		"one host fails, others answer": func(w *world, s []netip.Addr) {
			w.set(accepts, s[1:]...)
			w.others(network.NoAnswer, network.NoAnswer)
			for range 20 {
				w.fetch(s...)
				w.fetch(s[0], s[0], s[0])
			}
		},
		"all hosts fail, name servers answer": func(w *world, s []netip.Addr) {
			for range 20 {
				w.fetch(s...)
			}
		},
		"all hosts refuse": func(w *world, s []netip.Addr) {
			w.set(refuses, s...)
			w.others(network.NoAnswer, network.NoAnswer)
			for range 20 {
				w.fetch(s...)
			}
		},
		"the only destination fails, and there is nothing else to ask": func(
			w *world, s []netip.Addr,
		) {
			w.others(network.NotAsked, network.NotAsked)
			for range 20 {
				w.fetch(s[0])
			}
		},
		"all hosts fail, another peer is heard": func(w *world, s []netip.Addr) {
			w.others(network.NoAnswer, network.NoAnswer)
			for range 20 {
				w.fetch(s...)
				w.mu.Lock()
				w.heard = time.Now().Add(time.Second)
				w.mu.Unlock()
			}
		},
		"requests are canceled": func(w *world, s []netip.Addr) {
			w.others(network.NoAnswer, network.NoAnswer)
			for _, a := range s {
				w.m.Failed(a, fmt.Errorf("fetch: %w", context.Canceled))
			}
		},
	}
	for name, run := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				run(w, addrs(6))
				w.want(20*time.Second, network.Online)
				if len(w.changes) > 0 || w.log.Len() > 0 {
					t.Errorf("changes %v, log %s, want none", w.changes, w.log.String())
				}
			})
		})
	}
}

// An error of this machine causes a check at once, and needs no second destination.
func TestInterfaceDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, sites := newWorld(t), addrs(1)
		w.set(accepts, sites...)
		w.fetch(sites...)
		w.set(noRoute, sites...)
		w.others(network.NotAsked, network.NotAsked)
		w.fetch(sites...)
		w.want(time.Second, network.Offline)
		w.set(accepts, sites...)
		w.want(3*time.Second, network.Online)
	})
}

// Lookups that fail are evidence, too: a peer that starts without a network has no other.
func TestLookupsFail(t *testing.T) {
	for text, want := range map[string]network.Status{
		"lookup a.example: i/o timeout":                          network.Online,
		"dial udp 192.0.2.1:53: connect: network is unreachable": network.Offline,
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.others(network.NoAnswer, network.NotAsked)
			w.m.Failed(netip.Addr{}, &net.DNSError{Err: text, IsTimeout: want == network.Online})
			w.want(5*time.Second, want)
		})
	}
}

// The same destinations are asked again and again only if there are no others.
func TestServersRotate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, sites := newWorld(t), addrs(30)
		w.set(accepts, sites...)
		w.fetch(sites...)
		w.set(drops, sites...)
		w.others(network.NoAnswer, network.NoAnswer)
		w.fetch(sites...)
		w.want(10*time.Second, network.Offline)
		w.set(accepts, sites[17]) // the others have gone for good
		w.want(45*time.Second, network.Online)
	})
}

// Requests that hang are evidence before they fail.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, sites := newWorld(t), addrs(3)
		w.set(accepts, sites...)
		w.want(time.Hour, network.Online)
		w.fetch(sites...)
		w.mu.Lock()
		w.waiting, w.dials = true, 0
		w.mu.Unlock()
		w.want(time.Hour, network.Online)
		if w.dials > 100 {
			t.Errorf("%d connections in an hour because of slow requests, want few", w.dials)
		}

		w.fetch(sites...)
		last := time.Now()
		w.set(drops, sites...)
		w.others(network.NoAnswer, network.NoAnswer)
		w.want(10*time.Second, network.Offline)
		if s := w.m.State(); !s.Since.Equal(last) || strings.Contains(s.Reason, "last error") {
			t.Errorf("state = %+v, want offline since the last answer, %v", s, last)
		}
		w.set(accepts, sites...)
		w.want(5*time.Second, network.Online)
	})
}

// A server is asked at the port that it is known to accept, because others may be filtered.
func TestKnownPort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, sites := newWorld(t), addrs(1)
		w.m.Connected(netip.AddrPortFrom(sites[0], 8080))
		w.m.Answered(sites[0])
		w.others(network.NoAnswer, network.NoAnswer)
		w.m.Failed(sites[0], os.ErrDeadlineExceeded)
		w.m.Failed(addrs(2)[1], os.ErrDeadlineExceeded)
		w.want(10*time.Second, network.Offline) // the first check may know one failure only
		if w.ports[8080] == 0 || w.ports[80] != w.ports[443] || w.ports[80] == 0 {
			t.Errorf("connections by port: %v, want 8080, and 80 and 443 for the other", w.ports)
		}
	})
}

func TestNewRejects(t *testing.T) {
	if _, err := network.New(network.Config{}); err == nil {
		t.Error("New without Connect = nil, want an error")
	}
}

func TestFailedWithAnswer(t *testing.T) {
	for _, err := range []error{
		syscall.ECONNREFUSED, syscall.ECONNRESET, errors.New("tls: bad certificate"),
	} {
		synctest.Test(t, func(t *testing.T) {
			w, sites := newWorld(t), addrs(2)
			w.others(network.NoAnswer, network.NoAnswer)
			w.m.Failed(sites[0], os.ErrDeadlineExceeded)
			w.m.Failed(sites[1], err) // the first failure counts no more
			w.m.Failed(sites[0], os.ErrDeadlineExceeded)
			w.want(10*time.Second, network.Online)
		})
	}
}
