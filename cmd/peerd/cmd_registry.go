package main

import (
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/node/config"
	"peerd/node/registry"
)

func newRegistryCommand() *cobra.Command {
	return newGroup("registry", "Load and show the address data of the Internet registries",
		`Loads and shows the delegated-extended files, in which the five regional Internet
registries publish every day which organisation holds which addresses. NRO's combined
file works as well. The strategies ipmicra and ipmicra-proxy need this data. A peer
reads it when it starts.

  https://ftp.ripe.net/pub/stats/ripencc/delegated-ripencc-extended-latest
  https://ftp.arin.net/pub/stats/arin/delegated-arin-extended-latest
  https://ftp.apnic.net/stats/apnic/delegated-apnic-extended-latest
  https://ftp.lacnic.net/pub/stats/lacnic/delegated-lacnic-extended-latest
  https://ftp.afrinic.net/pub/stats/afrinic/delegated-afrinic-extended-latest`,
		newRegistryLoadCommand(), newRegistryShowCommand(), newRegistryLookupCommand())
}

func newRegistryLoadCommand() *cobra.Command {
	var force bool
	cmd := onHome(&cobra.Command{
		Use:   "load [--home DIR] FILE|URL...",
		Short: "Load delegated files into the home",
		Long: `Loads delegated-extended files, plain or gzip, from disk or over http and https. Each
replaces the stored file of the same registry. Invalid lines are counted, and the first
of them are printed. A file is refused if it lacks more than 5% of the records that it
announces or, without --force, if it has over 5% fewer records than the stored file.
A file that fails changes nothing, and the exit status is 1. A URL is fetched only if
the server has a newer file than the stored one.`,
		Args: cli.SomeArgs("no file or URL"),
	}, func(cmd *cobra.Command, home config.Home, list []string) error {
		return runRegistryLoad(cmd, home, force, list)
	})
	cmd.Flags().BoolVar(&force, "force", false,
		"accept files with fewer records, and fetch files that are not newer")
	return cmd
}

func runRegistryLoad(cmd *cobra.Command, home config.Home, force bool, list []string) error {
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
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s%s\n", cli.Clip(name), size(done), of)
	}
	failed := false
	for _, s := range list { // one by one, so that each result is printed at once
		results, err := registry.Load(cmd.Context(), home.RegistryDir(), o, s)
		if err != nil {
			return err
		}
		for _, r := range results {
			if r.Err != nil {
				failed = true
				fmt.Fprintf(cmd.ErrOrStderr(), "peerd: %s\n", cli.OneLine(r.Err.Error()))
				continue
			}
			if err := showLoaded(cmd, r); err != nil {
				return err
			}
		}
	}
	if failed {
		return cli.ErrReported
	}
	return nil
}

// showLoaded prints the result of loading a file, and its faults.
func showLoaded(cmd *cobra.Command, r registry.Result) error {
	i := r.Info
	what := fmt.Sprintf("%d records, %d blocks of addresses", i.Records, i.Entries)
	if r.NotModified {
		what = "not modified since " + i.Loaded.Format("2006-01-02 15:04")
	}
	if i.Faulty > 0 && !r.NotModified {
		what += fmt.Sprintf(", %d faults", i.Faulty)
	}
	if err := writeLine(cmd.OutOrStdout(), i.Registry+": "+what); err != nil || r.NotModified {
		return err
	}
	return showFaults(cmd, i)
}

func showFaults(cmd *cobra.Command, i registry.Info) error {
	for _, f := range i.Faults {
		if err := writeLine(cmd.OutOrStdout(), "  "+cli.Printable(f)); err != nil {
			return err
		}
	}
	if more := i.Faulty - len(i.Faults); more > 0 {
		return writeLine(cmd.OutOrStdout(), fmt.Sprintf("  and %d more", more))
	}
	return nil
}

func newRegistryShowCommand() *cobra.Command {
	var asJSON bool
	cmd := onHome(&cobra.Command{
		Use:   "show [--home DIR]",
		Short: "Show which delegated files are loaded",
		Args:  cli.NoArgs,
	}, func(cmd *cobra.Command, home config.Home, _ []string) error {
		return runRegistryShow(cmd, home, asJSON)
	})
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

func runRegistryShow(cmd *cobra.Command, home config.Home, asJSON bool) error {
	infos, err := registry.List(home.RegistryDir())
	switch {
	case err != nil && len(infos) == 0:
		return err
	case asJSON:
		if infos == nil {
			infos = []registry.Info{}
		}
		if bad := cli.PrintJSON(cmd.OutOrStdout(), infos); bad != nil {
			return bad
		}
		return err
	case len(infos) == 0:
		return fmt.Errorf("%s: %w", home.RegistryDir(), registry.ErrNone)
	}
	t := cli.NewTable(cmd.OutOrStdout(), "REGISTRY", "DAY", "LOADED", "RECORDS", "IPV4", "IPV6",
		"ASN", "FREE", "BLOCKS", "FAULTS", "SOURCE")
	for _, i := range infos {
		t.Row(i.Registry, day(i.Day), i.Loaded.Format("2006-01-02 15:04"), i.Records, i.IPv4,
			i.IPv6, i.ASN, i.Free, i.Entries, i.Faulty, i.Source)
	}
	if err := t.Flush(); err != nil {
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

// day formats YYYYMMDD as YYYY-MM-DD and returns other strings unchanged.
func day(s string) string {
	if len(s) != 8 {
		return s
	}
	return s[:4] + "-" + s[4:6] + "-" + s[6:]
}

func newRegistryLookupCommand() *cobra.Command {
	var asJSON bool
	cmd := onHome(&cobra.Command{
		Use:   "lookup [--home DIR] ADDR...",
		Short: "Show the holder of an address",
		Long: `Shows the smallest block that contains each address, its holder, and the blocks that
contain that block. For an address in no block, it prints a message, and the exit
status is 1.`,
		Args: cli.SomeArgs("no address"),
	}, func(cmd *cobra.Command, home config.Home, list []string) error {
		return runRegistryLookup(cmd, home, asJSON, list)
	})
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

// lookupResult is the JSON output for one address.
type lookupResult struct {
	Addr   string           `json:"addr"`
	Blocks []registry.Block `json:"blocks"` // the smallest first
}

func runRegistryLookup(cmd *cobra.Command, home config.Home, asJSON bool, list []string) error {
	var addrs []netip.Addr
	for _, s := range list {
		a, err := netip.ParseAddr(s)
		if err != nil || a.Zone() != "" {
			return cli.Usagef(cmd, "%q is not an IP address", cli.Clip(s))
		}
		addrs = append(addrs, a.Unmap())
	}
	table, _, err := registry.Open(home.RegistryDir())
	if err != nil {
		return err
	}
	t := cli.NewTable(cmd.OutOrStdout(), "ADDRESS", "BLOCK", "REGISTRY", "COUNTRY", "HOLDER")
	missing := false
	for _, a := range addrs {
		f := lookupResult{a.String(), registry.BlocksContaining(table, a)}
		switch {
		case asJSON:
			if err := cli.PrintJSON(cmd.OutOrStdout(), f); err != nil {
				return err
			}
			continue
		case len(f.Blocks) == 0:
			missing = true
			fmt.Fprintf(cmd.ErrOrStderr(), "peerd: %s is in no loaded block\n", a)
		}
		for i, b := range f.Blocks {
			name := f.Addr
			if i > 0 {
				name = " "
			}
			t.Row(name, b.Prefix, b.Registry, b.Country, b.Holder)
		}
	}
	if asJSON {
		return nil
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if missing {
		return cli.ErrReported
	}
	return nil
}
