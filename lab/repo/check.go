package repo

import (
	"fmt"

	"github.com/spf13/cobra"
)

// CheckCommand reports whether root accepts c: its subcommand exists, its flags
// are known, and their values and the number of arguments are valid. It runs
// nothing. A call of CheckCommand needs a root command of its own, as parsing sets flags.
func CheckCommand(root *cobra.Command, c Command) error {
	cmd, rest, err := root.Find(c.Args)
	if err != nil {
		return fmt.Errorf("%s:%d: %v: %w", c.File, c.Line, c.Args, err)
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return fmt.Errorf("%s:%d: %v: %w", c.File, c.Line, c.Args, err)
	}
	if cmd == root && len(cmd.Flags().Args()) > 0 {
		return fmt.Errorf("%s:%d: %v: unknown command", c.File, c.Line, c.Args)
	}
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		return fmt.Errorf("%s:%d: %v: %w", c.File, c.Line, c.Args, err)
	}
	return nil
}
