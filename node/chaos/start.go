package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// startAll starts all peers and waits until they know each other.
func (s *stage) startAll(ctx context.Context) error {
	settings, err := s.settings()
	if err != nil {
		return err
	}
	args, err := s.args()
	if err != nil {
		return err
	}
	var boot []string
	for i := range s.o.peers {
		p, err := newProcess(i, s.o.dir, s.o.peerd, settings, s.wires)
		if err != nil {
			return err
		}
		at := s.wires.peer(i)
		p.args = append(slices.Clone(args), "--listen", fmt.Sprintf("/ip4/%v/tcp/%d", at, peerPort), "--api", at.String()+":0")
		s.peers = append(s.peers, p)
		if a, err := p.addr(); err != nil {
			return err
		} else if i < 3 { // whoever of them is lost, the others can be found
			boot = append(boot, "--bootstrap", a)
		}
	}
	for _, p := range s.peers {
		p.args = append(p.args, boot...)
		if err := p.start(); err != nil {
			return err
		}
	}
	return s.joined(ctx)
}

func (s *stage) settings() (string, error) {
	if s.o.config == "" {
		return "", nil
	}
	text, err := os.ReadFile(s.o.config)
	return string(text), err
}

// args writes the profile and returns what all peers are run with.
func (s *stage) args() ([]string, error) {
	var hosts, args []string
	for _, site := range s.web.Sites() {
		hosts = append(hosts, fmt.Sprintf("%q", site.Host))
		args = append(args, "--resolve", site.Host+"="+site.Addrs[0].String())
	}
	profile := filepath.Join(s.o.dir, "net.toml")
	rules := fmt.Sprintf("name = 'chaos'\n[scope]\nmode = 'hosts'\nhosts = [%s]\n[politeness]\nmin_delay = '1ms'\ndelay_factor = 0.0\n", strings.Join(hosts, ", "))
	args = append(args, "--profile", profile, "--allow-net", netip.PrefixFrom(s.wires.site(0), 8).Masked().String(), "--min-delay", s.o.gap.String(), "--log-level", s.o.log)
	return args, os.WriteFile(profile, []byte(rules), 0o600)
}

// joined waits until every peer knows all others.
func (s *stage) joined(ctx context.Context) error {
	late := time.Now().Add(joinTime)
	return every(ctx, 200*time.Millisecond, func() (bool, error) {
		for _, p := range s.peers {
			st, _, err := p.ask(ctx)
			if err == nil && st.Directory >= len(s.peers)-1 {
				continue
			}
			if _, crashed := p.state(); crashed || time.Now().After(late) {
				return false, fmt.Errorf("peer %d did not join the others; it knows %d; %w\n%s", p.i, st.Directory, err, p.lastWords())
			}
			return false, nil
		}
		return true, nil
	})
}

// every calls fn at a pace until it is true.
func every(ctx context.Context, pace time.Duration, fn func() (bool, error)) error {
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
