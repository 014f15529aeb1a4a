package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/node/config"
)

func newVersionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := config.ReadBuild()
			if asJSON {
				return cli.PrintJSON(cmd.OutOrStdout(), b)
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionText(b))
			return err
		},
	}
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

// versionText formats a build:
// "peerd 0.1.0 (revision 0123456789ab, modified, go1.26.1, linux/amd64)".
func versionText(b config.Build) string {
	var details []string
	switch {
	case b.Revision != "":
		details = append(details, "revision "+b.Revision[:min(12, len(b.Revision))])
	case b.Module != "":
		details = append(details, "module "+b.Module)
	}
	if b.Modified {
		details = append(details, "modified")
	}
	details = append(details, b.Go, b.Platform)
	return fmt.Sprintf("peerd %s (%s)", b.Version, strings.Join(details, ", "))
}
