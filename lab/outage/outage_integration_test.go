//go:build integration

package outage

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"peerd/lab/emulate/netns"
	"peerd/lab/internal/build"
)

var (
	long = flag.Bool("long", false, "also run rows of several minutes,"+
		" all outages in full, and judge times strictly")
	keep  = flag.String("keep", "", "directory for the logs of sites, names and peers of each row")
	child = flag.String("child", "", "run this row in this process; the test itself sets it")
	peerd = flag.String("peerd", "", "path of the program peerd (default: built from source)")
)

// patience is the least limit of all waits, which only end a row that hangs: a busy machine may
// stand still for a minute.
const patience = 5 * time.Minute

// atOnce is the number of rows that run at the same time. They wait more than they compute.
const atOnce = 8

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", fmt.Sprint(atOnce)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(m.Run())
}

// TestRows runs each row in a process of its own in new namespaces.
func TestRows(t *testing.T) {
	if *child != "" {
		runChild(t)
		return
	}
	if testing.Short() {
		t.Skip("outages of 10 to 75 seconds")
	}
	if err := available(t); err != nil {
		t.Skipf("%v: install iproute2 and nftables, and run as root", err)
	}
	program := *peerd
	if program == "" {
		var err error
		if program, err = build.Program(t.Context(), "cmd/peerd", t.TempDir()); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range rows() {
		t.Run(r.name, func(t *testing.T) {
			if r.long && !*long {
				t.Skip("-long runs it")
			}
			t.Parallel()
			startChild(t, r, program)
		})
	}
}

// available returns an error if this process cannot create namespaces.
func available(t *testing.T) error {
	err := netns.Run(t.Context(), []string{"true"}, io.Discard, io.Discard)
	if errors.Is(err, netns.ErrUnavailable) {
		return err
	}
	return nil
}

// startChild runs a row and reports what its process printed.
func startChild(t *testing.T, r row, program string) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if *keep != "" {
		if dir, err = filepath.Abs(filepath.Join(*keep, r.name)); err == nil {
			err = os.MkdirAll(dir, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	limit := r.limit()
	ctx, cancel := context.WithTimeout(t.Context(), limit+time.Minute)
	defer cancel()
	var out bytes.Buffer
	begin := time.Now()
	err = netns.Run(ctx, []string{self, "-test.run=^TestRows$", "-test.v",
		"-test.timeout=" + (limit + 2*time.Minute).String(), "-child", r.name, "-peerd", program,
		"-keep", dir, fmt.Sprintf("-long=%t", *long)}, &out, &out)
	text := printed(out.String())
	took := time.Since(begin).Round(time.Second)
	switch {
	case err == nil && r.known == "":
		t.Logf("met after %v\n%s", took, text)
	case err == nil:
		t.Logf("met after %v, but marked as known: %s\n%s", took, r.known, text)
	case r.known != "":
		t.Logf("known: %s; %v after %v\n%s", r.known, err, took, text)
	default:
		t.Errorf("%v after %v\n%s", err, took, text)
	}
}

// printed returns the output of a child without the lines of package testing.
func printed(out string) string {
	var lines []string
	for line := range strings.Lines(out) {
		switch word, _, _ := strings.Cut(line, " "); word {
		case "===", "---", "PASS\n", "FAIL\n":
		default:
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// runChild runs the row of this process.
func runChild(t *testing.T) {
	for _, r := range rows() {
		if r.name != *child {
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), r.limit())
		defer cancel()
		go func() { // runs until the process exits
			_, _ = io.Copy(io.Discard, os.Stdin)
			cancel()
		}()
		for _, fault := range play(ctx, t, r) {
			t.Error(fault)
		}
		return
	}
	t.Fatalf("no row %q", *child)
}
