package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/node/config"
	"peerd/node/doctor"
)

func newDoctorCommand() *cobra.Command {
	var asJSON bool
	cmd := onHome(&cobra.Command{
		Use:   "doctor [--home DIR]",
		Short: "Find out what keeps the peer from working, and what to do",
		Long: `Checks the settings, the rules of the network and the membership, the disk, open
files, ports, names, bootstrap addresses and, if the peer runs, its clock and its neighbours. It
changes nothing. It connects to the bootstrap addresses and looks up one name.

The exit status is 1 if a check failed. A warning does not count.`,
		Args: cli.NoArgs,
	}, func(cmd *cobra.Command, home config.Home, _ []string) error {
		return runDoctor(cmd, home, asJSON)
	})
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

func runDoctor(cmd *cobra.Command, home config.Home, asJSON bool) (err error) {
	found := doctor.Examine(cmd.Context(), home)
	failed := 0
	t := cli.NewTable(cmd.OutOrStdout()) // without a head: a terminal would cut the advice
	t.Row("CHECK", "STATE", "RESULT")
	for _, f := range found {
		if f.State == doctor.Fail {
			failed++
		}
		t.Row(f.Check, f.State, f.Text)
		if f.Do != "" {
			t.Row("", "", "to do: "+f.Do)
		}
	}
	if asJSON {
		err = cli.PrintJSON(cmd.OutOrStdout(), found)
	} else {
		err = t.Flush()
	}
	if err == nil && failed > 0 {
		err = fmt.Errorf("doctor: %s failed", cli.Count(failed, "check"))
	}
	return err
}
