package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"peerd/node/config"
)

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "peerd %s (%s, %s/%s%s)\n",
				config.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH, revision())
			return err
		},
	}
}

// revision returns what the build knows of the source it is from.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	text := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			text = ", " + s.Value[:min(12, len(s.Value))] + text
		case s.Key == "vcs.modified" && s.Value == "true":
			text += "+"
		}
	}
	return text
}
