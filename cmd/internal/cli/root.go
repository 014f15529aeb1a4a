// Package cli holds what the programs below cmd share: signals, the root command, exit statuses,
// errors, the logger, tables and JSON.
//
// Files:
//
//	root.go    the root command, groups of commands, signals, Main
//	errors.go  errors and exit statuses; text of others made printable
//	log.go     the logger
//	output.go  tables, JSON, numbers
package cli

import (
	"context"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Context returns a context that ends with the first SIGINT or SIGTERM. After that the default
// handling is restored, so that a second signal kills the process.
func Context() context.Context {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx
}

// Setup gives a root command what all programs have: --log-level, suggestions for
// misspelt commands, and errors that Report prints.
func Setup(root *cobra.Command) {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.Args = cobra.ArbitraryArgs
	root.RunE = Group
	root.SuggestionsMinimumDistance = 2
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		// A group has few flags of its own. After an unknown command, an
		// unknown flag most likely belongs to the intended command.
		if name := cmd.Flags().Arg(0); cmd.HasSubCommands() && name != "" {
			return unknownCommand(cmd, name)
		}
		return &usageError{cmd, err}
	})
	root.PersistentFlags().String("log-level", "",
		"minimum level of log messages: debug, info, warn, error")
	root.PersistentFlags().String("library-log-level", "",
		"also log messages of libraries, from this level (default: none)")
	root.PersistentFlags().String("log-format", "", "form of log messages: text, json")
	Complete(root, "log-level", "debug", "info", "warn", "error")
	Complete(root, "library-log-level", "debug", "info", "warn", "error")
	Complete(root, "log-format", "text", "json")
}

// Complete has the shell complete the value of a flag of cmd.
func Complete(cmd *cobra.Command, flag string, values ...string) {
	// It fails for flags that do not exist, which a test of the program finds.
	_ = cmd.RegisterFlagCompletionFunc(flag,
		cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// NewGroup returns a command that only holds others.
func NewGroup(name, short, long string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: name, Short: short, Long: long, Args: cobra.ArbitraryArgs, RunE: Group,
	}
	cmd.AddCommand(commands...)
	return cmd
}

// Group is the RunE of a command that only has subcommands: it prints the help, or returns an
// error if its first argument is not a subcommand.
func Group(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	return unknownCommand(cmd, args[0])
}

// maxListed is the largest number of subcommands that an error lists.
const maxListed = 8

// unknownCommand returns the error that cmd has no subcommand of that name. It names the
// subcommands if there are few, else a similar one.
func unknownCommand(cmd *cobra.Command, name string) error {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && c.Name() != "help" {
			names = append(names, c.Name())
		}
	}
	if last := len(names) - 1; last > 0 && last < maxListed {
		return Usagef(cmd, "unknown command %q, want %s or %s", name,
			strings.Join(names[:last], ", "), names[last])
	}
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		return Usagef(cmd, "unknown command %q, did you mean %q?", name, near[0])
	}
	return Usagef(cmd, "unknown command %q", name)
}

// Main runs root with the arguments of the process and exits.
func Main(root *cobra.Command, unfit ...error) {
	ctx := Context()
	os.Exit(Report(os.Stderr, root.Name(), root.ExecuteContext(ctx), unfit...))
}
