package main

import (
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/node/admin"
	"peerd/node/config"
	"peerd/node/join"
)

type inviteOptions struct {
	peer  string
	addrs []string
	valid time.Duration
	uses  int
}

func newInviteCommand() *cobra.Command {
	var o inviteOptions
	cmd := onHome(&cobra.Command{
		Use:   "invite [--home DIR]",
		Short: "Print one line with which another peer joins the network",
		Long: `Prints one line for "peerd join": the network, the digest of its rules, this peer's
addresses and, unless the network is open, a permission to join that this peer, a founder of
the network, has signed.

Whoever has the line can use it, unless it is for one --peer; send it over a channel that
you trust. This peer must run when the line is used: it counts the uses. In an open network
everyone can join, and --peer, --uses and --valid are refused.

The addresses are those of the running peer, the public ones first. If other machines reach
it by another address, such as that of a router or a DNS name, give that with --addr.`,
		Args: cli.NoArgs,
	}, func(cmd *cobra.Command, home config.Home, _ []string) error {
		return runInvite(cmd, home, &o)
	})
	f := cmd.Flags()
	f.DurationVar(&o.valid, "valid", 7*24*time.Hour, "`time` for which the line can be used")
	f.IntVar(&o.uses, "uses", 1, "`number` of peers that may join with it")
	f.StringVar(&o.peer, "peer", "",
		"`ID` of the only peer that may use it; required in a closed network")
	f.StringArrayVar(&o.addrs, "addr", nil,
		"`address` of this peer, HOST:PORT or a multiaddr, instead of its own; repeatable")
	return cmd
}

func runInvite(cmd *cobra.Command, home config.Home, o *inviteOptions) (err error) {
	if o.valid <= 0 || o.valid > join.MaxValid {
		return cli.Usagef(cmd, "--valid %s: want more than 0 and at most %s", o.valid,
			join.MaxValid)
	}
	if o.uses < 1 || o.uses > join.MaxUses {
		return cli.Usagef(cmd, "--uses %d: want 1 to %d", o.uses, join.MaxUses)
	}
	t := join.Terms{Expires: time.Now().Add(o.valid), Uses: o.uses}
	if o.peer != "" {
		if t.Peer, err = peer.Decode(o.peer); err != nil {
			return cli.Usagef(cmd, "--peer %q: not a peer ID", cli.Clip(o.peer))
		}
	}
	p, err := ownProfile(home)
	if err != nil {
		return err
	}
	for _, terms := range []string{"peer", "uses", "valid"} {
		if p.AdmissionOpen() && cmd.Flags().Changed(terms) {
			return cli.Usagef(cmd, "--%s has no effect: %s is open, so everyone can join", terms,
				p.NetworkID())
		}
	}
	addrs, network, err := inviteAddrs(cmd, home, o.addrs)
	if err != nil {
		return err
	}
	if network != "" && network != p.NetworkID() {
		return fmt.Errorf("the peer runs in %s, but its home has the rules of %s; restart it",
			network, p.NetworkID())
	}
	line, err := join.Invite(home, p, addrs, t)
	if err != nil {
		return fmt.Errorf("invite: %w", err)
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), line)
	return err
}

// ownProfile returns the profile of the network that the settings of a home name.
func ownProfile(home config.Home) (config.Profile, error) {
	cfg, err := home.Load()
	if err != nil {
		return config.Profile{}, err
	}
	return home.NetworkProfile(cfg, "")
}

// inviteAddrs returns the given addresses with the peer's ID or, if there are none, those of the
// running peer and its network.
func inviteAddrs(
	cmd *cobra.Command, home config.Home, given []string,
) (addrs []string, network string, err error) {
	if len(given) > 0 {
		self, err := home.PeerID()
		if err != nil {
			return nil, "", err
		}
		for _, g := range given {
			a, err := join.ParseAddr(g, self)
			if err != nil {
				return nil, "", cli.Usagef(cmd, "--addr: %w", err)
			}
			addrs = append(addrs, a)
		}
		return addrs, "", nil
	}
	client, err := admin.Dial(home.APIFile())
	if err != nil {
		return nil, "", adviseRun(home, err)
	}
	s, err := client.Status(cmd.Context())
	if err != nil {
		return nil, "", adviseRun(home, err)
	}
	return join.Shareable(s.Addrs), s.Network, nil
}
