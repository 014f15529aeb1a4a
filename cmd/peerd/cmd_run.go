package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"peerd/node"
	"peerd/node/config"
)

var runHelp = `Runs one peer until SIGINT or SIGTERM, or "peerd stop". A second signal kills
it; nothing is lost then but the fetches in flight. With --drain a signal hands
all that the peer owns over to others first, as "peerd stop" does.

Options override config.toml in the home, where every setting is explained.
--listen, --bootstrap and --allow-net replace the list there; --resolve replaces
the addresses of the hosts it names.

A profile is a TOML file with the rules that all peers of a network share. Peers
with other rules are in another network, whatever its name. Name and scope.mode
must be there; below [scope], all is shown with its default:

  ` + strings.TrimSpace(strings.ReplaceAll(config.ProfileTemplate, "\n", "\n  "))

type runOptions struct {
	home, profile, api, strategy string
	listen, bootstrap            []string
	init, mdns, drain            bool
	drainTimeout                 time.Duration
	crawl                        crawlFlags
}

func newRunCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run --home DIR",
		Short: "Run a peer",
		Long:  runHelp,
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return runRun(cmd, &o) },
	}
	homeFlag(cmd, &o.home)
	f := cmd.Flags()
	f.BoolVar(&o.init, "init", false, "make --home a home first when it is none")
	f.StringVar(&o.profile, "profile", "", "`file` with the rules of the network (default: the network \"peerd\", which takes every page)")
	f.StringArrayVar(&o.listen, "listen", nil, "`multiaddr` where other peers reach this one; repeatable")
	f.StringArrayVar(&o.bootstrap, "bootstrap", nil, "`multiaddr` with /p2p/ID of a peer to join; repeatable")
	f.BoolVar(&o.mdns, "mdns", false, "find peers of the network on the local network")
	f.StringVar(&o.api, "api", "", "`host:port` of the admin API (default 127.0.0.1:0, any free port)")
	f.StringVar(&o.strategy, "strategy", "", "how owners are chosen: "+strings.Join(config.Strategies, ", ")+" (default proxy)")
	f.BoolVar(&o.drain, "drain", false, "hand everything over to other peers before a stop by a signal")
	f.DurationVar(&o.drainTimeout, "drain-timeout", 0, "at most so long (default 2m)")
	o.crawl.add(cmd)
	return cmd
}

func runRun(cmd *cobra.Command, o *runOptions) error {
	if o.init && o.home != "" {
		if _, err := config.Init(o.home); err != nil && !errors.Is(err, config.ErrExists) {
			return err
		}
	}
	home, err := openHome(cmd, o.home)
	if err != nil {
		return err
	}
	cfg, err := o.config(cmd, home)
	if err != nil {
		return err
	}
	profile, err := o.network(cmd, home, cfg)
	if err != nil {
		return err
	}
	log, err := newLogger(cmd, cfg.LogLevel)
	if err != nil {
		return err
	}
	cfg.LimitMemory()
	n, err := node.New(node.Options{
		Home:      home,
		Config:    cfg,
		Profile:   profile,
		UserAgent: config.UserAgent(cfg.Contact),
		Logger:    log,
	})
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	if cfg.Drain {
		ctx = context.WithoutCancel(ctx)
		defer context.AfterFunc(cmd.Context(), func() { n.StopDrained(cfg.DrainTimeout.Duration) })()
	}
	err = n.Run(ctx)
	if interrupted(cmd.Context(), err) {
		return nil
	}
	return err
}

// config returns config.toml of home with the options over it.
func (o *runOptions) config(cmd *cobra.Command, home config.Home) (config.Config, error) {
	cfg, err := home.Load()
	if err != nil {
		return cfg, err
	}
	for _, s := range []struct {
		flag, value string
		to          *string
	}{
		{"api", o.api, &cfg.API},
		{"strategy", o.strategy, &cfg.Strategy},
	} {
		if cmd.Flags().Changed(s.flag) {
			*s.to = s.value
		}
	}
	if cmd.Flags().Changed("listen") {
		cfg.Listen = o.listen
	}
	if cmd.Flags().Changed("bootstrap") {
		cfg.Bootstrap = o.bootstrap
	}
	if cmd.Flags().Changed("drain") {
		cfg.Drain = o.drain
	}
	if cmd.Flags().Changed("drain-timeout") {
		cfg.DrainTimeout = config.Duration{Duration: o.drainTimeout}
	}
	if cmd.Flags().Changed("mdns") {
		cfg.MDNS = o.mdns
	}
	if err := o.crawl.apply(cmd, &cfg); err != nil {
		return cfg, err
	}
	return cfg, cfg.Validate()
}

// network returns the profile that the options or the settings name. An
// explicit --min-delay below its floor is refused rather than ignored.
func (o *runOptions) network(cmd *cobra.Command, home config.Home, cfg config.Config) (config.Profile, error) {
	file := o.profile
	if file == "" && cfg.Profile != "" {
		file = home.Path(cfg.Profile)
	}
	if file == "" {
		return config.DefaultProfile(), nil
	}
	p, err := config.LoadProfile(file)
	if err != nil {
		return p, err
	}
	if floor := p.Politeness.MinDelay.Duration; cmd.Flags().Changed("min-delay") && o.crawl.minDelay < floor {
		return p, usagef(cmd, "--min-delay %s is below the floor of the network, %s in %s", o.crawl.minDelay, floor, file)
	}
	return p, nil
}
