//go:build integration

package warc

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// With crashDir, the test binary runs crashChild instead of tests. TestKill sets both.
var (
	crashDir = flag.String("crash-dir", "",
		"directory of an archive to write to until killed (used by TestKill itself)")
	crashFrom = flag.Int("crash-from", 0, "number of the first page of -crash-dir")
)

func init() {
	childMain = func() {
		if *crashDir != "" {
			crashChild(*crashDir, *crashFrom) // never returns
		}
	}
}

// crashChild appends page after page in two goroutines until it is killed, and prints the
// location of each after it was appended.
func crashChild(dir string, from int) {
	a, err := Open(dir, Options{Logger: silent, MinFree: -1, MaxFile: 300 << 10, Info: testInfo})
	if err != nil {
		fmt.Println("open:", err)
		os.Exit(1)
	}
	for g := range 2 {
		go func() {
			for n := from + g; ; n += 2 {
				loc, err := a.Append(page(n, 5000+n%7*4000))
				if err == nil && n%17 == 0 {
					err = a.Sync()
				}
				if err != nil {
					fmt.Println("append:", err)
					os.Exit(1)
				}
				fmt.Println(n, loc.File, loc.Offset, loc.Length, loc.Digest)
			}
		}()
	}
	select {}
}

// An archive contains all pages that were appended by processes that were killed.
func TestKill(t *testing.T) {
	t.Parallel()
	const rounds = 12
	dir := t.TempDir()
	stored := map[int]Location{}
	for round := range rounds {
		for n, loc := range runAndKill(t, dir, round*100000) {
			stored[n] = loc
		}
		if round%3 == 1 { // read before the repair
			r, err := OpenReader(dir)
			if err != nil {
				t.Fatal(err)
			}
			checkStrict(t, copyAll(t, r))
		}
	}
	a := open(t, dir, Options{})
	for n, loc := range stored {
		c, err := a.ReadAt(loc)
		if err != nil {
			t.Fatalf("ReadAt(page %d) = %v", n, err)
		}
		if want := page(n, 5000+n%7*4000); c.URL != want.URL || !bytes.Equal(c.Body, want.Body) {
			t.Fatalf("ReadAt(page %d) returns another page: %s", n, c.URL)
		}
	}
	data := copyAll(t, &a.Reader)
	checkStrict(t, data)
	checkIndexes(t, a)
	t.Logf("%d pages survived %d kills, %d bytes", len(stored), rounds, len(data))
}

// runAndKill runs a child, kills it at a random time after its first line of output, and
// returns the locations that it printed.
func runAndKill(t *testing.T, dir string, from int) map[int]Location {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-crash-dir="+dir, "-crash-from="+strconv.Itoa(from))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := func() { _ = cmd.Process.Kill() } // SIGKILL
	appended := map[int]Location{}
	var timer *time.Timer
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var n int
		var l Location
		if _, err := fmt.Sscan(lines.Text(), &n, &l.File, &l.Offset, &l.Length,
			&l.Digest); err != nil {
			if strings.Contains(lines.Text(), ":") && !strings.Contains(lines.Text(), "sha1:") {
				t.Error(lines.Text())
			}
			continue // incomplete because of the kill
		}
		appended[n] = l
		if timer == nil {
			timer = time.AfterFunc(time.Duration(rand.IntN(60_000))*time.Microsecond, kill)
		}
	}
	if timer == nil {
		t.Fatal("child exited without a line of output")
	}
	timer.Stop()
	kill()
	_ = cmd.Wait()
	return appended
}
