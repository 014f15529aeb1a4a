package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/lab/sim"
)

func newSimCommand() *cobra.Command {
	o := sim.SeedsOptions{Seed: 1, Seeds: 1, AtOnce: 2, Level: sim.Returning}
	level := int(o.Level)
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Simulate schedules of faults with complete peers, on virtual time",
		Long: `Simulates schedules of faults with complete peers on virtual time and checks the
history of each. Levels: 0 no faults, 1 faults from which all peers recover, 2 one
peer is lost for good, too, 3 a site moves, too.

With --disturb each has one fault instead, and nothing is checked: before the fault
and five minutes after it, it counts the owners that are near, where a page takes at
most a fifth longer than at the nearest peer.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Level = sim.Level(level)
			return runSim(cmd, o)
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&o.Seed, "seed", o.Seed, "first seed")
	f.IntVar(&o.Seeds, "seeds", o.Seeds, "`number` of seeds")
	f.IntVar(&level, "level", level, "set of faults, 0 to 3")
	f.IntVar(&o.AtOnce, "at-once", o.AtOnce, "`number` of seeds that run in parallel")
	f.StringVar((*string)(&o.Disturbance), "disturb", "", "instead of the level, one `fault`: "+
		"none, loss, wiped or halves; and how near owners are before it and 5 minutes after it")
	f.BoolVar(&o.History, "history", false, "print the whole history of every seed")
	f.BoolVar(&o.Loud, "loud", false, "print the peers' log messages")
	return cmd
}

func runSim(cmd *cobra.Command, o sim.SeedsOptions) (err error) {
	if err := o.Validate(); err != nil {
		return cli.Usagef(cmd, "%w", err)
	}
	if o.Self, err = self("sim-child"); err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	o.Done = func(seed uint64, text []byte, err error) {
		switch {
		case err != nil:
			fmt.Fprintf(out, "seed %d: %v\n%s\n", seed, err, text)
		case o.History || o.Loud:
			fmt.Fprintf(out, "%s\n", text)
		default:
			fmt.Fprintf(out, "seed %d: ok\n", seed)
		}
	}
	sum, err := sim.PlaySeeds(cmd.Context(), o)
	what := fmt.Sprint("level ", int(o.Level))
	if o.Disturbance != "" {
		what = string(o.Disturbance)
	}
	fmt.Fprintf(out, "%s: %v", what, &sum)
	switch {
	case cli.Interrupted(cmd.Context(), err):
		return fmt.Errorf("sim: interrupted after %d of %d seeds", sum.Seeds, o.Seeds)
	case err != nil:
		return err
	case sum.Failed > 0:
		return fmt.Errorf("sim: %d of %d seeds failed", sum.Failed, sum.Seeds)
	}
	return nil
}
