//go:build integration && linux

package dashboard_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"peerd/node/admin"
	"peerd/node/dashboard"
)

// serveVariable names the api.json of a server that the test program runs instead of its tests.
const serveVariable = "DASHBOARD_TEST_SERVE"

func TestMain(m *testing.M) {
	if file := os.Getenv(serveVariable); file != "" {
		os.Exit(serveAlone(file))
	}
	os.Exit(m.Run())
}

// serveAlone serves a generated peer until stdin ends, so that its CPU time is that of a process.
func serveAlone(file string) int {
	s, err := admin.Listen(admin.Config{Addr: "127.0.0.1:0", File: file,
		Node: generate(1000, 10_000, 1), Dashboard: dashboard.Handler()})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		_ = bufio.NewScanner(os.Stdin).Scan() // false at the end
	}()
	if err := s.Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// ticksPerSecond is the unit of times in /proc: USER_HZ, the same on all Linux systems.
const ticksPerSecond = 100

// procStat returns the parent of a process and the CPU time that it has used; ok is false if it
// has ended.
func procStat(pid string) (parent string, cpu time.Duration, ok bool) {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return "", 0, false
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name may contain spaces
	f := strings.Fields(rest)
	if len(f) < 13 {
		return "", 0, false
	}
	for _, ticks := range f[11:13] { // user and system time
		n, _ := strconv.Atoi(ticks)
		cpu += time.Duration(n) * time.Second / ticksPerSecond
	}
	return f[1], cpu, true
}

// browserCPU returns the CPU time of all processes of the browser that this process has started.
func browserCPU(t *testing.T) (sum time.Duration) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	parents, cpus := map[string]string{}, map[string]time.Duration{}
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		if parent, cpu, ok := procStat(e.Name()); ok {
			parents[e.Name()], cpus[e.Name()] = parent, cpu
		}
	}
	self := strconv.Itoa(os.Getpid())
	for pid, cpu := range cpus {
		for p := parents[pid]; p != ""; p = parents[p] {
			if p == self {
				sum += cpu
				break
			}
		}
	}
	return sum
}

// maxFrameCPU is the CPU time that a frame of the map may take, by all processes of the browser
// together: with that, one processor draws 20 frames a second.
const maxFrameCPU = 50 * time.Millisecond

// TestMapFrames moves the map with 1,000 peers and 10,000 servers for three seconds. The browser
// draws in software, as it has no graphics card. The time is reported; CPU time is judged, since
// the machine may be busy.
func TestMapFrames(t *testing.T) {
	b := openWith(t, generate(1000, 6667, 1)) // and half as many of other peers
	if n := len(b.peer.Servers()); n < 9_500 || n > 10_500 {
		t.Fatalf("the map has %d servers, want about 10,000", n)
	}
	b.login(t)
	b.run(t, chromedp.EmulateViewport(1280, 900))
	b.show(t, "map")
	b.run(t, until(`document.querySelector('.map canvas').width > 600`))
	before := browserCPU(t)
	eval[any](t, b, `void (window.drawn = new Promise((done) => {
		const canvas = document.querySelector('.map canvas'), from = performance.now();
		let frames = 0;
		const step = (now) => {
			if (now - from > 3000) { done({ frames, took: now - from }); return; }
			frames++;
			canvas.dispatchEvent(new KeyboardEvent('keydown',
				{ key: frames % 2 ? 'ArrowRight' : 'ArrowLeft' }));
			requestAnimationFrame(step);
		};
		requestAnimationFrame(step);
	}).then((r) => { window.result = r; }))`)
	b.run(t, until(`window.result`))
	frames, took := eval[float64](t, b, `result.frames`), eval[float64](t, b, `result.took`)
	cpu := (browserCPU(t) - before) / time.Duration(max(frames, 1))
	t.Logf("%.1f frames a second, %v of CPU time for each", frames*1000/took,
		cpu.Round(100*time.Microsecond))
	if cpu > maxFrameCPU {
		t.Errorf("a frame took %v of CPU time, want at most %v", cpu, maxFrameCPU)
	}
	b.check(t, "map")
}

// TestCost measures the CPU time of a peer of 1,000 peers and 10,000 subnets that does nothing but
// serve the dashboard, over 30 s without it and 30 s with it.
func TestCost(t *testing.T) {
	file := filepath.Join(t.TempDir(), "api.json")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serveVariable+"="+file)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	for {
		if _, err := os.Stat(file); err == nil {
			break
		}
		if t.Context().Err() != nil {
			t.Fatal("the server did not start")
		}
		time.Sleep(10 * time.Millisecond) // until the file appears
	}
	const span = 30 * time.Second
	used := func() time.Duration {
		_, before, _ := procStat(strconv.Itoa(cmd.Process.Pid))
		time.Sleep(span)
		_, after, ok := procStat(strconv.Itoa(cmd.Process.Pid))
		if !ok {
			t.Fatal("the server has ended")
		}
		return after - before
	}
	closed := used()
	b := openAt(t, file)
	b.login(t)
	open := used()
	share := func(d time.Duration) float64 { return 100 * d.Seconds() / span.Seconds() }
	t.Logf("CPU of a processor in %v: %.2f %% with the dashboard closed, %.2f %% with it open",
		span, share(closed), share(open))
	if share(open) > 2 || share(closed) > 0.2 {
		t.Error("want at most 2 % open, and 0.2 % closed, which is the runtime")
	}
	b.check(t, "cost")
}
