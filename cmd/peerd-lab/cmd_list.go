package main

import (
	"strings"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/lab/experiment/list"
)

func newListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the experiments",
		Args:  cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := cmd.OutOrStdout()
			if asJSON {
				return listJSON(cmd)
			}
			t := cli.NewTable(out, "NAME", "TITLE", "SOURCE", "NEEDS")
			for _, e := range list.Experiments() {
				var needs []string
				for _, n := range e.Needs {
					needs = append(needs, "--"+strings.ReplaceAll(n, "|", " or --"))
				}
				t.Row(e.Name, e.Title, e.Source, strings.Join(needs, " "))
			}
			return t.Flush()
		},
	}
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

// listJSON prints one experiment per line.
func listJSON(cmd *cobra.Command) error {
	for _, e := range list.Experiments() {
		needs := e.Needs
		if needs == nil {
			needs = []string{}
		}
		err := cli.PrintJSON(cmd.OutOrStdout(), struct {
			Name   string   `json:"name"`
			Title  string   `json:"title"`
			Source string   `json:"source"`
			Needs  []string `json:"needs"`
		}{e.Name, e.Title, e.Source, needs})
		if err != nil {
			return err
		}
	}
	return nil
}
