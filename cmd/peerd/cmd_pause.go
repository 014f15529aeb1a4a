package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/node/admin"
)

// newAskCommand returns a command without arguments that asks the running peer for something and
// prints the text that ask returns.
func newAskCommand(
	cmd *cobra.Command, ask func(ctx context.Context, c *admin.Client) (string, error),
) *cobra.Command {
	cmd.Args = cli.NoArgs
	return onPeer(cmd, func(cmd *cobra.Command, c *admin.Client, _ []string) error {
		text, err := ask(cmd.Context(), c)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), cli.Printable(text))
		return err
	})
}

func newPauseCommand() *cobra.Command {
	var d time.Duration
	cmd := &cobra.Command{
		Use:   "pause [--home DIR]",
		Short: "Have the running peer fetch nothing",
		Long: `The running peer completes the fetches in flight and begins no more, until "peerd
resume" or for the given time. As outside crawl.hours, it stays in the network and hands subnets
with work over to other peers. The pause outlives a restart.`,
	}
	cmd.Flags().DurationVar(&d, "for", 0,
		"`time` after which it continues by itself (default: never)")
	return newAskCommand(cmd, func(ctx context.Context, c *admin.Client) (string, error) {
		if d < 0 || d > admin.MaxPause {
			return "", cli.Usagef(cmd, "--for %s: want 0 to %s", d, admin.MaxPause)
		}
		text := "paused; to continue: peerd resume"
		if d > 0 {
			text = fmt.Sprintf("paused for %s; to continue earlier: peerd resume", d)
		}
		return text, c.Pause(ctx, d)
	})
}

func newResumeCommand() *cobra.Command {
	return newAskCommand(&cobra.Command{
		Use:   "resume [--home DIR]",
		Short: "End a pause of the running peer",
	}, func(ctx context.Context, c *admin.Client) (string, error) {
		return "resumed", c.Resume(ctx)
	})
}

func newReloadCommand() *cobra.Command {
	return newAskCommand(&cobra.Command{
		Use:   "reload [--home DIR]",
		Short: "Have the running peer read config.toml again",
		Long: `The running peer reads config.toml again, as after SIGHUP, and applies crawl.hours,
crawl.pages_per_day, crawl.bandwidth, traffic.bandwidth and traffic.monthly_volume. Other
settings that have changed are listed: they need a restart. If the file has a fault, nothing
changes.`,
	}, func(ctx context.Context, c *admin.Client) (string, error) {
		r, err := c.Reload(ctx)
		if err != nil {
			return "", err
		}
		return reloadedText(r), nil
	})
}

// reloadedText says what a reload has changed.
func reloadedText(r admin.Reloaded) string {
	text := "nothing to apply"
	if len(r.Applied) > 0 {
		text = "applied " + strings.Join(r.Applied, ", ")
	}
	if len(r.Restart) > 0 {
		text += "; restart the peer for " + strings.Join(r.Restart, ", ")
	}
	return text
}
