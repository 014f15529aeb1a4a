package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/lab/attack"
)

func newAttackCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "attack NAME|all",
		Short: "Attack real peers with hostile ones, and measure the effect",
		Long: `Runs hostile peers against real peers in this process, on loopback, one attack after
the other, and prints what each has achieved beside its limit; docs/threats.md
describes them. Verdicts: held; open, for an attack that is known to have an effect;
broken; unknown, if the attack could not be carried out. The exit status is 1 if one
is broken or unknown.`,
		Args: cli.Args(1, "want the name of an attack, or all"),
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := attack.Find(args[0])
			if err != nil {
				return cli.Usagef(cmd, "%w", err)
			}
			return runAttacks(cmd, all, asJSON)
		},
	}
	cli.JSONFlag(cmd, &asJSON)
	cmd.AddCommand(newAttackNetworkCommand())
	return cmd
}

func runAttacks(cmd *cobra.Command, all []attack.Attack, asJSON bool) error {
	failed := false
	for _, a := range all {
		r, err := a.Run(cmd.Context())
		switch {
		case cli.Interrupted(cmd.Context(), err):
			return errors.New("attack: interrupted before the end")
		case err != nil:
			return err
		case asJSON:
			err = cli.PrintJSON(cmd.OutOrStdout(), r)
		default:
			_, err = fmt.Fprintf(cmd.OutOrStdout(),
				"%-8s %s: %.3g %s, limit %.3g (%.0f s)\n         %s\n         bound by: %s\n",
				r.Verdict, r.Name, r.Effect, r.Unit, r.Limit, r.Seconds, r.Detail, r.By)
		}
		if err != nil {
			return err
		}
		failed = failed || r.Verdict == attack.Broken || r.Verdict == attack.Unknown
	}
	if failed {
		return cli.ErrReported
	}
	return nil
}
