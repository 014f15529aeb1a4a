package testnet

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"peerd/node/emulate/web"
)

// SiteOptions say which synthetic site is served, and where.
type SiteOptions struct {
	// Number is the site's, of Of sites with Pages pages together, that Seed
	// makes. Other processes with equal figures serve the others.
	Number, Of, Pages int
	Seed              uint64
	// Listen is IP:PORT. The port is that of all the sites.
	Listen string
	// MinDelay is the gap that the site's audit demands, Delay the time it
	// takes to answer.
	MinDelay, Delay time.Duration
	// Bind is IP:PORT for /-/log and /-/sites; "" means nowhere.
	Bind   string
	Logger *slog.Logger
}

// ServeSite serves one synthetic site until ctx ends.
func ServeSite(ctx context.Context, o SiteOptions) error {
	at, err := netip.ParseAddrPort(o.Listen)
	if err != nil {
		return fmt.Errorf("site: listen address %q is not IP:PORT: %w", o.Listen, err)
	}
	if o.Number < 0 || o.Number >= o.Of {
		return fmt.Errorf("site: number %d is not among %d sites", o.Number, o.Of)
	}
	w, err := web.New(web.Config{
		Sites: o.Of, Pages: o.Pages, Seed: o.Seed, Port: int(at.Port()), MinDelay: o.MinDelay, Delay: o.Delay,
		Addrs:  func(int) []netip.Addr { return []netip.Addr{at.Addr()} }, // only our own is listened on
		Serve:  func(i int) bool { return i == o.Number },
		Bind:   o.Bind,
		Logger: o.Logger,
	})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}
