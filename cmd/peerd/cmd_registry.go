package main

import (
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"

	"peerd/node/config"
	"peerd/node/registry"
)

func newRegistryCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "registry",
		Short: "Keep what the Internet registries say of addresses",
		Long: `Loads and shows the files in which the five regional Internet registries say
every day which organisation holds which addresses (delegated-extended files, or
NRO's combined one). The strategies ipmicra and ipmicra-proxy need them. A running
peer reads what is loaded when it starts.

  https://ftp.ripe.net/pub/stats/ripencc/delegated-ripencc-extended-latest
  https://ftp.arin.net/pub/stats/arin/delegated-arin-extended-latest
  https://ftp.apnic.net/stats/apnic/delegated-apnic-extended-latest
  https://ftp.lacnic.net/pub/stats/lacnic/delegated-lacnic-extended-latest
  https://ftp.afrinic.net/pub/stats/afrinic/delegated-afrinic-extended-latest`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, list []string) error {
			if len(list) > 0 {
				return usagef(cmd, "unknown command %q, want load, show or lookup", list[0])
			}
			return cmd.Help()
		},
	}
	cmd.AddCommand(newRegistryLoadCommand(), newRegistryShowCommand(), newRegistryLookupCommand())
	return cmd
}

func newRegistryLoadCommand() *cobra.Command {
	var dir string
	var force bool
	cmd := &cobra.Command{
		Use:   "load --home DIR FILE|URL...",
		Short: "Load delegated files into the home",
		Long: `Loads delegated-extended files, plain or gzip, from disk or over http and https,
each in place of the one of the same registry. Broken lines are counted and the
first of them named; a file that lacks more than a twentieth of the records that
it announces is refused, and without --force one that has lost more than a
twentieth since the last time. A file that fails leaves everything else alone,
and the exit status is 1. A URL is fetched only if the server has something newer
than the last time.`,
		RunE: func(cmd *cobra.Command, list []string) error { return runRegistryLoad(cmd, dir, force, list) },
	}
	homeFlag(cmd, &dir)
	cmd.Flags().BoolVar(&force, "force", false, "take files that shrank, and fetch what is not newer")
	return cmd
}

func runRegistryLoad(cmd *cobra.Command, dir string, force bool, list []string) error {
	if len(list) == 0 {
		return usagef(cmd, "no file or URL")
	}
	home, err := openHome(cmd, dir)
	if err != nil {
		return err
	}
	cfg, err := home.Load()
	if err != nil {
		return err
	}
	o := registry.DefaultOptions()
	o.Force, o.UserAgent = force, config.UserAgent(cfg.Contact)
	o.Progress = func(name string, done, total int64) {
		of := ""
		if total >= 0 {
			of = " of " + size(total)
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s%s\n", clipped(name), size(done), of)
	}
	failed := false
	for _, s := range list { // one by one, so that each is told when it is done
		results, err := registry.Load(cmd.Context(), home.RegistryDir(), o, s)
		if err != nil {
			return err
		}
		for _, r := range results {
			if r.Err != nil {
				failed = true
				fmt.Fprintf(cmd.ErrOrStderr(), "peerd: %s\n", oneLine(r.Err.Error()))
				continue
			}
			if err := showLoaded(cmd, r); err != nil {
				return err
			}
		}
	}
	if failed {
		return errReported
	}
	return nil
}

// showLoaded says what came of a file, and its faults below.
func showLoaded(cmd *cobra.Command, r registry.Result) error {
	i := r.Info
	what := fmt.Sprintf("%d records, %d blocks of addresses", i.Records, i.Entries)
	if r.Same {
		what = "not modified since " + i.Loaded.Format("2006-01-02 15:04")
	}
	if i.Faulty > 0 && !r.Same {
		what += fmt.Sprintf(", %d faults", i.Faulty)
	}
	if err := writeLine(cmd.OutOrStdout(), i.Registry+": "+what); err != nil || r.Same {
		return err
	}
	return showFaults(cmd, i)
}

func showFaults(cmd *cobra.Command, i registry.Info) error {
	for _, f := range i.Faults {
		if err := writeLine(cmd.OutOrStdout(), "  "+printable(f)); err != nil {
			return err
		}
	}
	if more := i.Faulty - len(i.Faults); more > 0 {
		return writeLine(cmd.OutOrStdout(), fmt.Sprintf("  and %d more", more))
	}
	return nil
}

func newRegistryShowCommand() *cobra.Command {
	var dir string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show --home DIR",
		Short: "Show which delegated files are loaded",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return runRegistryShow(cmd, dir, asJSON) },
	}
	homeFlag(cmd, &dir)
	jsonFlag(cmd, &asJSON)
	return cmd
}

func runRegistryShow(cmd *cobra.Command, dir string, asJSON bool) error {
	home, err := openHome(cmd, dir)
	if err != nil {
		return err
	}
	infos, err := registry.List(home.RegistryDir())
	switch {
	case err != nil && len(infos) == 0:
		return err
	case asJSON:
		if infos == nil {
			infos = []registry.Info{}
		}
		if bad := printJSON(cmd.OutOrStdout(), infos); bad != nil {
			return bad
		}
		return err
	case len(infos) == 0:
		return fmt.Errorf("%s: %w", home.RegistryDir(), registry.ErrNone)
	}
	t := newTable(cmd.OutOrStdout(), "REGISTRY", "DAY", "LOADED", "RECORDS", "IPV4", "IPV6", "ASN", "FREE", "BLOCKS", "FAULTS", "SOURCE")
	for _, i := range infos {
		t.row(i.Registry, day(i.Day), i.Loaded.Format("2006-01-02 15:04"), i.Records, i.IPv4, i.IPv6, i.ASN, i.Free, i.Entries, i.Faulty, i.Source)
	}
	if err := t.flush(); err != nil {
		return err
	}
	for _, i := range infos {
		if i.Faulty == 0 {
			continue
		}
		if err := writeLine(cmd.OutOrStdout(), "faults of "+i.Registry); err != nil {
			return err
		}
		if err := showFaults(cmd, i); err != nil {
			return err
		}
	}
	return err
}

// day writes YYYYMMDD as YYYY-MM-DD, and what is none as it is.
func day(s string) string {
	if len(s) != 8 {
		return s
	}
	return s[:4] + "-" + s[4:6] + "-" + s[6:]
}

func newRegistryLookupCommand() *cobra.Command {
	var dir string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "lookup --home DIR ADDR...",
		Short: "Show who holds an address",
		Long: `Shows the smallest block around each address, who holds it, and the blocks
above. An address that lies in no block is told on stderr, and the exit status is 1.`,
		RunE: func(cmd *cobra.Command, list []string) error { return runRegistryLookup(cmd, dir, asJSON, list) },
	}
	homeFlag(cmd, &dir)
	jsonFlag(cmd, &asJSON)
	return cmd
}

// found is what lookup says of an address.
type found struct {
	Addr   string           `json:"addr"`
	Blocks []registry.Block `json:"blocks"` // the smallest first
}

func runRegistryLookup(cmd *cobra.Command, dir string, asJSON bool, list []string) error {
	var addrs []netip.Addr
	for _, s := range list {
		a, err := netip.ParseAddr(s)
		if err != nil || a.Zone() != "" {
			return usagef(cmd, "%q is no IP address", clipped(s))
		}
		addrs = append(addrs, a.Unmap())
	}
	if len(addrs) == 0 {
		return usagef(cmd, "no address")
	}
	home, err := openHome(cmd, dir)
	if err != nil {
		return err
	}
	table, _, err := registry.Open(home.RegistryDir())
	if err != nil {
		return err
	}
	t := newTable(cmd.OutOrStdout(), "ADDRESS", "BLOCK", "REGISTRY", "COUNTRY", "HOLDER")
	missing := false
	for _, a := range addrs {
		f := found{a.String(), registry.Around(table, a)}
		switch {
		case asJSON:
			if err := printJSON(cmd.OutOrStdout(), f); err != nil {
				return err
			}
			continue
		case len(f.Blocks) == 0:
			missing = true
			fmt.Fprintf(cmd.ErrOrStderr(), "peerd: %s lies in no block that was loaded\n", a)
		}
		for i, b := range f.Blocks {
			name := f.Addr
			if i > 0 {
				name = " "
			}
			t.row(name, b.Prefix, b.Registry, b.Country, b.Holder)
		}
	}
	if asJSON {
		return nil
	}
	if err := t.flush(); err != nil {
		return err
	}
	if missing {
		return errReported
	}
	return nil
}
