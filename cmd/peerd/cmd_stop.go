package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/node/admin"
)

type stopOptions struct {
	home           string
	now            bool
	drain, timeout time.Duration
}

func newStopCommand() *cobra.Command {
	var o stopOptions
	cmd := &cobra.Command{
		Use:   "stop [--home DIR]",
		Short: "Stop the running peer",
		Long: `Asks the peer that runs with the home to hand everything that it owns over to other
peers and then to stop, shows the progress, and waits until the peer has ended. What
was not handed over in time stays in the home, and the peer continues with it when it
is started again. If no other peer can be reached, the peer stops at once.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runStop(cmd, o) },
	}
	homeFlag(cmd, &o.home)
	f := cmd.Flags()
	f.BoolVar(&o.now, "now", false, "stop at once and hand nothing over; also ends a handover")
	f.DurationVar(&o.drain, "drain-timeout", 2*time.Minute, "maximum `time` for handing over")
	f.DurationVar(&o.timeout, "timeout", 30*time.Second,
		"maximum `time` to wait for the end after that")
	return cmd
}

func runStop(cmd *cobra.Command, o stopOptions) error {
	if o.drain <= 0 || o.drain > admin.MaxLeave {
		return cli.Usagef(cmd,
			"--drain-timeout %s: want more than 0 and at most %s; --now hands nothing over",
			o.drain, admin.MaxLeave)
	}
	if o.timeout <= 0 {
		return cli.Usagef(cmd, "--timeout %s: want more than 0", o.timeout)
	}
	home, client, err := dial(cmd, o.home)
	if err != nil {
		return err
	}
	if o.now {
		err = client.Stop(cmd.Context())
	} else {
		err = handOver(cmd.Context(), client, o.drain, cmd.ErrOrStderr())
	}
	if err != nil && !errors.Is(err, admin.ErrStopping) { // it stops already
		return adviseRun(home, err)
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
	defer cancel()
	if err := client.Wait(ctx); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("the peer accepted the request to stop, but still runs after %s",
				o.timeout)
		}
		return err
	}
	return nil
}

// progressInterval is the time between two lines of progress.
const progressInterval = 2 * time.Second

// handOver asks the peer to leave and prints the progress. It is no error if something is
// left: the peer stops anyway.
func handOver(ctx context.Context, client *admin.Client, limit time.Duration, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, limit+time.Minute) // the peer applies the limit
	defer cancel()
	var last admin.Drain
	var printed time.Time
	err := client.Leave(ctx, limit, func(d admin.Drain) {
		last = d
		if !d.Done && d.Subnets+d.URLs > 0 && time.Since(printed) >= progressInterval {
			printed = time.Now()
			fmt.Fprintln(out, progressText(d))
		}
	})
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF) && ctx.Err() == nil:
		fmt.Fprintln(out, "the peer ended before it reported what is left")
		return nil
	case err != nil:
		return err
	}
	if text := resultText(last); text != "" {
		fmt.Fprintln(out, text)
	}
	return nil
}

// progressText describes a handover under way.
func progressText(d admin.Drain) string {
	text := fmt.Sprintf("handing over: %d of %d subnets left, %d URLs pending for other peers",
		d.Remaining, d.Subnets, d.URLs)
	if d.HandingOver != "" {
		text += ", now " + cli.Printable(d.HandingOver)
	}
	return text
}

// resultText describes the end of a handover; "" if there was nothing to hand over.
func resultText(d admin.Drain) string {
	switch {
	case d.Remaining+d.URLs > 0:
		return fmt.Sprintf("handed over %d of %d subnets, %d URLs are pending; "+
			"the rest stays in the home: %s", d.Subnets-d.Remaining, d.Subnets, d.URLs,
			cli.OneLine(cmp.Or(d.Reason, "no other peer accepts it")))
	case d.Subnets > 0:
		return fmt.Sprintf("handed over %d subnets", d.Subnets)
	}
	return ""
}
