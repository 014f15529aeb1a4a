package main

import (
	"strings"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/lab/compare"
	"peerd/node/config"
)

func newCompareCommand() *cobra.Command {
	o := compare.DefaultOptions()
	var allow []string
	cmd := &cobra.Command{
		Use:   "compare",
		Short: "Compare the throughput of peerd with that of Colly and of a bare loop",
		Long: `Crawls the same pages of a local web server with peerd, Colly and a bare loop, each
alone on one core, and prints pages per second of processor time.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Allow, err = config.ParseNets(allow); err != nil {
				return cli.Usagef(cmd, "--allow-net: %w", err)
			}
			return runCompare(cmd, o)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.Seeds, "seed", nil, "start `URL`; repeatable")
	f.StringArrayVar(&o.Roots, "root", nil,
		"`directory` that nginx serves as a site, in place of --seed; repeatable")
	f.BoolVar(&o.TLS, "tls", false, "serve --root over TLS")
	f.StringArrayVar(&allow, "allow-net", nil,
		"address `range` that peerd may fetch from; repeatable")
	f.StringSliceVar(&o.Only, "only", o.Only, "`crawlers` to run, of "+
		strings.Join(compare.Crawlers, ","))
	f.IntSliceVar(&o.Parallel, "parallel", o.Parallel,
		"`numbers` of simultaneous requests of colly and bare")
	f.StringVar(&o.AccessLog, "access-log", "",
		"`file` that the server logs to, in the format that lab/compare/accesslog.go names")
	f.StringVar(&o.Peerd, "peerd", "", "the `program` peerd; built from source if not given")
	f.StringVar(&o.Colly, "colly", "",
		"the `program` of lab/compare/colly; built from source if not given")
	f.IntVar(&o.Runs, "runs", o.Runs, "`number` of rounds; each crawler runs once per round")
	f.IntVar(&o.Cores, "cores", o.Cores, "`number` of cores for a second run of peerd")
	f.IntVar(&o.CPU, "cpu", o.CPU, "core of the crawlers; -1: any")
	f.IntVar(&o.ServerCPU, "nginx-cpu", o.ServerCPU, "core of nginx for --root; -1: any")
	f.BoolVar(&o.WARC, "warc", false, "run peerd a second time with its archive")
	f.BoolVar(&o.JSON, "json", false, "print JSON, with every run")
	return cmd
}

func runCompare(cmd *cobra.Command, o compare.Options) (err error) {
	if err := o.Validate(); err != nil {
		return cli.Usagef(cmd, "%w", err)
	}
	if o.Self, err = self("compare-child"); err != nil {
		return err
	}
	return ended(cmd, compare.Run(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr()))
}
