//go:build integration

package outage

import (
	"context"
	"net/netip"
	"time"

	"peerd/lab/emulate/hostile"
)

// hostileHold limits how long one answer of a hostile site may be read. It is more than the
// default of crawl.timeout.
const hostileHold = 90 * time.Second

// hostileRows crawl all sites of lab/emulate/hostile at once, with the default limits and times.
func hostileRows() []row {
	var web *hostile.Web
	return []row{{
		name: "crawl-hostile", long: true, command: crawl, local: true,
		args: []string{"--patience", "2m", "--scope", "any"}, settle: 25 * time.Minute,
		setup: func(w *world) {
			var cases, seeds []string
			for _, c := range hostile.Cases() {
				if !c.Waits {
					cases = append(cases, c.Name)
				}
			}
			var err error
			if web, err = hostile.Serve(w.serving, hostile.Options{Cases: cases}); err != nil {
				w.must(err)
				return
			}
			w.background(func(ctx context.Context) error {
				<-ctx.Done()
				web.Close()
				return nil
			})
			w.names.SetOthers(func(host string) []netip.Addr {
				addrs, err := web.Lookup(w.serving, host)
				if err != nil {
					return nil
				}
				return addrs
			})
			for _, name := range cases {
				seeds = append(seeds, web.Seeds(name)...)
			}
			w.row.args = append(w.row.args, seeds...)
		},
		want: want{exit: 1, check: func(w *world) (faults []string) {
			for _, c := range web.Cases() {
				for _, f := range web.Judge(c.Name, hostileHold) {
					faults = append(faults, c.Name+": "+f)
				}
			}
			w.t.Logf("%d requests in %d cases", len(web.Log()), len(web.Cases()))
			return faults
		}},
	}}
}
