package crawllet

import (
	"bytes"
	"context"
	"io"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// hostName is the name with which TestKilledHost starts this program as a host.
const hostName = "crawllet-test-host"

// cache is a directory for modules that all tests share, so that each is compiled once.
var cache string

// TestMain is also the process of a crawllet, as in any program with a Handler.
func TestMain(m *testing.M) {
	Main()
	if os.Args[0] == hostName {
		runHost(os.Args[1])
	}
	var err error
	if cache, err = os.MkdirTemp("", "crawllet-"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(cache)
		os.Exit(code)
	}))
}

// runHost runs the module in a directory, and copies its output.
func runHost(dir string) {
	program, err := os.Executable()
	if err != nil {
		panic(err)
	}
	j := job{Dir: dir, Run: true, Root: dir, Args: []string{"cpu"}, Limits: DefaultLimits}
	_, err = execute(context.Background(), program, j, bytes.NewReader(nil),
		func(out io.Reader, _ func()) (uint64, error) {
			n, err := io.Copy(os.Stdout, out)
			return uint64(n), err
		})
	panic(err) // the test has ended it before
}
