package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/node/config"
	"peerd/node/registry"
)

func newRegistryCommand() *cobra.Command {
	return cli.NewGroup("registry", "Load the address data of the Internet registries",
		`Loads delegated-extended files, in which the five regional Internet
registries publish every day which organisation holds which addresses. NRO's combined
file works as well. The strategies ipmicra and ipmicra-proxy need this data. A peer
reads it when it starts.

  https://ftp.ripe.net/pub/stats/ripencc/delegated-ripencc-extended-latest
  https://ftp.arin.net/pub/stats/arin/delegated-arin-extended-latest
  https://ftp.apnic.net/stats/apnic/delegated-apnic-extended-latest
  https://ftp.lacnic.net/pub/stats/lacnic/delegated-lacnic-extended-latest
  https://ftp.afrinic.net/pub/stats/afrinic/delegated-afrinic-extended-latest`,
		newRegistryLoadCommand())
}

func newRegistryLoadCommand() *cobra.Command {
	return onHome(&cobra.Command{
		Use:   "load [--home DIR] FILE|URL...",
		Short: "Load delegated files into the home",
		Long: `Loads delegated-extended files, plain or gzip, from disk or over http and https. Each
replaces the stored file of the same registry. Invalid lines are counted, and the first
of them are printed. A file is refused if it lacks more than 5% of the records that it
announces. A file that fails changes nothing, and the exit status is 1.`,
		Args: cli.SomeArgs("no file or URL"),
	}, runRegistryLoad)
}

func runRegistryLoad(cmd *cobra.Command, home config.Home, list []string) error {
	cfg, err := home.Load()
	if err != nil {
		return err
	}
	var failed error
	for _, s := range list {
		f, err := registry.Load(cmd.Context(), home.RegistryDir(), config.UserAgent(cfg.Contact), s)
		if err != nil {
			failed = cli.ErrReported
			fmt.Fprintf(cmd.ErrOrStderr(), "peerd: %s\n", cli.OneLine(err.Error()))
			continue
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s: %d records, %d blocks of addresses, %d faults\n",
			cli.Printable(s), f.Records, len(f.Entries), f.Faulty)
		for _, fault := range f.Faults {
			fmt.Fprintf(cmd.OutOrStdout(), "  %s\n", cli.Printable(fault.String()))
		}
		if more := f.Faulty - len(f.Faults); more > 0 {
			fmt.Fprintf(cmd.OutOrStdout(), "  and %d more\n", more)
		}
	}
	return failed
}
