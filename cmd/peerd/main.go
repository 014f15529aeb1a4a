// Command peerd runs a peer of a distributed web crawler and has the tools to inspect and
// control it. This package contains command lines and output only. Package node runs the peer;
// package node/admin is the interface to a running one.
//
// Files:
//
//	main.go     the process and its exit status
//	root.go     the root command, and what the subcommands share
//	errors.go   errors that were found before anything was done, advice
//	flags.go    options of several subcommands
//	output.go   lines of lists, formats of numbers
//	cmd_*.go    one subcommand each
//	resume.go   exports that continue where they were interrupted
//	tool*.go    peerd tool and its subcommands
//	top/        the screen of peerd top
//	compose/    a testnet of containers
//	package/    files of the packages of distributions
//	testdata/   scripts that test the command line
package main

import (
	"context"
	"io"
	"os"

	"peerd/cmd/internal/cli"
	"peerd/node/crawllet"
)

func main() {
	crawllet.Main()
	os.Exit(run(cli.Context(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is main without the process around it. It returns the exit status.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return cli.Report(stderr, "peerd", root.ExecuteContext(ctx), unfit...)
}
