package frontier_test

import (
	"fmt"
	"testing"
	"time"

	"peerd/crawl/frontier"
)

// Servers counts those that may be asked now and those that must wait, and Pauses the pauses.
func TestServersAndPauses(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		const servers = 40
		want := func(ready, waiting int) {
			t.Helper()
			if r, n := w.Servers(); r != ready || n != waiting {
				t.Errorf("Servers() = %d, %d, want %d, %d", r, n, ready, waiting)
			}
		}
		want(0, 0)
		for i := range servers {
			w.add(fmt.Sprint("h", i), addr(byte(i), 1), 2)
		}
		want(servers, 0)
		var jobs []frontier.Job
		for range servers {
			j, _ := w.next()
			jobs = append(jobs, j)
		}
		want(0, 0) // all are being asked
		var total time.Duration
		for i, j := range jobs {
			pause := time.Duration(1+i*7%servers) * gap // not in order
			total += pause
			w.Release(j, false, pause, 0)
		}
		want(0, servers)
		pass(gap / 2)
		for i := range servers {
			want(i, servers-i)
			pass(gap)
		}
		want(servers, 0)
		j, _ := w.next()
		w.Return(j, false) // nothing was sent
		if got, want := w.Pauses(), (frontier.Pauses{Count: servers, Total: total}); got != want {
			t.Errorf("Pauses() = %+v, want %+v", got, want)
		}
	})
}
