package traffic

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	_ "peerd/internal/rapidtest"
)

// memStore is a Store of which only what was saved outlives a crash.
type memStore struct {
	mu sync.Mutex
	m  Month
}

func (s *memStore) Load() (Month, error) { s.mu.Lock(); defer s.mu.Unlock(); return s.m, nil }
func (s *memStore) Save(m Month) error   { s.mu.Lock(); defer s.mu.Unlock(); s.m = m; return nil }

func newLimiter(t interface{ Fatal(...any) }, l Limits, s Store) *Limiter {
	lim, err := New(l, s)
	if err != nil {
		t.Fatal(err)
	}
	return lim
}

// pass is n bytes that passed at a time.
type pass struct {
	at time.Time
	n  int64
}

// In any 10 s at most 1.05 times the bandwidth passes, whoever sends what when, and no sender waits
// for ever.
func TestAnyWindow(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rate := rapid.Int64Range(MinBandwidth, 2e6).Draw(rt, "rate")
		type work struct {
			class Class
			n     int64
			sleep time.Duration
		}
		workers := rapid.SliceOfN(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) work {
			return work{
				class: Class(rapid.IntRange(0, 1).Draw(t, "class")),
				n:     rapid.Int64Range(1, 12*rate).Draw(t, "bytes"),
				sleep: time.Duration(rapid.Int64Range(0, int64(12*time.Second)).Draw(t, "sleep")),
			}
		}), 1, 10), 1, 12).Draw(rt, "workers")
		var passed []pass
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, Limits{Bandwidth: rate}, &memStore{})
			var mu sync.Mutex
			var g sync.WaitGroup
			for _, all := range workers {
				g.Go(func() {
					for _, w := range all {
						time.Sleep(w.sleep)
						for left := w.n; left > 0; {
							part := min(left, l.sizes().chunk)
							if err := l.take(w.class, part, &stops{}); err != nil {
								t.Error(err)
							}
							mu.Lock()
							passed = append(passed, pass{time.Now(), part})
							mu.Unlock()
							left -= part
						}
					}
				})
			}
			g.Wait()
		})
		sum, from := int64(0), 0
		for _, p := range passed {
			for sum += p.n; p.at.Sub(passed[from].at) > 10*time.Second; from++ {
				sum -= passed[from].n
			}
			if most := float64(rate) * 10 * 1.05; float64(sum) > most {
				rt.Fatalf("%d bytes in 10 s, want at most %.0f", sum, most)
			}
		}
	})
}

// What passes without a bandwidth, under a monthly volume, delays nothing once there is one.
func TestBandwidthLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, Limits{MonthlyVolume: 1e9}, &memStore{})
		l.charge(100e6) // as of many connections and questions to name servers
		if err := l.Change(Limits{Bandwidth: 1e6, MonthlyVolume: 1e9}); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := l.take(Control, 1000, &stops{}); err != nil {
			t.Fatal(err)
		}
		if wait := time.Since(start); wait > time.Second {
			t.Errorf("the first kB waited for %v", wait)
		}
	})
}

// A clock that is set back ends the window: later bytes do not add up until it has caught up.
func TestMeterClockSetBack(t *testing.T) {
	var m meter
	now := time.Unix(1e9, 0)
	m.add(1000, now)
	now = now.Add(-time.Hour)
	for range 100 {
		m.add(1000, now)
		now = now.Add(time.Second)
	}
	if got := m.rate(now.Add(-time.Second)); got != 1000 {
		t.Errorf("the rate is %v bytes per second, want 1000", got)
	}
}

// The whole bandwidth is used while there is enough to send, and other peers go first.
func TestControlGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate = 200e3
		l := newLimiter(t, Limits{Bandwidth: rate}, &memStore{})
		start, stop := time.Now(), make(chan struct{})
		var g sync.WaitGroup
		crawled := int64(0)
		var mu sync.Mutex
		for range 64 {
			g.Go(func() {
				for l.take(Crawl, 4000, &stops{closed: stop}) == nil {
					mu.Lock()
					crawled += 4000
					mu.Unlock()
				}
			})
		}
		for range 100 { // heartbeats
			time.Sleep(100 * time.Millisecond)
			at := time.Now()
			if err := l.take(Control, 5000, &stops{}); err != nil {
				t.Fatal(err)
			}
			if wait := time.Since(at); wait > 0 {
				t.Errorf("a heartbeat waited for %v", wait)
				break
			}
		}
		over := time.Since(start).Seconds()
		close(stop)
		g.Wait()
		if all := float64(crawled) + 500e3; all < 0.95*rate*over {
			t.Errorf("%.0f bytes in %v s, want nearly the bandwidth", all, over)
		}
		// A peer that has much to send to other peers stops the crawl.
		stop = make(chan struct{})
		crawled = 0
		g.Go(func() {
			for l.take(Crawl, 4000, &stops{closed: stop}) == nil {
				crawled += 4000
			}
		})
		if err := l.take(Control, 10*rate, &stops{}); err != nil {
			t.Fatal(err)
		}
		if crawled > rate {
			t.Errorf("%d bytes of the crawl passed before other peers", crawled)
		}
		close(stop)
		g.Wait()
	})
}

// A change of the bandwidth is in effect at once, also for those who wait.
func TestChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, Limits{Bandwidth: MinBandwidth}, &memStore{})
		start, done := time.Now(), make(chan struct{})
		go func() {
			defer close(done)
			_ = l.take(Crawl, 10*MinBandwidth, &stops{})
		}()
		time.Sleep(time.Second)
		if err := l.Change(Limits{Bandwidth: 100 * MinBandwidth}); err != nil {
			t.Fatal(err)
		}
		<-done
		if took := time.Since(start); took > 1500*time.Millisecond {
			t.Errorf("took %v after the bandwidth was raised", took)
		}
		if err := l.Change(Limits{Bandwidth: 1}); err == nil {
			t.Error("a bandwidth of 1 byte per second was accepted")
		}
	})
}

// The volume is never exceeded, through any number of crashes, within a month; and a new one begins
// with each month.
func TestVolumeThroughCrashes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		volume := rapid.Int64Range(MinVolume, 50e6).Draw(rt, "volume")
		kills := rapid.SliceOfN(rapid.Int64Range(0, volume/2), 1, 10).Draw(rt, "kills")
		wrong := "" // rt must not be failed in the bubble
		fail := func(format string, args ...any) {
			if wrong == "" {
				wrong = fmt.Sprintf(format, args...)
			}
		}
		synctest.Test(t, func(t *testing.T) {
			s := &memStore{}
			for month := range 3 {
				limits := Limits{MonthlyVolume: volume}
				l := newLimiter(t, limits, s)
				used, since, next := int64(0), int64(0), 0
				use := func(c Class, limit int64) {
					for {
						n := min(64<<10, volume)
						err := l.take(c, n, &stops{})
						if errors.Is(err, ErrUsedUp) {
							break
						} else if err != nil {
							fail("%v", err)
							return
						}
						used, since = used+n, since+n
						if next < len(kills) && since > kills[next] {
							next, since = next+1, 0
							l = newLimiter(t, limits, s) // what was not saved is lost
						}
					}
					if used > limit {
						fail("month %d: used %d of %d", month, used, limit)
					}
				}
				use(Crawl, volume-volume/controlPart)
				if l.UsedUp(Control) {
					fail("nothing is left for other peers")
				}
				use(Control, volume)
				if least := volume - volume/20 - int64(next+2)*3*block(volume); used < least {
					fail("used only %d of %d in %d runs", used, volume, next+1)
				}
				if l = newLimiter(t, limits, s); !l.UsedUp(Crawl) {
					fail("a restart gave bytes back")
				}
				time.Sleep(time.Until(l.Usage().Ends))
				if l.UsedUp(Crawl) || l.UsedUp(Control) {
					fail("used up at the beginning of a month")
				}
			}
		})
		if wrong != "" {
			rt.Fatal(wrong)
		}
	})
}

// A clean stop forgets nothing and loses nothing; a clock that was set back ends no month.
func TestVolumeStored(t *testing.T) {
	s := &memStore{}
	limits := Limits{MonthlyVolume: MinVolume}
	l := newLimiter(t, limits, s)
	if err := errors.Join(l.take(Crawl, 5e6, &stops{}), l.Close()); err != nil {
		t.Fatal(err)
	}
	s.m.Start = s.m.Start.AddDate(0, 1, 0) // it was stored while the clock was ahead
	u := newLimiter(t, limits, s).Usage()
	if u.Month != 5e6 || !u.Ends.Equal(s.m.Start.AddDate(0, 1, 0)) {
		t.Errorf("after a restart: %+v", u)
	}
}

// Bytes are the same behind a limited connection. What waits ends when it is closed and at its
// deadline.
func TestConn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, class := range []Class{Control, Crawl} {
			l := newLimiter(t, Limits{Bandwidth: 100e3}, &memStore{})
			a, b := net.Pipe()
			c := l.Wrap(class, a)
			start := time.Now()
			go func() { _, _ = b.Write(make([]byte, 300e3)); b.Close() }()
			if got, err := io.ReadAll(c); len(got) != 300e3 || err != nil {
				t.Fatalf("read %d bytes, %v", len(got), err)
			}
			if took := time.Since(start); took < 2700*time.Millisecond || took > 4*time.Second {
				t.Errorf("class %d: 300 kB at 100 kB/s took %v", class, took)
			}
			c.Close()

			a, b = net.Pipe()
			c = l.Wrap(class, a)
			go func() { _, _ = io.Copy(io.Discard, b) }()
			start = time.Now()
			_ = c.SetWriteDeadline(start.Add(time.Second))
			if n, err := c.Write(make([]byte, 1e6)); n > 200e3 || !isTimeout(err) ||
				time.Since(start) != time.Second {
				t.Errorf("wrote %d bytes in %v: %v", n, time.Since(start), err)
			}
			_ = c.SetWriteDeadline(time.Time{})
			go func() { time.Sleep(time.Second); c.Close() }()
			start = time.Now()
			if _, err := c.Write(make([]byte, 1e6)); err == nil ||
				time.Since(start) != time.Second {
				t.Errorf("closed: %v after %v", err, time.Since(start))
			}
			b.Close()
		}
	})
}

func isTimeout(err error) bool {
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout()
}

// When the volume is used up, the connections end.
func TestConnUsedUp(t *testing.T) {
	l := newLimiter(t, Limits{MonthlyVolume: MinVolume}, &memStore{})
	a, b := net.Pipe()
	defer b.Close()
	c := l.Wrap(Crawl, a)
	defer c.Close()
	go func() { _, _ = b.Write(make([]byte, MinVolume)) }()
	n, err := io.Copy(io.Discard, c)
	if !errors.Is(err, ErrUsedUp) || n < MinVolume*8/10 || n > ceiling(Crawl, MinVolume) {
		t.Errorf("read %d bytes: %v", n, err)
	}
	if _, err := c.Write([]byte("x")); !errors.Is(err, ErrUsedUp) {
		t.Errorf("write: %v", err)
	}
	if l.UsedUp(Control) {
		t.Error("nothing is left for other peers")
	}
	if u := l.Usage(); u.Month < n || u.Rate == 0 {
		t.Errorf("%+v after %d bytes", u, n)
	}
}

// What has arrived counts though it was never read.
func TestUnread(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		t.Skip("unread bytes are not known on this system")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	sent := make(chan error, 1)
	go func() {
		c, err := ln.Accept()
		if err == nil {
			_, err = c.Write(make([]byte, 20e3))
			defer c.Close()
		}
		sent <- err
	}()
	l := newLimiter(t, Limits{MonthlyVolume: MinVolume}, &memStore{})
	c, err := Dialer{l, Crawl}.DialContext(t.Context(), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	for unread(c.(*conn).Conn) < 19e3 { // it may come in pieces
		time.Sleep(time.Millisecond)
	}
	before := l.Usage().Month
	c.Close()
	c.Close()
	if n := l.Usage().Month - before; n < 19e3 || n > 25e3 {
		t.Errorf("counted %d bytes that were not read", n)
	}
}

// A connection for datagrams remains one, or name servers would be asked in the form of TCP.
func TestDatagrams(t *testing.T) {
	l, err := New(Limits{Bandwidth: 1e6}, &memStore{})
	if err != nil {
		t.Fatal(err)
	}
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	c, err := Dialer{Limiter: l, Class: Control}.DialContext(t.Context(), "udp",
		server.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, ok := c.(net.PacketConn); !ok {
		t.Errorf("%T is no net.PacketConn", c)
	}
}
