package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"peerd/node/admin"
)

// stopOptions say how a peer is stopped.
type stopOptions struct {
	home            string
	now             bool
	drain, patience time.Duration
}

func newStopCommand() *cobra.Command {
	var o stopOptions
	cmd := &cobra.Command{
		Use:   "stop --home DIR",
		Short: "Stop the running peer",
		Long: `Asks the peer that runs with the home to hand all that it owns over to other
peers and then to stop, and waits until it has. What was not handed over in time
stays in its home, and it goes on with it when it is run again.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runStop(cmd, o) },
	}
	homeFlag(cmd, &o.home)
	f := cmd.Flags()
	f.BoolVar(&o.now, "now", false, "stop at once and hand nothing over; also while it hands over")
	f.DurationVar(&o.drain, "drain-timeout", 2*time.Minute, "how long it may hand over")
	f.DurationVar(&o.patience, "timeout", 30*time.Second, "how long to wait for the end after that")
	return cmd
}

func runStop(cmd *cobra.Command, o stopOptions) error {
	if o.drain <= 0 || o.drain > admin.MaxLeave {
		return usagef(cmd, "--drain-timeout %s: want more than 0 and at most %s; --now hands nothing over", o.drain, admin.MaxLeave)
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
	if err != nil {
		return advise(home, err)
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), o.patience)
	defer cancel()
	if err := client.Wait(ctx); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("the peer was asked to stop, but still runs after %s", o.patience)
		}
		return err
	}
	return nil
}

// tellEvery is how often handOver says how far it is.
const tellEvery = 2 * time.Second

// handOver asks the peer to leave and tells how that goes. That something was
// left is no error: the peer stops all the same.
func handOver(ctx context.Context, client *admin.Client, limit time.Duration, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, limit+time.Minute) // it keeps to the limit itself
	defer cancel()
	var last admin.Drain
	said := time.Now()
	err := client.Leave(ctx, limit, func(d admin.Drain) {
		if last = d; !d.Over && time.Since(said) > tellEvery {
			said = time.Now()
			fmt.Fprintf(out, "%d of %d subnets handed over, %d URLs wait\n", d.Subnets-d.Left, d.Subnets, d.URLs)
		}
	})
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF) && ctx.Err() == nil:
		fmt.Fprintf(out, "the peer ended before it had said what is left\n")
		return nil
	case err != nil:
		return err
	case last.Left+last.URLs > 0:
		fmt.Fprintf(out, "%d of %d subnets handed over, %d URLs wait; the rest stays in the home: %s\n",
			last.Subnets-last.Left, last.Subnets, last.URLs, printable(cmp.Or(last.Fault, "there is nobody to hand it to")))
	case last.Subnets > 0:
		fmt.Fprintf(out, "%d subnets handed over\n", last.Subnets)
	}
	return nil
}
