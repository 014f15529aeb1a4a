package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/node/config"
	"peerd/node/join"
)

func newNetworkCommand() *cobra.Command {
	return cli.NewGroup("network", "Found a network, or explain the rules of this peer's", "",
		newNetworkNewCommand(), newNetworkShowCommand())
}

type networkOptions struct {
	home, scope, admission string
	seeds, domains, hosts  []string
	minDelay               time.Duration
}

func newNetworkNewCommand() *cobra.Command {
	var o networkOptions
	cmd := &cobra.Command{
		Use:   "new [--home DIR] NAME",
		Short: "Found a network with this peer as its first",
		Long: `Creates the home, unless it exists, and writes the profile of a new network there:
profile.toml, the rules that all peers of the network share. It prints what they mean.

The rules cannot be changed later: a profile with other rules is another network. Before
the first start, edit profile.toml for rules that have no option here; docs/profile.md
lists all. Then start the peer with "peerd run", and invite others with "peerd invite".`,
		Args: cli.Args(1, "want one argument, the name of the network"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runNetworkNew(cmd, &o, args[0])
		},
	}
	homeFlag(cmd, &o.home)
	f := cmd.Flags()
	f.StringArrayVar(&o.seeds, "seed", nil, "`URL` at which every peer starts; repeatable")
	f.StringArrayVar(&o.domains, "domain", nil,
		"crawl this `domain` with all hosts below it; repeatable")
	f.StringArrayVar(&o.hosts, "host", nil, "crawl this `host`; repeatable")
	f.StringVar(&o.scope, "scope", "", "what is crawled: "+strings.Join(config.Modes, ", ")+
		" (default hosts with --host, else domains, those of the seeds included)")
	f.DurationVar(&o.minDelay, "min-delay", time.Second,
		"minimum `time` between two requests to a host, for all peers")
	f.StringVar(&o.admission, "admission", "invite",
		"who may join: open (everyone), invite (peers with an invitation of a founder), "+
			"closed (peers that a founder has named)")
	cli.Complete(cmd, "admission", "open", "invite", "closed")
	cli.Complete(cmd, "scope", config.Modes...)
	return cmd
}

func runNetworkNew(cmd *cobra.Command, o *networkOptions, name string) error {
	p := config.NewProfile()
	p.Name, p.Seeds, p.Admission = name, o.seeds, o.admission
	p.Scope.Mode, p.Scope.Hosts, p.Scope.Domains = o.scope, o.hosts, o.domains
	if p.Scope.Mode == "" {
		p.Scope.Mode = "domains"
		if len(o.hosts) > 0 {
			p.Scope.Mode = "hosts"
		}
	}
	p.Politeness.MinDelay = config.Duration{Duration: o.minDelay}
	if err := join.Check(p); err != nil {
		return err
	}
	home, err := initHome(cmd, o.home)
	if err != nil {
		return err
	}
	if home.HasProfile() {
		return fmt.Errorf("%s: %w", home.Dir, config.ErrOtherProfile)
	}
	if p, err = join.Found(home, p); err != nil {
		return err
	}
	w := cmd.OutOrStdout()
	if err := explain(w, p); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "\nThe rules are in %s. Set contact in %s, then:\n\n"+
		"  peerd run%s\n  peerd invite%[3]s\n", home.ProfileFile(), home.ConfigFile(),
		homeOption(o.home))
	return err
}

// explain prints what the rules of a profile mean.
func explain(w io.Writer, p config.Profile) error {
	_, err := fmt.Fprintln(w, strings.Join(join.Explain(p), "\n"))
	return err
}

func newNetworkShowCommand() *cobra.Command {
	return onHome(&cobra.Command{
		Use:   "show [--home DIR]",
		Short: "Explain the rules of this peer's network",
		Args:  cli.NoArgs,
	}, func(cmd *cobra.Command, home config.Home, _ []string) error {
		p, err := ownProfile(home)
		if err != nil {
			return err
		}
		return explain(cmd.OutOrStdout(), p)
	})
}
