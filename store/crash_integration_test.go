//go:build integration

package store

import (
	"bufio"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// crashDir makes the test binary run crashChild instead of tests. TestKill sets it.
var crashDir = flag.String("crash-dir", "",
	"directory of a store to write to until killed (used by TestKill itself)")

func init() {
	childMain = func() {
		if *crashDir != "" {
			crashChild(*crashDir) // never returns
		}
	}
}

// crashChild commits transaction after transaction until it is killed, and prints the
// number of each after its commit.
func crashChild(dir string) {
	d, err := Open(dir, small)
	if err != nil {
		fmt.Println("open:", err)
		os.Exit(1)
	}
	var begun sync.WaitGroup // each caller has its first transaction before the first is printed
	begun.Add(crashCallers)
	for i := range crashCallers {
		go crashCaller(d, i, begun.Done)
	}
	begun.Wait()
	start := int(d.Counters().Pages)
	for n := start; ; n++ {
		if err := d.Batch(func(tx *Tx) error { return crashStep(tx, n) }); err != nil {
			fmt.Println("update:", err)
			os.Exit(1)
		}
		fmt.Println(n) // not buffered
	}
}

// crashCallers is the number of further callers of Batch that share the transactions.
// Each queues three URLs at a time at its own host; the function of the first always fails.
const crashCallers = 4

func crashCaller(d *DB, i int, begun func()) {
	begun = sync.OnceFunc(begun)
	name := fmt.Sprintf("caller%d", i)
	for n := d.NamedCounters()[name]; ; {
		err := d.Batch(func(tx *Tx) error {
			if _, err := tx.Host(name); err != nil {
				tx.PutHost(Host{Name: name})
			}
			for j := range 3 {
				if _, err := tx.Push(name, Entry{URL: page(name, 3*int(n)+j)}, 0); err != nil {
					return err
				}
			}
			tx.CountNamed(name, 1)
			if i == 0 {
				return errOwn
			}
			return nil
		})
		if err == nil {
			n++
		} else if i > 0 {
			fmt.Println("caller:", err)
			os.Exit(1)
		}
		begun()
	}
}

// checkCallers checks that each transaction of a caller is stored completely or not at all.
func checkCallers(t *testing.T, d *DB) {
	t.Helper()
	for i := range crashCallers {
		name := fmt.Sprintf("caller%d", i)
		n := 3 * d.NamedCounters()[name]
		if i > 0 == (n == 0) || int64(len(queue(t, d, name))) != n {
			t.Errorf("%s has %d entries, want %d", name, len(queue(t, d, name)), n)
		}
		view(t, d, func(tx *Tx) error {
			h, err := tx.Host(name)
			if i > 0 && (err != nil || h.Queued != n || h.Known != n) || i == 0 && err == nil {
				t.Errorf("Host(%q) = %+v, %v, want %d entries", name, h, err, n)
			}
			return nil
		})
	}
}

// A peer that is killed has all transactions that it acknowledged, and each of them is
// stored completely or not at all. The next run continues from there.
func TestKill(t *testing.T) {
	t.Parallel()
	if *engine != "" {
		t.Skip("runs on badger only")
	}
	dir := t.TempDir()
	for round := range 6 {
		acked := runAndKill(t, dir, time.Duration(50+rand.IntN(250))*time.Millisecond)
		checkCrashed(t, dir, round, acked)
		if t.Failed() {
			return
		}
	}
}

// runAndKill runs a child for some time after its first line of output, kills it, and
// returns the number of transactions that were acknowledged in all runs.
func runAndKill(t *testing.T, dir string, after time.Duration) int {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-crash-dir="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := func() { _ = cmd.Process.Kill() } // SIGKILL
	defer kill()
	acked := -1
	var timer *time.Timer
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			break // an incomplete line means nothing
		}
		n, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			t.Fatalf("child printed %q, want a number", line)
		}
		if acked = n; timer == nil {
			timer = time.AfterFunc(after, kill)
		}
	}
	if err := cmd.Wait(); err == nil || acked < 0 {
		t.Fatalf("child exited by itself: %v", err)
	}
	timer.Stop()
	return acked + 1
}

func checkCrashed(t *testing.T, dir string, round, acked int) {
	t.Helper()
	d, err := Open(dir, small)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	n := int(d.Counters().Pages)
	checkCallers(t, d)
	t.Logf("round %d: %d transactions acknowledged, %d found", round, acked, n)
	if n < acked || n > acked+1 { // the last one may have been committed but not printed
		t.Errorf("found %d transactions, want %d or one more", n, acked)
	}
	checkSteps(t, d, n)
}
