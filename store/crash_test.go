package store

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// crashDir is the environment variable that turns the test binary into a
// process that is going to be killed: it names the store's folder.
const crashDir = "STORE_CRASH_DIR"

// crashBatch is the number of URLs in each of the child's transactions.
const crashBatch = 20

// crashChild writes transaction after transaction and says on stdout which
// have been committed. Transaction n queues crashBatch URLs at a host, puts
// one aside, keeps a page whose value goes to the value log, and removes the
// first entry of transaction n-1.
func crashChild(dir string) {
	d, err := Open(dir, small)
	if err != nil {
		fmt.Println("open:", err)
		os.Exit(1)
	}
	for i := range crashSides {
		go crashSide(d, i)
	}
	begin := int(d.Counters().Pages)
	for n := begin; ; n++ {
		if err := d.Batch(func(tx *Tx) error { return crashStep(tx, n) }); err != nil {
			fmt.Println("update:", err)
			os.Exit(1)
		}
		fmt.Println(n) // not buffered: the parent has it although we die
	}
}

// crashSides is the number of callers whose functions share the transactions;
// each queues three URLs at a time at its own host. The first one always gives
// up in the end.
const crashSides = 4

func crashSide(d *DB, i int) {
	name := fmt.Sprintf("side%d", i)
	for n := d.Named()[name]; ; {
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
			fmt.Println("side:", err)
			os.Exit(1)
		}
	}
}

// checkSides asserts that of each side's transactions all is there or nothing.
func checkSides(t *testing.T, d *DB) {
	t.Helper()
	for i := range crashSides {
		name := fmt.Sprintf("side%d", i)
		n := 3 * d.Named()[name]
		if i > 0 == (n == 0) || int64(len(queue(t, d, name))) != n {
			t.Errorf("%s: %d entries, want %d", name, len(queue(t, d, name)), n)
		}
		view(t, d, func(tx *Tx) error {
			h, err := tx.Host(name)
			if i > 0 && (err != nil || h.Pending != n || h.Known != n) || i == 0 && err == nil {
				t.Errorf("%s is %+v, %v; want %d", name, h, err, n)
			}
			return nil
		})
	}
}

func crashStep(tx *Tx, n int) error {
	if n == 0 {
		tx.PutHost(Host{Name: host})
	} else {
		e, err := tx.Peek(host)
		if err != nil {
			return err
		}
		if err := tx.Remove(host, e); err != nil {
			return err
		}
	}
	for i := range crashBatch {
		fresh, err := tx.Push(host, Entry{URL: crashURL(n, i), Depth: 0}, 0)
		if err != nil || !fresh {
			return fmt.Errorf("push %d/%d: new is %v, %w", n, i, fresh, err)
		}
	}
	if _, err := tx.Defer(Pending{URL: URL(fmt.Sprintf("http://b.example/%d", n))}); err != nil {
		return err
	}
	p := bigPage(100)
	p.URL = crashURL(n, 0)
	tx.Count(Counters{Pages: 1})
	return tx.PutPage(p)
}

func crashURL(n, i int) URL { return URL(fmt.Sprintf("http://%s/%d/%d", host, n, i)) }

// A peer that is killed has everything that it has acknowledged, and every
// transaction wholly or not at all; the next run goes on from there.
func TestKill(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	dir := t.TempDir()
	for round := range 6 {
		acked := killed(t, dir, time.Duration(50+rand.IntN(250))*time.Millisecond)
		checkCrashed(t, dir, round, acked)
		if t.Failed() {
			return
		}
	}
}

// killed runs the child for a while from its first words on, kills it, and
// returns the number of transactions that it said were committed in all runs.
func killed(t *testing.T, dir string, life time.Duration) int {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashDir+"="+dir)
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
			break // a line cut short says nothing
		}
		n, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			t.Fatalf("child says %q", line)
		}
		if acked = n; timer == nil {
			timer = time.AfterFunc(life, kill)
		}
	}
	if err := cmd.Wait(); err == nil || acked < 0 {
		t.Fatalf("child ended by itself: %v", err)
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
	checkSides(t, d)
	t.Logf("round %d: %d transactions acknowledged, %d found", round, acked, n)
	if n < acked || n > acked+1 { // the one under way may have made it
		t.Errorf("%d transactions, acknowledged were %d", n, acked)
	}
	checkSteps(t, d, n)
}

// checkSteps asserts that n crashSteps are there, each of them whole.
func checkSteps(t *testing.T, d *DB, n int) {
	t.Helper()
	if n == 0 {
		return
	}
	view(t, d, func(tx *Tx) error {
		h, err := tx.Host(host)
		if err != nil {
			return err
		}
		if want := int64(n*crashBatch - (n - 1)); h.Pending != want || h.Known != int64(n*crashBatch) {
			t.Errorf("host is %+v, want %d pending", h, want)
		}
		first, i := n-1, 0 // as many have been removed from the front
		err = tx.Queue(host, nil, func(e Entry) (bool, error) {
			if want := crashURL((first+i)/crashBatch, (first+i)%crashBatch); e.URL != want {
				t.Errorf("entry %d is %s, want %s", i, e.URL, want)
				return false, nil
			}
			i++
			return true, nil
		})
		if err != nil {
			return err
		}
		if int64(i) != h.Pending {
			t.Errorf("%d entries, %d counted", i, h.Pending)
		}
		pages, seen := 0, 0
		if err := tx.Pages(func(p Page) error { pages += len(p.Links) / 100; return nil }); err != nil {
			return err
		}
		if err := tx.SeenDigests(host, nil, func(Digest) (bool, error) { seen++; return true, nil }); err != nil {
			return err
		}
		waiting, err := tx.DeferredHosts()
		if err != nil {
			return err
		}
		if pages != n || seen != n*crashBatch || len(waiting) != 1 || waiting[0].Count != n {
			t.Errorf("%d pages, %d seen, waiting %+v; want %d transactions' worth", pages, seen, waiting, n)
		}
		return nil
	})
}
