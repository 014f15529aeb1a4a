package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"peerd/node/admin"
	"peerd/node/config"
)

// peerPort is where every peer listens, at an address of its own.
const peerPort = 4101

// contact is the URL by which peer i shows itself to the sites.
func contact(i int) string { return fmt.Sprintf("https://example.org/chaos/peer-%d", i) }

var agentForm = regexp.MustCompile(`/chaos/peer-(\d+)\)`)

// peerOf is the inverse of contact, for a User-Agent; -1 if it is no peer's.
func peerOf(agent string) int {
	m := agentForm.FindStringSubmatch(agent)
	if m == nil {
		return -1
	}
	i, err := strconv.Atoi(m[1])
	if err != nil {
		return -1
	}
	return i
}

// A process is a peer: its home, and the process of the moment. One goroutine
// at a time may start and end it; the others only look.
type process struct {
	i       int
	home    config.Home
	log     string
	program string
	args    []string // of peerd run
	wires   wires

	mu     sync.Mutex
	cmd    *exec.Cmd
	ended  chan struct{} // closed when cmd has
	meant  bool          // the end of cmd is wanted
	paused bool
}

// newProcess makes a home.
func newProcess(i int, dir, program, settings string, w wires) (*process, error) {
	home, err := config.Init(filepath.Join(dir, fmt.Sprintf("peer-%d", i)))
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf("contact = %q\n%s", contact(i), settings)
	return &process{i: i, home: home, log: home.Dir + ".log", program: program, wires: w}, os.WriteFile(home.ConfigFile(), []byte(text), 0o600)
}

// addr is where others join it.
func (p *process) addr() (string, error) {
	id, err := p.home.PeerID()
	return fmt.Sprintf("/ip4/%v/tcp/%d/p2p/%v", p.wires.peer(p.i), peerPort, id), err
}

// start starts the process, which must not run.
func (p *process) start() error {
	log, err := os.OpenFile(p.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd, ended := p.wires.command(p.i, p.program, append([]string{"run", "--home", p.home.Dir}, p.args...)...), make(chan struct{})
	cmd.Stderr = log
	tether(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = cmd.Wait() // the state tells
		close(ended)
	}()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd, p.ended, p.meant, p.paused = cmd, ended, false, false
	return nil
}

// signal sends one, if the process runs.
func (p *process) signal(s syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return nil
	}
	p.paused = s == syscall.SIGSTOP
	err := p.cmd.Process.Signal(s)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// expect says that the process is about to end, and returns what tells that it
// has; nil if it was never started.
func (p *process) expect() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.meant = true
	return p.ended
}

// kill ends the process as kill -9 does.
func (p *process) kill() error {
	ended := p.expect()
	err := p.signal(syscall.SIGKILL)
	if ended != nil {
		<-ended
	}
	return err
}

// terminate ends it as SIGTERM does, or kills it when it takes too long.
func (p *process) terminate(patience time.Duration) error {
	ended := p.expect()
	if ended == nil {
		return nil
	}
	err := p.signal(syscall.SIGTERM)
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-ended:
		return err
	case <-late.C:
		return errors.Join(err, fmt.Errorf("peer %d still ran %v after SIGTERM", p.i, patience), p.kill())
	}
}

// leave ends it as "peerd stop" does, which says how that went.
func (p *process) leave(ctx context.Context) (said string, err error) {
	ended := p.expect()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, p.program, "stop", "--home", p.home.Dir)
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	if err == nil {
		<-ended
	}
	return strings.TrimSpace(out.String()), err
}

// dump ends it as SIGQUIT does: the stacks of all goroutines are in its log.
func (p *process) dump() error {
	ended := p.expect()
	if err := p.signal(syscall.SIGQUIT); err != nil {
		return err
	}
	select {
	case <-ended:
	case <-time.After(askTime):
	}
	return nil
}

// lose ends it and deletes its home.
func (p *process) lose() error { return errors.Join(p.kill(), os.RemoveAll(p.home.Dir)) }

// state says whether it runs and can answer, and whether it ended unasked.
func (p *process) state() (up, crashed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return false, false
	}
	select {
	case <-p.ended:
		return false, !p.meant
	default:
		return !p.paused, false
	}
}

// askTime bounds one question to a peer.
const askTime = 3 * time.Second

// ask returns what the peer says of itself.
func (p *process) ask(ctx context.Context) (s admin.Status, owned []netip.Prefix, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	c, err := admin.Dial(p.home.APIFile())
	if err != nil {
		return s, nil, err
	}
	if s, err = c.Status(ctx); err != nil {
		return s, nil, err
	}
	list, err := c.Subnets(ctx)
	for _, row := range list {
		if at, bad := netip.ParsePrefix(row.Subnet); bad == nil && row.State != admin.SubnetLeaving {
			owned = append(owned, at)
		}
	}
	return s, owned, err
}

// held names the hosts with URLs at the peer, and what it does with them.
func (p *process) held(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	c, err := admin.Dial(p.home.APIFile())
	if err != nil {
		return nil
	}
	queue, err := c.Queue(ctx)
	if err != nil {
		return []string{fmt.Sprintf("peer %d: %v", p.i, err)}
	}
	var all []string
	subnets, _ := c.Subnets(ctx)
	for _, row := range subnets {
		if row.State == admin.SubnetLeaving {
			all = append(all, fmt.Sprintf("peer %d: leaving %s, %d URLs", p.i, row.Subnet, row.Pending))
		}
	}
	for _, h := range queue {
		if h.Pending+int64(h.InFlight) == 0 {
			continue
		}
		next := ""
		if h.NextAt != nil {
			next = fmt.Sprintf(", next in %.0f s", time.Until(*h.NextAt).Seconds())
		}
		all = append(all, fmt.Sprintf("peer %d: %s %s %s, %d and %d in flight%s", p.i, h.Role, h.Host, h.Subnet, h.Pending, h.InFlight, next))
	}
	return all
}

// seed gives the peer a URL.
func (p *process) seed(ctx context.Context, url string) error {
	c, err := admin.Dial(p.home.APIFile())
	if err != nil {
		return err
	}
	r, err := c.Seed(ctx, []string{url})
	if err == nil && r.Accepted != 1 {
		err = fmt.Errorf("the seed was not accepted: %+v", r)
	}
	return err
}

// lastWords are the last lines of its log.
func (p *process) lastWords() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "\n")
}
