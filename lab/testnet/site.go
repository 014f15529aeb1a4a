package testnet

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

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
	// MinDelay is the politeness gap that the audit of the site checks, Delay the time that the
	// site takes to answer.
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
		Sites: o.Of, Pages: o.Pages, Seed: o.Seed, Port: int(at.Port()), MinDelay: o.MinDelay,
		Delay: o.Delay,
		// only the address of this site is listened on
		Addrs:  func(int) []netip.Addr { return []netip.Addr{at.Addr()} },
		Serve:  func(i int) bool { return i == o.Number },
		Bind:   o.Bind,
		Logger: o.Logger,
	})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}
