package peers_test

import (
	"log/slog"
	"os"
	"syscall"
	"testing"
	"time"
)

func cpu() time.Duration {
	var r syscall.Rusage
	syscall.Getrusage(0, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
func TestZZScale(t *testing.T) {
	for _, n := range []int{24} {
		c0 := cpu()
		t0 := time.Now()
		first, _ := start(t, int64(100*n), "z", nil)
		ms := []*member{first}
		for i := 1; i < n; i++ {
			m, _ := start(t, int64(100*n+i), "z", first)
			ms = append(ms, m)
		}
		eventually(t, 60*time.Second, "dir", all(ms, func(m *member) bool { return m.peers.Directory().Len() == n-1 }))
		eventually(t, 60*time.Second, "conns", all(ms, func(m *member) bool { return len(m.net.Host.Network().Peers()) == n-1 }))
		t.Log(n, "wall", time.Since(t0), "cpu", cpu()-c0)
		nc := 0
		for _, m := range ms {
			nc += len(m.net.Host.Network().Conns())
		}
		t.Log("conns", nc, "ideal", n*(n-1))
		for k := 0; k < 1; k++ {
			c1 := cpu()
			time.Sleep(5 * time.Second)
			t.Log("idle cpu/s", (cpu()-c1)/5)
			e := 0.0
			var s, r int64
			for _, m := range ms {
				e += m.peers.Coordinate().Error
				a, b := m.net.ControlBytes()
				s += a
				r += b
			}
			t.Log("mean error", e/float64(n), "sent/peer", s/int64(n), "recv/peer", r/int64(n))
		}
		for _, m := range ms {
			_ = m
		}
	}
}

var dbg = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
