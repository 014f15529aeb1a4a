package overlay

import (
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
)

// writeCounter counts what is written.
type writeCounter struct {
	net.Conn
	writes *atomic.Int64
}

func (c writeCounter) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}

// Of an idle connection one end pings, not less often than TCP would.
func TestIdleConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var writes atomic.Int64
		a, b := net.Pipe()
		m := newMuxer()
		dialed, err := m.NewConn(writeCounter{a, &writes}, false, &network.NullScope{})
		if err != nil {
			t.Fatal(err)
		}
		accepted, err := m.NewConn(writeCounter{b, &writes}, true, &network.NullScope{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // both ends have measured the round trip
		writes.Store(0)
		time.Sleep(28 * 100 * time.Second)
		synctest.Wait()
		if n := writes.Load(); n < 190 || n > 210 {
			t.Errorf("%d messages in 100 pauses of 28 s, want 100 pings and answers", n)
		}
		_, _ = dialed.Close(), accepted.Close()
	})
}
