package soak

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"

	"peerd/node/config"
)

// RunChild runs the child process that WatchOptions.Self or QueueOptions.Self started;
// args are the two arguments that were appended. It returns when stdin ends.
func RunChild(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) error {
	if len(args) != 2 {
		return fmt.Errorf("soak: got %d arguments, want a step and its options", len(args))
	}
	ctx, cancel := whileOpen(ctx, stdin)
	defer cancel()
	config.Default().LimitMemory()
	switch step := args[0]; step {
	case "peer":
		return runPeer(ctx, args[1], stdout)
	case "fill", "reopen":
		return runQueue(ctx, step == "fill", args[1], stdout)
	default:
		return fmt.Errorf("soak: unknown step %q", step)
	}
}

// freeMemory runs a collection and returns free memory to the system.
func freeMemory() { debug.FreeOSMemory() }
