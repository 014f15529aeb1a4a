//go:build integration

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"peerd/lab/emulate/web"
	"peerd/node/admin"
)

// patience is the minimum of all time limits, which only end a test that hangs: a machine that
// others use may stand still for a minute.
const patience = 5 * time.Minute

// eventually waits until cond holds, for limit or patience. On failure, it prints the last state
// that cond returned.
func eventually(t *testing.T, limit time.Duration, what string, cond func() (bool, any)) {
	t.Helper()
	limit = max(limit, patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(limit)
	for {
		ok, state := cond()
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("after %v still not: %s; %+v", limit, what, state)
		}
	}
}

// peerd runs one command of the program to its end and returns its stdout.
func peerd(t *testing.T, args ...string) string {
	t.Helper()
	stdout, stderr, code := tryPeerd(t, args...)
	if code != 0 {
		t.Fatalf("peerd %s: status %d\n%s", args[0], code, stderr)
	}
	return stdout
}

// tryPeerd is peerd for commands that may fail.
func tryPeerd(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "peerd", args...)
	cmd.Env = environment()
	var out, err bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &err
	if e := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(e)
	}
	return out.String(), err.String(), cmd.ProcessState.ExitCode()
}

// environment returns that of this process. Programs built with the race detector do not idle
// for a second at their end with it.
func environment() []string {
	return append(os.Environ(), strings.TrimSpace("GORACE="+os.Getenv("GORACE")+
		" atexit_sleep_ms=0"))
}

// A process is a running command of the program.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stderr string // file
	ended  chan struct{}
}

// start starts a command. It is killed when the test ends.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	return startTo(t, nil, args...)
}

// startTo is start with a file for stdout.
func startTo(t *testing.T, stdout *os.File, args ...string) *process {
	t.Helper()
	// A file, unlike a pipe, never blocks the process.
	log, err := os.CreateTemp(t.TempDir(), "stderr")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p := &process{t: t, cmd: exec.Command("peerd", args...), stderr: log.Name(),
		ended: make(chan struct{})}
	p.cmd.Stderr, p.cmd.Env = log, environment()
	if stdout != nil {
		p.cmd.Stdout = stdout
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // the state tells
	}()
	t.Cleanup(func() {
		p.kill()
		if strings.Contains(p.stderrText(), "DATA RACE") { // also of one that was killed
			t.Error("a data race was reported")
		}
		if t.Failed() {
			t.Logf("peerd %s, pid %d:\n%s", args[0], p.cmd.Process.Pid, tail(p.stderrText(), 60))
		}
	})
	return p
}

// stderrText returns what the process has written to stderr so far.
func (p *process) stderrText() string {
	text, err := os.ReadFile(p.stderr)
	if err != nil {
		p.t.Error(err)
	}
	return string(text)
}

// running reports whether the process runs.
func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// pause stops the process where it is, until it is killed.
func (p *process) pause() { _ = p.cmd.Process.Signal(syscall.SIGSTOP) } // it may have ended

// kill ends the process as kill -9 does, and returns when it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// terminate sends SIGTERM and returns the exit status.
func (p *process) terminate(limit time.Duration) int {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	return p.wait(limit)
}

// wait returns the exit status. It waits for limit or patience.
func (p *process) wait(limit time.Duration) int {
	p.t.Helper()
	limit = max(limit, patience)
	select {
	case <-p.ended:
	case <-time.After(limit):
		p.t.Fatalf("still running after %v", limit)
	}
	return p.cmd.ProcessState.ExitCode()
}

// stalls returns the longest stall of this process so far: the processes that it started stalled
// as well.
func stalls(t *testing.T) *atomic.Int64 {
	var most atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for last := time.Now(); t.Context().Err() == nil; last = time.Now() {
			select {
			case <-t.Context().Done():
			case <-time.After(10 * time.Millisecond):
			}
			most.Store(max(most.Load(), int64(time.Since(last))))
		}
	}()
	t.Cleanup(func() { <-done })
	return &most
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// A daemon is a home with the options of the peer that is run there repeatedly.
type daemon struct {
	*process
	t     *testing.T
	home  string
	flags []string
}

// newDaemon creates a home with shorter times in config.toml.
func newDaemon(t *testing.T, flags ...string) *daemon {
	t.Helper()
	home := filepath.Join(t.TempDir(), "home")
	peerd(t, "init", "--home", home)
	settings := "contact = 'https://example.org/crawler'\n" +
		"[overlay]\nbatch_max_age = '300ms'\nunclaimed_age = '300ms'\nunclaimed_urls = 8\n" +
		"settle = '300ms'\n"
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(settings),
		0o600); err != nil {
		t.Fatal(err)
	}
	return &daemon{t: t, home: home, flags: flags}
}

// run starts the peer and waits until it answers.
func (d *daemon) run() {
	d.t.Helper()
	d.process = start(d.t, append([]string{"run", "--home", d.home}, d.flags...)...)
	eventually(d.t, 15*time.Second, "the peer answers", func() (bool, any) {
		if !d.running() {
			d.t.Fatalf("the peer ended at once, status %d: %s", d.cmd.ProcessState.ExitCode(),
				d.stderrText())
		}
		_, err := d.ask()
		return err == nil, err
	})
}

// ask returns the status without the cost of a process.
func (d *daemon) ask() (admin.Status, error) {
	client, err := admin.Dial(filepath.Join(d.home, "api.json"))
	if err != nil {
		return admin.Status{}, err
	}
	return client.Status(d.t.Context())
}

// status returns the output of `peerd status --json`.
func (d *daemon) status() admin.Status {
	d.t.Helper()
	var s admin.Status
	if err := json.Unmarshal([]byte(peerd(d.t, "status", "--home", d.home, "--json")),
		&s); err != nil {
		d.t.Fatal(err)
	}
	return s
}

// links returns the output of `peerd links --json`, by URL.
func (d *daemon) links() map[string]admin.Link {
	d.t.Helper()
	all := map[string]admin.Link{}
	for line := range strings.Lines(peerd(d.t, "links", "--home", d.home, "--json")) {
		var l admin.Link
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			d.t.Fatalf("%v in %q", err, line)
		}
		if _, twice := all[l.URL]; twice {
			d.t.Errorf("%s is listed twice by one peer", l.URL)
		}
		all[l.URL] = l
	}
	return all
}

// left is the work that a peer has left.
func left(s admin.Status) int64 {
	return s.Frontier.Pending + s.Frontier.InFlight + s.Frontier.Unclaimed + s.OutboxURLs
}

// awaitIdle waits until no peer has had any work in several checks in a row, because the peers
// cannot be checked at the same instant.
func awaitIdle(t *testing.T, limit time.Duration, ds []*daemon) {
	t.Helper()
	looks := 0
	defer func() {
		for i, d := range ds {
			if t.Failed() {
				t.Logf("peer %d:\n%s%s", i, peerd(t, "queue", "--home", d.home),
					peerd(t, "peers", "--home", d.home))
			}
		}
	}()
	eventually(t, limit, "nothing is left", func() (bool, any) {
		state := ""
		var sum int64
		for i, d := range ds {
			s, err := d.ask()
			if err != nil {
				t.Fatalf("peer %d: %v", i, err)
			}
			sum += left(s)
			state += fmt.Sprintf("\npeer %d: %+v, outbox %d, %d pages, %d subnets", i, s.Frontier,
				s.OutboxURLs, s.PagesFetched, s.SubnetsOwned)
		}
		looks++
		if sum > 0 {
			looks = 0
		}
		return looks > 10, state
	})
}

// serveWeb serves a synthetic web until the test ends. It returns the web and the options for a
// peer to find it. octet separates the webs of tests.
func serveWeb(t *testing.T, cfg web.Config, octet byte) (w *web.Web, flags []string) {
	t.Helper()
	cfg.Addrs = func(site int) []netip.Addr {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, octet, byte(site), 10})}
	}
	w, err := web.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	for _, s := range w.Sites() {
		flags = append(flags, "--resolve", s.Host+"="+s.Addrs[0].String())
	}
	// The pages that are fetched twice are counted.
	return w, append(flags, "--allow-net", "127.0.0.0/8", "--min-delay", cfg.MinDelay.String(),
		"--check-reports", "0")
}
