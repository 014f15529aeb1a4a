package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"peerd/cmd/internal/cli"
)

func newManCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write manual pages into a directory",
		Long: `Writes a manual page for each command into a directory, which is created if it is
missing: peerd.1, peerd-run.1 and so on.`,
		Args: cli.Args(1, "want one directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return writeManuals(cmd.Root(), args[0])
		},
	}
}

// writeManuals writes the pages of cmd and of all commands below it.
func writeManuals(cmd *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	file := filepath.Join(dir, manualName(cmd)+".1")
	if err := os.WriteFile(file, []byte(manual(cmd)), 0o644); err != nil {
		return err
	}
	for _, c := range documented(cmd) {
		if err := writeManuals(c, dir); err != nil {
			return err
		}
	}
	return nil
}

// documented returns the commands below cmd that help shows.
func documented(cmd *cobra.Command) (all []*cobra.Command) {
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && c.Name() != "help" {
			all = append(all, c)
		}
	}
	return all
}

func manualName(cmd *cobra.Command) string {
	return strings.ReplaceAll(cmd.CommandPath(), " ", "-")
}

// manual returns the page of a command in the format of man(7).
func manual(cmd *cobra.Command) string {
	var b strings.Builder
	name := manualName(cmd)
	fmt.Fprintf(&b, ".TH %q 1\n.SH NAME\n%s \\- %s\n", strings.ToUpper(name), roff(name),
		roff(cmd.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(cmd.UseLine()))
	if cmd.Long != "" { // with its own lines, some of which are indented
		fmt.Fprintf(&b, ".SH DESCRIPTION\n.nf\n%s\n.fi\n", roff(cmd.Long))
	}
	if cmd.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(cmd.Example))
	}
	options := &strings.Builder{}
	cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) { writeOption(options, f) })
	cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) { writeOption(options, f) })
	if options.Len() > 0 {
		fmt.Fprintf(&b, ".SH OPTIONS\n%s", options)
	}
	var also []string
	if cmd.HasParent() {
		also = append(also, manualName(cmd.Parent()))
	}
	for _, c := range documented(cmd) {
		also = append(also, manualName(c))
	}
	for i, other := range also {
		also[i] = fmt.Sprintf(".BR %s (1)", roff(other))
	}
	if len(also) > 0 {
		fmt.Fprintf(&b, ".SH SEE ALSO\n%s\n", strings.Join(also, " ,\n"))
	}
	return b.String()
}

func writeOption(b *strings.Builder, f *pflag.Flag) {
	if f.Hidden {
		return
	}
	name := "--" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	value, usage := pflag.UnquoteUsage(f)
	fmt.Fprintf(b, ".TP\n.B %s\n%s\n", roff(strings.TrimSpace(name+" "+value)), roff(usage))
}

// roff escapes text for man(7).
func roff(text string) string {
	lines := strings.Split(strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text), "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
