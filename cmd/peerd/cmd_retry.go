package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/node"
	"peerd/node/admin"
	"peerd/node/config"
)

func newRetryCommand() *cobra.Command {
	var all, asJSON bool
	cmd := onHome(&cobra.Command{
		Use:   "retry [--home DIR] HOST|URL|--all",
		Short: "Queue URLs again that were given up",
		Long: `Queues one URL that was given up, those of one host, or all of them, as if they had
never been tried. "peerd queue --given-up" lists them. A running peer queues them at once;
if none runs, the next "peerd run" or "peerd crawl" with the home does.`,
		Args: cobra.ArbitraryArgs,
	}, func(cmd *cobra.Command, home config.Home, args []string) error {
		r, err := retryRequest(cmd, args, all)
		if err != nil {
			return err
		}
		return runRetry(cmd, home, r, asJSON)
	})
	cmd.Flags().BoolVar(&all, "all", false, "queue all URLs that were given up")
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

// retryRequest returns what the command line selects. An argument with a slash is a URL.
func retryRequest(cmd *cobra.Command, args []string, all bool) (r admin.RetryRequest, err error) {
	switch {
	case len(args) > 1, all && len(args) > 0:
		return r, cli.Usagef(cmd, "want one of HOST, URL and --all")
	case all:
		r.All = true
	case len(args) == 0 || args[0] == "":
		return r, cli.Usagef(cmd, "nothing to retry, want a host, a URL or --all")
	case strings.Contains(args[0], "/"):
		if err := config.CheckURL(args[0]); err != nil {
			return r, cli.Usagef(cmd, "%w", err)
		}
		r.URL = args[0]
	default:
		r.Host = args[0]
	}
	return r, nil
}

func runRetry(cmd *cobra.Command, home config.Home, r admin.RetryRequest, asJSON bool) error {
	var res admin.RetryResult
	running := true
	err := fromPeerOrHome(home, func(c *admin.Client) (err error) {
		res, err = c.Retry(cmd.Context(), r)
		return err
	}, func() (err error) {
		running = false
		res, err = node.Retry(cmd.Context(), home, r)
		return err
	})
	if err != nil {
		return err
	}
	switch w := cmd.OutOrStdout(); {
	case asJSON:
		return cli.PrintJSON(w, res)
	case running || res.Queued == 0:
		_, err = fmt.Fprintf(w, "queued %s again\n", cli.Count(res.Queued, "URL"))
	default:
		_, err = fmt.Fprintf(w, "%s will be queued again when the peer starts\n",
			cli.Count(res.Queued, "URL"))
	}
	return err
}
