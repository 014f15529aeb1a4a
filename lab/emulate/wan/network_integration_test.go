//go:build integration

package wan

import (
	"net"
	"slices"
	"testing"
	"time"
)

// TestRoundTripOverTCP judges real time. Upper bounds are generous, and the best of several
// tries is used, because the machine may be busy.
func TestRoundTripOverTCP(t *testing.T) {
	for _, rtt := range []time.Duration{20 * ms, 120 * ms} {
		n := testNetwork(t, rtt)
		addr := listen(t, echo)
		dial := n.Dialer(0, client)
		start := time.Now()
		c, err := dial(t.Context(), "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < rtt || took > 2*rtt+100*ms {
			t.Errorf("dial took %v at %v", took, rtt)
		}
		if a := c.LocalAddr().(*net.TCPAddr).AddrPort().Addr(); a != client {
			t.Errorf("dialled from %v", a)
		}
		var trips []time.Duration
		for range 8 {
			start := time.Now()
			if _, err := c.Write([]byte("ping")); err != nil {
				t.Fatal(err)
			}
			readN(t, c, 4)
			trips = append(trips, time.Since(start))
		}
		least := n.World().Link(0, 1).RTT
		if best := slices.Min(trips); best < least || best > least+least/5+30*ms {
			t.Errorf("round trip %v, want %v", best, least)
		}
		c.Close()
	}
}
