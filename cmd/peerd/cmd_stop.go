package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

func newStopCommand() *cobra.Command {
	var dir string
	var patience time.Duration
	cmd := &cobra.Command{
		Use:   "stop --home DIR",
		Short: "Stop the running peer",
		Long:  "Asks the peer that runs with the home to stop, and waits until it has.",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return runStop(cmd, dir, patience) },
	}
	homeFlag(cmd, &dir)
	cmd.Flags().DurationVar(&patience, "timeout", 30*time.Second, "how long to wait")
	return cmd
}

func runStop(cmd *cobra.Command, dir string, patience time.Duration) error {
	home, client, err := dial(cmd, dir)
	if err != nil {
		return err
	}
	if err := client.Stop(cmd.Context()); err != nil {
		return advise(home, err)
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), patience)
	defer cancel()
	if err := client.Wait(ctx); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("the peer was asked to stop, but still runs after %s", patience)
		}
		return err
	}
	return nil
}
