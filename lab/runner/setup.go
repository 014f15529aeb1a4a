package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/errgroup"

	"peerd/lab/emulate/web"
)

// maxBootstrap is the number of machines of which the first peer is a bootstrap peer.
const maxBootstrap = 3

const (
	// lookWait is how long the answers to a look before the seeds may take.
	lookWait = 5 * time.Second
	// lookPause is how many times as long as the answers took the next look waits. On a machine
	// with many peers, to ask them all takes processor time that they need to meet each other.
	lookPause = 4
)

// prepare creates the homes of all peers.
func (r *runner) prepare(ctx context.Context) error {
	if r.spec != nil && r.p.Sites == nil { // on the first machine that is left
		m := slices.IndexFunc(r.p.Machines, func(s *machineState) bool {
			return s.State == Equipped
		})
		if m >= 0 {
			r.change(func() { r.p.Sites = &peerState{State: New, Machine: m} })
		}
	}
	return r.each(ctx, Equipped, Prepared, func(ctx context.Context, m int) error {
		b := strings.Builder{}
		b.WriteString("./peerd version\n")
		procs := r.procs(m, New)
		for _, i := range procs {
			settings, command, err := r.files(i)
			if err != nil {
				return err
			}
			b.WriteString(home(name(i), settings, runFile(command)))
		}
		text, err := r.sh(ctx, m, r.patience(m), b.String())
		if err != nil {
			return err
		}
		got := r.answers(m, text)
		for _, i := range procs {
			if _, err := peer.Decode(got[i][1]); err != nil {
				return fmt.Errorf("%s has no ID: %w", name(i), err)
			}
		}
		r.change(func() {
			r.p.Version, _, _ = strings.Cut(text, "\n")
			for _, i := range procs {
				r.proc(i).ID, r.proc(i).State = got[i][1], Prepared
			}
		})
		return nil
	})
}

// patience is the time limit for something that takes time for each peer of a machine.
func (r *runner) patience(m int) time.Duration {
	return r.f.Timeout.Duration + time.Duration(r.f.Machines[m].Peers)*5*time.Second
}

// listen returns where a peer listens, and how others reach it, without its ID.
func (r *runner) listen(i int) (listen []string, reached string) {
	p := r.proc(i)
	address := r.p.Machines[p.Machine].Address
	if r.spec != nil {
		a := fmt.Sprintf("/ip4/%v/tcp/%d", r.layout.PeerAddrs[i], r.f.Port)
		return []string{a}, a
	}
	family, at, any := "dns", address, "0.0.0.0"
	if a, err := netip.ParseAddr(address); err == nil {
		if family = "ip4"; a.Is6() {
			family, any = "ip6", "::"
		}
		if a.IsLoopback() {
			any = address
		}
	}
	kind := map[bool]string{true: "ip6", false: "ip4"}[family == "ip6"]
	listen = []string{fmt.Sprintf("/%s/%s/tcp/%d", kind, any, p.Port),
		fmt.Sprintf("/%s/%s/udp/%d/quic-v1", kind, any, p.Port)}
	return listen, fmt.Sprintf("/%s/%s/tcp/%d", family, at, p.Port)
}

// files returns config.toml of a process and the arguments of its program.
func (r *runner) files(i int) (settings, command string, err error) {
	at := name(i) + "/home"
	if i == sites {
		text, err := json.Marshal(r.spec)
		return "", fmt.Sprintf(`site --emulate %s --of %d --pages %d --log-dir "$PWD/%s"`,
			quote(string(text)), r.spec.Sites, r.spec.Pages, at), err
	}
	c := r.f.Settings
	c.Listen, _ = r.listen(i)
	command = fmt.Sprintf(`run --home "$PWD/%s"`, at)
	if r.spec != nil {
		own := *r.spec
		own.Peer = i
		text, err := json.Marshal(own)
		if err != nil {
			return "", "", err
		}
		command += " --emulate " + quote(string(text))
	}
	settings, err = c.Text("")
	return settings, command, err
}

// join gives all homes the rules of the network. Into a network that is not open, the first peer
// that starts invites the others.
func (r *runner) join(ctx context.Context) error {
	if r.f.Profile.Admission == "invite" && r.p.Line == "" {
		if err := r.found(ctx); err != nil {
			return err
		}
	}
	profile, err := r.profile()
	if err != nil {
		return err
	}
	return r.each(ctx, Prepared, Joined, func(ctx context.Context, m int) error {
		var b strings.Builder
		for _, i := range r.procs(m, Prepared) {
			switch {
			case i == sites:
			case r.p.Line == "":
				b.WriteString(rules(name(i), profile))
			default:
				fmt.Fprintf(&b, "./peerd join --home %s/home %s >/dev/null || exit 1\n", name(i),
					quote(r.p.Line))
			}
		}
		_, err := r.sh(ctx, m, r.patience(m), b.String())
		return err
	})
}

// profile returns the rules of the network, with bootstrap peers on several machines.
func (r *runner) profile() ([]byte, error) {
	p := r.f.Profile
	if r.p.Founder >= 0 {
		p.Founders = []string{r.p.Peers[r.p.Founder].ID}
	}
	last := -1
	for i, s := range r.p.Peers {
		if len(p.Bootstrap) < maxBootstrap && s.Machine != last && s.ID != "" &&
			s.State != LeftOut {
			_, at := r.listen(i)
			p.Bootstrap, last = append(p.Bootstrap, at+"/p2p/"+s.ID), s.Machine
		}
	}
	return p.Text()
}

// found starts the first peer and has it invite the others. If its machine fails, it is left out
// and the next peer is tried.
func (r *runner) found(ctx context.Context) error {
	for i, p := range r.p.Peers {
		if p.State == LeftOut || r.p.Founder > i {
			continue
		}
		r.change(func() { r.p.Founder = i })
		err := r.invite(ctx, i)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			return nil
		}
		r.leaveOut(p.Machine, fmt.Errorf("found the network: %w", err))
	}
	return ErrNoMachine
}

func (r *runner) invite(ctx context.Context, i int) error {
	p := r.p.Peers[i]
	profile, err := r.profile()
	if err == nil && p.State == Prepared {
		_, err = r.sh(ctx, p.Machine, r.f.Timeout.Duration, rules(name(i), profile))
	}
	if err != nil {
		return err
	}
	if err := r.startProcs(ctx, p.Machine, []int{i}); err != nil {
		return err
	}
	if p.State != Running {
		return errors.New(p.Why)
	}
	address := r.p.Machines[p.Machine].Address
	port := p.Port
	if r.spec != nil {
		address, port = r.layout.PeerAddrs[i].String(), r.f.Port
	}
	line, err := r.sh(ctx, p.Machine, r.f.Timeout.Duration, fmt.Sprintf(
		`i=0; until ./peerd status --home %[1]s/home >/dev/null 2>&1; do
	i=$((i + 1)); [ $i -gt 30 ] && break; sleep 1
done
./peerd invite --home %[1]s/home --uses %[2]d --addr %[3]s`, name(i), len(r.p.Peers),
		quote(net.JoinHostPort(address, strconv.Itoa(port)))))
	if err != nil {
		return err
	}
	r.change(func() { r.p.Line = strings.TrimSpace(line) })
	return nil
}

// start starts the peers of all machines at once.
func (r *runner) start(ctx context.Context) error {
	if s := r.p.Sites; s != nil && r.p.SetUp.IsZero() { // before the peers
		if s.State == Prepared || s.State == Starting {
			if err := r.startProcs(ctx, s.Machine, []int{sites}); err != nil {
				return fmt.Errorf("start the sites: %w", err)
			}
		}
		if s.State != Running {
			return fmt.Errorf("the sites do not run: %s", s.Why)
		}
	}
	err := r.each(ctx, Joined, Running, func(ctx context.Context, m int) error {
		if err := r.startProcs(ctx, m, r.procs(m, Prepared, Starting)); err != nil {
			return err
		}
		r.change(func() {
			r.p.Machines[m].Seconds = time.Since(r.p.Begun).Round(time.Second / 10).Seconds()
		})
		return nil
	})
	if err == nil && r.p.SetUp.IsZero() {
		r.change(func() { r.p.SetUp = time.Now().UTC() })
		r.printf("started %d peers on %d machines %.0f s after the beginning",
			r.running(), r.count(Running), time.Since(r.p.Begun).Seconds())
	}
	return err
}

// running returns the number of peers that run.
func (r *runner) running() (n int) {
	for m := range r.p.Machines {
		n += len(r.peersOf(m, Running, Paused))
	}
	return n
}

// peersOf is procs without the sites.
func (r *runner) peersOf(m int, states ...State) []int {
	return slices.DeleteFunc(r.procs(m, states...), func(i int) bool { return i == sites })
}

// startProcs starts processes of a machine. The number of the start is saved before; after a
// restart of the runner it is the same, and the machine starts nothing twice for it.
func (r *runner) startProcs(ctx context.Context, m int, procs []int) error {
	r.change(func() {
		for _, i := range procs {
			if p := r.proc(i); p.State != Starting {
				p.State, p.Starts, p.Why = Starting, p.Starts+1, ""
			}
		}
	})
	names, numbers := r.namesOf(procs)
	text, err := r.sh(ctx, m, r.patience(m), start(names, numbers))
	if err != nil {
		return err
	}
	r.note(m, procs, text)
	return nil
}

// note takes in which processes of a machine run.
func (r *runner) note(m int, procs []int, text string) {
	got := r.answers(m, text)
	r.change(func() {
		for _, i := range procs {
			p := r.proc(i)
			switch word := got[i][0]; {
			case word == "running" && p.State == Starting:
				p.State = Running
			case word == "stopped":
				p.State = Stopped
			case word == "gone" && p.State != Stopped:
				p.State, p.Why = Stopped, "ended by itself: "+got[i][1]
				r.printf("%s on %s ended by itself: %s", name(i), r.f.Machines[m].Name, got[i][1])
			}
		}
	})
}

// seed waits until the peers know each other, or the time limit has passed, and gives the seeds to
// the founder, or else the first peer that takes them.
func (r *runner) seed(ctx context.Context) error {
	if !r.p.Seeded.IsZero() {
		return nil
	}
	if err := r.acquainted(ctx); err != nil {
		return err
	}
	seeds := r.f.Seeds
	if r.spec != nil {
		w, err := web.New(r.spec.Web(r.layout))
		if err != nil {
			return err
		}
		seeds = []string{w.Seed()}
	}
	var last error
	for i, p := range r.p.Peers {
		if p.State != Running || len(seeds) == 0 {
			continue
		}
		script := fmt.Sprintf("./peerd seed --home %s/home - <<'PEERD_SEEDS'\n%s\nPEERD_SEEDS\n",
			name(i), strings.Join(seeds, "\n"))
		_, last = r.sh(ctx, p.Machine, r.f.Timeout.Duration, script)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if last == nil {
			r.change(func() { r.p.Seeded, r.p.Founder = time.Now().UTC(), i })
			r.printf("gave the seeds to %s", name(i))
			return nil
		}
	}
	if len(seeds) > 0 {
		return fmt.Errorf("no peer took the seeds: %w", errors.Join(ErrNoMachine, last))
	}
	r.change(func() { r.p.Seeded = time.Now().UTC() }) // those of the profile
	return nil
}

// acquainted waits until every peer that runs knows all others, or a hundred of them: of large
// networks a peer knows a part.
func (r *runner) acquainted(ctx context.Context) error {
	late := time.Now().Add(r.f.Timeout.Duration)
	var all errgroup.Group
	defer func() { _ = all.Wait() }() // the functions return nil
	for {
		var g errgroup.Group
		began := time.Now()
		r.look(ctx, &g)
		answered := make(chan struct{})
		all.Go(func() error {
			defer close(answered)
			return g.Wait()
		})
		select {
		case <-answered:
		case <-time.After(lookWait): // some machine hangs
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		running, least := r.running(), len(r.p.Peers)
		r.mu.Lock()
		seen := len(r.seen)
		for _, s := range r.seen {
			least = min(least, s.Directory)
		}
		r.mu.Unlock()
		if seen > 0 && seen == running && least >= min(seen-1, 100) {
			r.printf("%d peers know each other", seen)
			return nil
		}
		if time.Now().After(late) {
			r.printf("%d of %d peers answer, and know %d others at least; continuing", seen,
				running, least)
			return nil
		}
		wait := max(lookPause*time.Since(began), min(time.Second, r.f.Look.Duration))
		if err := pause(ctx, wait); err != nil {
			return err
		}
	}
}

// pause waits.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
