package chaos

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

	"peerd/lab/emulate/netns"
	"peerd/node/admin"
	"peerd/node/config"
)

// peerPort is the port on which every peer listens, each at its own address.
const peerPort = 4101

// contact returns the contact URL in the User-Agent of peer i.
func contact(i int) string { return fmt.Sprintf("https://example.org/chaos/peer-%d", i) }

var agentForm = regexp.MustCompile(`/chaos/peer-(\d+)\)`)

// peerOf returns the peer with the contact URL in a User-Agent, or -1.
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

// A process is a peer: its home directory and its current process. Only one goroutine at a time
// may start and end the process; others may read its state.
type process struct {
	i       int
	home    config.Home
	log     string
	program string
	args    []string // of peerd run
	network network

	mu       sync.Mutex
	cmd      *exec.Cmd
	ended    chan struct{} // closed when cmd has exited
	expected bool          // cmd is being stopped on purpose
	paused   bool
}

// newProcess creates the home directory of a peer.
func newProcess(i int, dir, program, settings string, w network) (*process, error) {
	home, err := config.Init(filepath.Join(dir, fmt.Sprintf("peer-%d", i)))
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf("contact = %q\n%s", contact(i), settings)
	return &process{i: i, home: home, log: home.Dir + ".log", program: program, network: w},
		os.WriteFile(home.ConfigFile(), []byte(text), 0o600)
}

// addr returns the address at which other peers reach it.
func (p *process) addr() (string, error) {
	id, err := p.home.PeerID()
	return fmt.Sprintf("/ip4/%v/tcp/%d/p2p/%v", p.network.peer(p.i), peerPort, id), err
}

// start starts the process, which must not be running.
func (p *process) start() error {
	log, err := os.OpenFile(p.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd, ended := p.network.command(p.i, p.program, append([]string{"run", "--home", p.home.Dir},
		p.args...)...), make(chan struct{})
	cmd.Stderr = log
	netns.KillWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = cmd.Wait() // ProcessState has the result
		close(ended)
	}()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd, p.ended, p.expected, p.paused = cmd, ended, false, false
	return nil
}

// signal sends a signal if the process is running.
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

// expectExit records that the process is about to be stopped, and returns a channel that is
// closed when it has exited; nil if it was never started.
func (p *process) expectExit() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = true
	return p.ended
}

// kill sends SIGKILL and waits for the process.
func (p *process) kill() error {
	ended := p.expectExit()
	err := p.signal(syscall.SIGKILL)
	if ended != nil {
		<-ended
	}
	return err
}

// terminate sends SIGTERM and waits for the process. It kills the process after patience.
func (p *process) terminate(patience time.Duration) error {
	ended := p.expectExit()
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
		return errors.Join(err, fmt.Errorf("peer %d still ran %v after SIGTERM", p.i, patience),
			p.kill())
	}
}

// leave stops the process with "peerd stop" and returns the output of that command.
func (p *process) leave(ctx context.Context) (said string, err error) {
	ended := p.expectExit()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, p.program, "stop", "--home", p.home.Dir)
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	if err == nil {
		<-ended
	}
	return strings.TrimSpace(out.String()), err
}

// dump stops the process with SIGQUIT, which writes the stacks of all goroutines to its log.
func (p *process) dump() error {
	ended := p.expectExit()
	if err := p.signal(syscall.SIGQUIT); err != nil {
		return err
	}
	select {
	case <-ended:
	case <-time.After(askTimeout):
	}
	return nil
}

// lose kills the process and deletes its home directory.
func (p *process) lose() error { return errors.Join(p.kill(), os.RemoveAll(p.home.Dir)) }

// state reports whether the process runs and is not stopped, and whether it exited
// unexpectedly.
func (p *process) state() (up, crashed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return false, false
	}
	select {
	case <-p.ended:
		return false, !p.expected
	default:
		return !p.paused, false
	}
}

// askTimeout is the time limit of one API request to a peer.
const askTimeout = 3 * time.Second

// ask returns the status of the peer and the subnets that it owns.
func (p *process) ask(ctx context.Context) (s admin.Status, owned []netip.Prefix, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
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
		if at, bad := netip.ParsePrefix(row.Subnet); bad == nil &&
			row.State != admin.SubnetLeaving {
			owned = append(owned, at)
		}
	}
	return s, owned, err
}

// held describes the URLs at the peer by host, with their state.
func (p *process) held(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
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
			all = append(all, fmt.Sprintf("peer %d: leaving %s, %d URLs", p.i, row.Subnet,
				row.Pending))
		}
	}
	for _, h := range queue {
		if h.Pending+h.InFlight == 0 {
			continue
		}
		next := ""
		if h.NextAt != nil {
			next = fmt.Sprintf(", next in %.0f s", time.Until(*h.NextAt).Seconds())
		}
		all = append(all, fmt.Sprintf("peer %d: %s %s %s, %d and %d in flight%s", p.i, h.Role,
			h.Host, h.Subnet, h.Pending, h.InFlight, next))
	}
	return all
}

// seed submits a seed URL to the peer.
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

// lastLogLines returns the last lines of its log.
func (p *process) lastLogLines() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "\n")
}
