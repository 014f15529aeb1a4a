package chaos

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
)

// startAll starts all peers and waits until they know each other.
func (s *scenarioRun) startAll(ctx context.Context) error {
	settings, err := s.o.settings()
	if err != nil {
		return err
	}
	args, err := s.args()
	if err != nil {
		return err
	}
	var boot []string
	for i := range s.o.Peers {
		program := s.o.Peerd
		if i%2 == 1 && s.o.Previous != "" {
			program = s.o.Previous
		}
		p, err := newProcess(i, s.o.dir, program, settings, s.network)
		if err != nil {
			return err
		}
		at := s.network.peer(i)
		p.args = append(slices.Clone(args), "--listen", fmt.Sprintf("/ip4/%v/tcp/%d", at, peerPort),
			"--api", at.String()+":0")
		s.peers = append(s.peers, p)
		if a, err := p.addr(); err != nil {
			return err
		} else if i < 3 { // several, as one of them may be lost
			boot = append(boot, "--bootstrap", a)
		}
	}
	for _, p := range s.peers {
		p.args = append(p.args, boot...)
		if err := p.start(); err != nil {
			return err
		}
	}
	return s.waitJoined(ctx)
}

// settings returns the settings of all peers: those of Options.Config, and unless it says otherwise
// no checks of reports, as the judge takes each second fetch of a page for a fault.
func (o Options) settings() (string, error) {
	all, crawl := map[string]any{}, map[string]any{}
	if o.Config != "" {
		text, err := os.ReadFile(o.Config)
		if err == nil {
			err = toml.Unmarshal(text, &all)
		}
		if err != nil {
			return "", fmt.Errorf("--config %s: %w", o.Config, err)
		}
	}
	if given, ok := all["crawl"].(map[string]any); ok {
		crawl = given
	}
	if _, ok := crawl["check_reports"]; !ok {
		crawl["check_reports"] = 0.0
	}
	all["crawl"] = crawl
	text, err := toml.Marshal(all)
	return string(text), err
}

// args writes the profile and returns the arguments of all peers.
func (s *scenarioRun) args() ([]string, error) {
	var hosts, args []string
	for _, site := range s.web.Sites() {
		hosts = append(hosts, fmt.Sprintf("%q", site.Host))
		args = append(args, "--resolve", site.Host+"="+site.Addrs[0].String())
	}
	profile := filepath.Join(s.o.dir, "net.toml")
	rules := fmt.Sprintf(
		"name = 'chaos'\n[scope]\nmode = 'hosts'\nhosts = [%s]\n[politeness]\nmin_delay = "+
			"'1ms'\ndelay_factor = 0.0\n", strings.Join(hosts, ", "))
	args = append(args, "--profile", profile, "--allow-net", netip.PrefixFrom(s.network.site(0),
		8).Masked().String(), "--min-delay", s.o.Gap.String(), "--log-level", s.o.LogLevel)
	return args, os.WriteFile(profile, []byte(rules), 0o600)
}

// waitJoined waits until every peer knows all others.
func (s *scenarioRun) waitJoined(ctx context.Context) error {
	late := time.Now().Add(joinTime)
	return poll(ctx, 200*time.Millisecond, func() (bool, error) {
		for _, p := range s.peers {
			st, _, err := p.ask(ctx)
			if err == nil && st.Directory >= len(s.peers)-1 {
				continue
			}
			if _, crashed := p.state(); crashed || time.Now().After(late) {
				return false, fmt.Errorf("peer %d did not join the others; it knows %d; %w\n%s",
					p.i, st.Directory, err, p.lastLogLines())
			}
			return false, nil
		}
		return true, nil
	})
}

// poll calls fn at intervals of pace until it returns true or an error.
func poll(ctx context.Context, pace time.Duration, fn func() (bool, error)) error {
	t := time.NewTicker(pace)
	defer t.Stop()
	for {
		if done, err := fn(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
	}
}
