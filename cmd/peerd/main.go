// Command peerd is one peer of a distributed web crawler, and the tools to
// look into it. This package holds flags and printing only; what they start is
// in package node, what they ask a running peer in package node/admin.
//
// Files:
//
//	main.go     signals, exit status
//	root.go     the root command and what all subcommands share
//	errors.go   error to one line and exit status
//	flags.go    options that several subcommands have
//	output.go   tables and JSON
//	cmd_*.go    one subcommand a file
//	tool*.go    peerd tool and its subcommands
//	testdata/   scripts of what the command line promises
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	// The first signal asks for a clean stop; with the default handling back, a
	// second one kills.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is main without the process around it. It returns the exit status.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return report(stderr, root.ExecuteContext(ctx))
}
