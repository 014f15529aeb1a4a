package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/lab/emulate"
	"peerd/lab/testnet"
	"peerd/node"
	"peerd/node/admin"
	"peerd/node/config"
)

var runHelp = `Runs one peer until SIGINT, SIGTERM or "peerd stop". A second signal kills it; only
the fetches in flight are lost then. With --drain, a signal first hands everything that
the peer owns over to other peers, as "peerd stop" does. SIGHUP reads config.toml again,
as "peerd reload" does.

Options override config.toml in the home, which explains every setting. --listen,
--bootstrap and --allow-net replace the lists there; --resolve replaces the addresses of
the hosts that it names.

A profile is a TOML file with the rules that all peers of a network share. Peers with
different rules are in different networks, even if the names are the same. name and
scope.mode are required. Below [scope], every key is shown with its default:

  ` + strings.TrimSpace(strings.ReplaceAll(config.ProfileTemplate, "\n", "\n  "))

type runOptions struct {
	home, profile, api, strategy string
	listen, bootstrap            []string
	init, mdns, drain            bool
	drainTimeout                 time.Duration
	crawl                        crawlFlags
	emulate                      *emulate.Spec
}

func newRunCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run [--home DIR]",
		Short: "Run a peer",
		Long:  runHelp,
		Args:  cli.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return runRun(cmd, &o) },
	}
	homeFlag(cmd, &o.home)
	cmd.Flags().BoolVar(&o.init, "init", false, "create the home if it does not exist")
	o.add(cmd)
	return cmd
}

// add adds the options that run and collect share.
func (o *runOptions) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.profile, "profile", "",
		"`file` with the rules of the network (default: profile.toml in the home, or else "+
			"the network \"peerd\", all pages)")
	f.StringArrayVar(&o.listen, "listen", nil,
		"`multiaddr` on which other peers reach this one; repeatable")
	f.StringArrayVar(&o.bootstrap, "bootstrap", nil,
		"`multiaddr` with /p2p/ID of a peer to join; repeatable")
	f.BoolVar(&o.mdns, "mdns", false, "find peers on the local network by multicast DNS")
	f.StringVar(&o.api, "api", "",
		"`host:port` of the admin API (default 127.0.0.1:0, any free port)")
	f.StringVar(&o.strategy, "strategy", "", "how owners are chosen: "+
		strings.Join(config.Strategies, ", ")+" (default proxy)")
	f.BoolVar(&o.drain, "drain", false,
		"hand everything over to other peers when a signal stops this one")
	f.DurationVar(&o.drainTimeout, "drain-timeout", 0,
		"maximum `time` for handing over (default 2m)")
	o.crawl.add(cmd)
	f.Var(emulateFlag{&o.emulate}, "emulate", "be a peer of an emulated network")
	_ = f.MarkHidden("emulate") // it exists
	cli.Complete(cmd, "strategy", config.Strategies...)
}

func runRun(cmd *cobra.Command, o *runOptions) error {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP) // the end of a terminal session must not end the peer
	defer signal.Stop(hup)
	if o.init {
		if _, err := initHome(cmd, o.home); err != nil {
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
	log, err := newRunLogger(cmd, home, cfg)
	if err != nil {
		return err
	}
	cfg.LimitMemory()
	if cfg.Sandbox && (o.emulate == nil || !o.emulate.Net.IsValid()) { // a container is one
		if err := node.Sandbox(home, cfg); err != nil {
			return err
		}
	}
	options := node.Options{
		Home:      home,
		Config:    cfg,
		Profile:   profile,
		UserAgent: config.UserAgent(cfg.Contact),
		Logger:    log,
	}
	if o.emulate != nil {
		if options.Emulation, err = emulation(cmd.Context(), *o.emulate, log); err != nil {
			return err
		}
	}
	n, err := node.New(options)
	if err != nil {
		return err
	}
	go reloadAtHangups(cmd.Context(), log, hup, n.Reload)
	defer notifySystemd(cmd.Context(), log)()
	ctx := cmd.Context()
	if cfg.Drain {
		ctx = context.WithoutCancel(ctx)
		defer context.AfterFunc(cmd.Context(), func() {
			n.StopDrained(cfg.DrainTimeout.Duration)
		})()
	}
	return cli.UnlessInterrupted(cmd.Context(), n.Run(ctx))
}

// emulation returns the emulated network that s describes. In a container, its distances change
// until ctx ends.
func emulation(
	ctx context.Context, s emulate.Spec, log *slog.Logger,
) (*node.Emulation, error) {
	if !s.Net.IsValid() {
		return testnet.Emulation(s)
	}
	c, err := testnet.NewContained(s, log)
	if err != nil || c == nil {
		return nil, err
	}
	go c.Follow(ctx)
	return c.Emulation(s.TimeScale), nil
}

// notifySystemd tells systemd, if that has started the process, that the peer listens and, when ctx
// ends, that it stops. The returned function ends the wait for ctx.
func notifySystemd(ctx context.Context, log *slog.Logger) (stop func() bool) {
	tell := func(state string) {
		if _, err := systemd.SdNotify(false, state); err != nil {
			log.Warn("failed to notify systemd", "err", err)
		}
	}
	tell(systemd.SdNotifyReady)
	return context.AfterFunc(ctx, func() { tell(systemd.SdNotifyStopping) })
}

// newRunLogger returns the logger that the settings and the options describe.
func newRunLogger(cmd *cobra.Command, home config.Home, cfg config.Config) (*slog.Logger, error) {
	l := cli.Log{Level: cfg.LogLevel, JSON: cfg.LogFormat == "json", MaxSize: logFileSize,
		Backups: logFiles}
	if cfg.LogFile != "" {
		l.File = home.Path(cfg.LogFile)
	}
	return l.New(cmd)
}

// logFileSize is the size in megabytes at which a log file is renamed, and logFiles how many
// renamed ones are kept.
const logFileSize, logFiles = 16, 4

// reloadAtHangups calls reload at each SIGHUP until ctx ends.
func reloadAtHangups(
	ctx context.Context, log *slog.Logger, hup <-chan os.Signal,
	reload func() (admin.Reloaded, error),
) {
	for {
		select {
		case <-hup:
			if _, err := reload(); err != nil {
				log.Error("failed to reload config.toml; the settings are as before", "err", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

// config returns config.toml of home, overridden by the options.
func (o *runOptions) config(cmd *cobra.Command, home config.Home) (config.Config, error) {
	cfg, err := home.Load()
	if err != nil {
		return cfg, err
	}
	for flag, set := range map[string]func(){
		"api":           func() { cfg.API = o.api },
		"strategy":      func() { cfg.Strategy = o.strategy },
		"listen":        func() { cfg.Listen = o.listen },
		"bootstrap":     func() { cfg.Bootstrap = o.bootstrap },
		"drain":         func() { cfg.Drain = o.drain },
		"drain-timeout": func() { cfg.DrainTimeout = config.Duration{Duration: o.drainTimeout} },
		"mdns":          func() { cfg.MDNS = o.mdns },
	} {
		if cmd.Flags().Changed(flag) {
			set()
		}
	}
	if err := o.crawl.apply(cmd, &cfg); err != nil {
		return cfg, err
	}
	return cfg, cfg.Validate()
}

// network returns the profile that the options or the settings name. It refuses an
// explicit --min-delay below the minimum of the profile, which would have no effect.
func (o *runOptions) network(
	cmd *cobra.Command, home config.Home, cfg config.Config,
) (config.Profile, error) {
	p, err := home.NetworkProfile(cfg, o.profile)
	if err != nil {
		return p, err
	}
	if floor := p.Politeness.MinDelay.Duration; cmd.Flags().Changed("min-delay") &&
		o.crawl.minDelay < floor {
		return p, cli.Usagef(cmd, "--min-delay %s is below the floor of the network, %s",
			o.crawl.minDelay, floor)
	}
	return p, nil
}
