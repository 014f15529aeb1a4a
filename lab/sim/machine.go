package sim

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/lab/sim/fabric"
	"peerd/node"
	"peerd/node/config"
	"peerd/store/kv"
)

// machine is the computer of one peer: the state that survives its process.
type machine struct {
	w         *world
	n         int
	name      string
	addr      netip.Addr
	home      config.Home
	disk      *kv.Disk
	skew      time.Duration // offset of its clock
	id        peer.ID
	lost      bool      // permanently
	startAt   time.Time // when to restart a process that exited by itself
	awayUntil time.Time // earliest restart after a leave

	// The current process; node is nil while there is none. up has the same value, for
	// the goroutines of the sites.
	host *fabric.Host
	node *node.Node
	up   atomic.Pointer[node.Node]
	stop context.CancelFunc
	done chan struct{} // closed when the latest process has exited
}

// port is the port on which all peers listen.
const port = 4101

func newMachine(w *world, n int) (*machine, error) {
	m := &machine{
		w: w, n: n, name: fmt.Sprintf("peer %d", n),
		addr: netip.AddrFrom4([4]byte{10, 20, byte(n), 1}),
		disk: kv.NewDisk(), done: make(chan struct{}),
	}
	close(m.done)
	var err error
	if m.home, err = config.Init(filepath.Join(w.o.Dir, fmt.Sprintf("peer-%02d", n))); err != nil {
		return nil, err
	}
	var src [32]byte
	rng := rand.New(rand.NewPCG(w.o.Seed, uint64(n)+1))
	for j := range src {
		src[j] = byte(rng.Uint32())
	}
	key, _, err := crypto.GenerateEd25519Key(rand.NewChaCha8(src))
	if err != nil {
		return nil, err
	}
	if m.id, err = peer.IDFromPrivateKey(key); err != nil {
		return nil, err
	}
	raw, err := crypto.MarshalPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return m, os.WriteFile(m.home.KeyFile(), raw, 0o600)
}

// multiaddr returns the address at which other peers reach m.
func (m *machine) multiaddr() string {
	return fmt.Sprintf("/ip4/%s/tcp/%d/p2p/%s", m.addr, port, m.id)
}

// start starts a process after the previous one has exited. Errors are those of
// node.New.
func (m *machine) start() error {
	<-m.done
	m.host = m.w.fabric.Up(m.addr)
	n, err := node.New(m.options())
	if err != nil {
		m.host.Kill(fabric.Reset)
		m.w.note(m, "failed to start: %v", err)
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	m.node, m.stop, m.done = n, stop, done
	m.up.Store(n)
	m.w.note(m, "started")
	host := m.host
	go func() {
		defer close(done)
		err := n.Run(ctx)
		if ctx.Err() == nil { // it was not stopped
			host.Kill(fabric.Reset)
			m.w.noteEnd(m, err)
			m.up.CompareAndSwap(n, nil)
		}
	}()
	return nil
}

// running reports whether a process runs.
func (m *machine) running() bool { return m.node != nil && !m.ended() }

// ended reports whether the latest process, if any, has exited.
func (m *machine) ended() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}

// kill ends the process at once: it sends nothing any more. disk applies the effect on
// the disk. The goroutines of the process exit in the background.
func (m *machine) kill(how fabric.Death, disk func()) {
	if m.node == nil {
		return
	}
	m.host.Kill(how)
	disk()
	m.stop()
	m.node = nil
	m.up.Store(nil)
}

func (m *machine) options() node.Options {
	w := m.w
	c := config.Default()
	c.Listen = []string{fmt.Sprintf("/ip4/%s/tcp/%d", m.addr, port)}
	c.Bootstrap = w.boot
	c.Crawl.AllowNet = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	c.Crawl.MinDelay = config.Duration{Duration: w.o.Gap}
	c.Crawl.FetchWorkers = 16
	c.Crawl.MinFree = 0
	c.Crawl.CheckReports = 0 // the judge takes each second fetch of a page for a fault
	p := config.DefaultProfile()
	p.Name = fmt.Sprintf("sim-%d", w.o.Seed)
	p.Politeness.DelayFactor = 0
	return node.Options{
		Home: m.home, Config: c, Profile: p, UserAgent: config.UserAgent("https://example.org/sim"),
		Logger: m.logger(),
		Emulation: &node.Emulation{
			DialWeb: m.host.DialContext, Lookup: w.lookup, Transport: fabric.Options(m.host),
			Disk: m.disk, Now: func() time.Time { return time.Now().Add(m.skew) }, TimeScale: 1,
		},
	}
}

func (m *machine) logger() *slog.Logger {
	if m.w.o.Logger == nil {
		return slog.New(recorder{m})
	}
	return slog.New(slog.NewMultiHandler(recorder{m}, m.w.o.Logger.With("peer", m.n).Handler()))
}
