package wan

import (
	"io"
	"net"
	"testing"
)

// BenchmarkThroughput measures the cost of a byte through an emulated connection that
// bandwidth does not limit.
func BenchmarkThroughput(b *testing.B) {
	n := testNetwork(b, ms)
	addr := listen(b, func(s net.Conn) { _, _ = io.Copy(io.Discard, s) })
	raw, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	rng, _ := n.newRand()
	c, err := n.adopt(raw, ends{}, rng)
	if err != nil {
		b.Fatal(err)
	}
	c.(*Conn).change(Link{RTT: ms, Bps: 1e12})
	defer c.Close()
	buf := make([]byte, 32<<10)
	b.SetBytes(int64(len(buf)))
	for b.Loop() {
		if _, err := c.Write(buf); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRoundTrip tells, by what it takes beyond a millisecond, how late the
// timers are.
func BenchmarkRoundTrip(b *testing.B) {
	n := testNetwork(b, ms)
	c, err := n.Dialer(0, client)(b.Context(), "tcp", listen(b, echo))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	buf := make([]byte, 4)
	for b.Loop() {
		if _, err := c.Write(buf); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c, buf); err != nil {
			b.Fatal(err)
		}
	}
}
