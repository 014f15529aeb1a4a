//go:build integration

package outage

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"peerd/lab/emulate/netns"
	"peerd/node/admin"
	"peerd/node/config"
)

// peer is a process of peerd on a host of its own, and its home directory.
type peer struct {
	w       *world
	i       int
	home    string
	profile string
	log     string // file with all that it prints

	cmd   *exec.Cmd
	ended chan struct{} // closed when cmd has exited
}

// settings are the config.toml of all peers, with shorter times than the defaults.
// Pages that are fetched again are counted, and so no report of another peer is checked.
const settings = `contact = 'https://example.org/outage'
[overlay]
batch_max_age = '300ms'
unclaimed_age = '300ms'
unclaimed_urls = 8
settle = '300ms'
[crawl]
allow_net = ['10.80.0.0/12', 'fd80::/16', '127.66.0.0/16']
min_delay = '%v'
network_requests = 0
network_rate = 0.0
check_reports = 0.0
`

// rules are the profile of all peers.
const rules = `name = 'outage'
[scope]
mode = 'any'
[politeness]
min_delay = '1ms'
delay_factor = 0.0
`

func newPeer(w *world, i int) (*peer, error) {
	dir := filepath.Join(w.dir, fmt.Sprintf("peer-%d", i))
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	p := &peer{w: w, i: i, home: filepath.Join(dir, "home"), log: filepath.Join(dir, "log"),
		profile: filepath.Join(dir, "net.toml")}
	home, err := config.Init(p.home)
	if err != nil {
		return nil, err
	}
	gap := w.row.gap
	if gap == 0 {
		gap = 50 * time.Millisecond
	}
	text := fmt.Sprintf(settings, gap) + w.row.config
	if err := os.WriteFile(home.ConfigFile(), []byte(text), 0o600); err != nil {
		return nil, err
	}
	if err := os.WriteFile(p.profile, []byte(rules+w.row.profile), 0o600); err != nil {
		return nil, err
	}
	return p, os.WriteFile(filepath.Join(dir, "ca.pem"), w.web.CA(), 0o600)
}

// command returns a command of peerd on the host of the peer.
func (p *peer) command(args ...string) *exec.Cmd {
	cmd := p.w.net.Command(p.i, *peerd, args...)
	if p.w.row.local {
		cmd = exec.Command(*peerd, args...)
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, "SSL_CERT_FILE="+filepath.Join(filepath.Dir(p.log), "ca.pem"))
	netns.KillWithParent(cmd)
	return cmd
}

// start starts a process of peerd.
func (p *peer) start(args ...string) error {
	log, err := os.OpenFile(p.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd, ended := p.command(args...), make(chan struct{})
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	p.cmd, p.ended = cmd, ended
	go func() {
		defer close(ended)
		_ = cmd.Wait() // ProcessState has the result
	}()
	return nil
}

// run starts peerd run in the network of the first peer, and waits until it answers.
func (p *peer) run(first *peer) error {
	args := []string{"run", "--home", p.home, "--profile", p.profile, "--listen",
		fmt.Sprintf("/ip4/%v/tcp/4101", netns.Peer(p.i))}
	if p != first {
		id, err := config.Home{Dir: first.home}.PeerID()
		if err != nil {
			return err
		}
		args = append(args, "--bootstrap",
			fmt.Sprintf("/ip4/%v/tcp/4101/p2p/%v", netns.Peer(first.i), id))
	}
	if err := p.start(args...); err != nil {
		return err
	}
	var err error
	if !p.w.wait(patience, func() bool {
		_, err = p.status()
		return err == nil || !p.running()
	}) {
		return fmt.Errorf("peer %d does not answer: %w\n%s", p.i, err, p.output())
	}
	if !p.running() {
		return fmt.Errorf("peer %d ended\n%s", p.i, p.output())
	}
	return nil
}

// seed gives it URLs.
func (p *peer) seed(urls []string) error {
	for len(urls) > 0 {
		n := min(len(urls), 1000)
		args := append([]string{"seed", "--home", p.home}, urls[:n]...)
		if out, err := p.command(args...).CombinedOutput(); err != nil {
			return fmt.Errorf("seed: %w\n%s", err, out)
		}
		urls = urls[n:]
	}
	return nil
}

// status returns what peerd status says.
func (p *peer) status() (s admin.Status, err error) {
	text, err := p.ask("status", "--json")
	if err == nil {
		err = json.Unmarshal([]byte(text), &s)
	}
	return s, err
}

// ask runs a command on the peer's home and returns its output.
func (p *peer) ask(command string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(p.w.ctx, patience)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := p.command(append([]string{command, "--home", p.home}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		return "", err
	}
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })()
	if err := cmd.Wait(); err != nil {
		return out.String(), fmt.Errorf("%s: %w: %s", command, err,
			strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}

// tell is ask for messages.
func (p *peer) tell(command string, args ...string) string {
	text, err := p.ask(command, args...)
	if err != nil {
		return text + err.Error()
	}
	return text
}

// output returns all that its processes printed.
func (p *peer) output() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (p *peer) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return p.cmd != nil
	}
}

// kill ends the process, if it was started, and waits for it.
func (p *peer) kill() {
	if p.cmd != nil {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.ended
	}
}

// terminate ends the process with SIGTERM, and reports whether it ended in time.
func (p *peer) terminate(limit time.Duration) bool {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-p.ended:
		return true
	case <-late.C:
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // the log gets the stacks of all goroutines
		p.w.wait(5*time.Second, func() bool { return !p.running() })
		p.kill()
		return false
	}
}

// exitCode returns the exit status of the process, which has ended.
func (p *peer) exitCode() int { return p.cmd.ProcessState.ExitCode() }

// watchMemory stores the largest resident size of the process in bytes until it has ended.
func (p *peer) watchMemory(most *atomic.Int64) {
	pid, ended := p.cmd.Process.Pid, p.ended
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return
		}
		for line := range strings.Lines(string(text)) {
			var kib int64
			if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kib); err == nil {
				most.Store(max(most.Load(), kib<<10))
			}
		}
	}
}
