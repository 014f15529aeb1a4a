package testnet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"

	"peerd/lab/emulate"
	"peerd/lab/emulate/web"
)

// SiteOptions are the parameters of one synthetic site.
type SiteOptions struct {
	// Number is the index of the site among Of sites with Pages pages together, all generated
	// from Seed. Other processes with the same parameters serve the other sites.
	Number, Of, Pages int
	Seed              uint64
	// Listen is IP:PORT. All sites use the same port.
	Listen string
	// Net, if valid, is the network of a container, which then decides Number, Listen and Bind.
	Net netip.Prefix
	// Distances, if not 0, is the seed of the distances between the containers of Net. They are
	// emulated by the peers; the first site has their changes.
	Distances uint64
	// Emulate, if not nil, is an emulated network: then all its sites are served, on their
	// addresses in it, and Number, Of, Pages, Seed, Listen and MinDelay are not used.
	Emulate *emulate.Spec
	// LogDir is a directory for audit.json and hits.jsonl, which are written at the end; "": none.
	LogDir string
	// MinDelay is the politeness gap that the audit of the site checks, Delay the time that the
	// site takes to answer.
	MinDelay, Delay time.Duration
	// Bind is IP:PORT for /-/log, /-/audit and /-/sites; "" means nowhere.
	Bind   string
	Logger *slog.Logger
}

// ServeSite serves one synthetic site, or those of an emulated network, until ctx ends.
func ServeSite(ctx context.Context, o SiteOptions) (err error) {
	var cfg web.Config
	if o.Emulate != nil {
		cfg = o.Emulate.Web(o.Emulate.Layout())
		cfg.Bind, cfg.Logger = o.Bind, o.Logger
	} else if cfg, err = o.one(ctx); err != nil {
		return err
	}
	w, err := web.New(cfg)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return w.Run(ctx) })
	if o.Net.IsValid() && o.Number == 0 {
		g.Go(func() error { return serveNames(ctx, namesAddr(o.Net), w.Sites()) })
		if o.Distances != 0 {
			d := Distances{Net: o.Net.Masked(), Seed: o.Distances}
			g.Go(func() error { return serveControl(ctx, d, controlAddr(o.Net)) })
		}
	}
	err = g.Wait()
	if o.LogDir != "" {
		err = errors.Join(err, write(w, o.LogDir))
	}
	return err
}

// one returns the web of which one site is served.
func (o *SiteOptions) one(ctx context.Context) (cfg web.Config, err error) {
	if o.Net.IsValid() {
		if err := o.enter(ctx); err != nil {
			return cfg, err
		}
	}
	at, err := netip.ParseAddrPort(o.Listen)
	if err != nil {
		return cfg, fmt.Errorf("site: listen address %q is not IP:PORT: %w", o.Listen, err)
	}
	if o.Number < 0 || o.Number >= o.Of {
		return cfg, fmt.Errorf("site: number %d is not among %d sites", o.Number, o.Of)
	}
	return web.Config{
		Sites: o.Of, Pages: o.Pages, Seed: o.Seed, Port: int(at.Port()), MinDelay: o.MinDelay,
		Delay: o.Delay,
		Addrs: func(i int) []netip.Addr {
			if o.Net.IsValid() {
				return []netip.Addr{siteAddr(o.Net, i)}
			}
			return []netip.Addr{at.Addr()} // only the address of this site is listened on
		},
		Serve:  func(i int) bool { return i == o.Number },
		Bind:   o.Bind,
		Logger: o.Logger,
	}, nil
}
