package overlay

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
)

// counted forwards TCP connections to a peer and counts what passes, both ways.
func counted(t *testing.T, to *Net) (peer.AddrInfo, *atomic.Int64) {
	t.Helper()
	port, err := infoOf(to).Addrs[0].ValueForProtocol(ma.P_TCP)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var bytes atomic.Int64
	var open sync.WaitGroup
	open.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", "127.0.0.1:"+port)
			if err != nil {
				in.Close()
				continue
			}
			copying := func(to, from net.Conn) {
				n, _ := io.Copy(to, from) // ends with the connection
				bytes.Add(n)
				to.Close()
				from.Close()
			}
			open.Go(func() { copying(in, out) })
			open.Go(func() { copying(out, in) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		open.Wait()
	})
	_, own, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	a, err := ma.NewMultiaddr("/ip4/127.0.0.1/tcp/" + own)
	if err != nil {
		t.Fatal(err)
	}
	return peer.AddrInfo{ID: to.Self(), Addrs: []ma.Multiaddr{a}}, &bytes
}

// TestConnectionCost logs what it costs to connect to a peer, be introduced and disconnect:
//
//	go test ./overlay -run ConnectionCost -v
func TestConnectionCost(t *testing.T) {
	const times = 5
	b := newNet(t, 71, "cost")
	info, bytes := counted(t, b)
	var took time.Duration
	for i := range int64(times) {
		a := newNet(t, 72+i, "cost")
		before := processorTime(t)
		if err := a.Host.Connect(t.Context(), info); err != nil {
			t.Fatal(err)
		}
		eventually(t, "introduced", func() bool {
			protocols, err := a.Host.Peerstore().GetProtocols(info.ID)
			return err == nil && len(protocols) > 0
		})
		if err := a.Host.Network().ClosePeer(info.ID); err != nil {
			t.Fatal(err)
		}
		took += processorTime(t) - before
	}
	eventually(t, "connections counted", func() bool { return bytes.Load() > times*1000 })
	each := bytes.Load() / times
	t.Logf("a connection over TCP: %d bytes, %v of processor time at both ends", each,
		(took / times).Round(10*time.Microsecond))
	if each < 1000 || each > 50_000 {
		t.Errorf("a connection takes %d bytes, want 1,000 to 50,000", each)
	}
}

func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
