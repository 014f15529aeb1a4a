package warc

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// crashDir is the environment variable that turns the test binary into a
// process that is going to be killed.
const crashDir = "WARC_CRASH_DIR"

// crashChild appends page after page, from two goroutines, and says on stdout
// what was appended.
func crashChild(dir string) {
	a, err := Open(dir, Options{Logger: silent, MinFree: -1, MaxFile: 300 << 10, Info: testInfo})
	if err != nil {
		fmt.Println("open:", err)
		os.Exit(1)
	}
	begin, _ := strconv.Atoi(os.Getenv("WARC_CRASH_FROM"))
	for g := range 2 {
		go func() {
			for n := begin + g; ; n += 2 {
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

// TestKilled kills a process that appends, again and again in one folder.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	stored := map[int]Location{}
	rounds := 12
	if testing.Short() {
		rounds = 3
	}
	for round := range rounds {
		for n, loc := range killedRun(t, dir, round*100000) {
			stored[n] = loc
		}
		if round%3 == 1 { // a reader before the repair
			r, err := OpenReader(dir)
			if err != nil {
				t.Fatal(err)
			}
			checkStrict(t, whole(t, r))
		}
	}
	a := open(t, dir, Options{})
	for n, loc := range stored {
		c, err := a.ReadAt(loc)
		if err != nil {
			t.Fatalf("%d: %v", n, err)
		}
		if want := page(n, 5000+n%7*4000); c.URL != want.URL || !bytes.Equal(c.Body, want.Body) {
			t.Fatalf("%d: another page", n)
		}
	}
	data := whole(t, &a.Reader)
	checkStrict(t, data)
	checkIndexes(t, a)
	t.Logf("%d pages survived %d kills, %d bytes", len(stored), rounds, len(data))
}

// killedRun runs a child until it has said something, kills it at a random
// moment after, and returns what it had said.
func killedRun(t *testing.T, dir string, from int) map[int]Location {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashDir+"="+dir, "WARC_CRASH_FROM="+strconv.Itoa(from))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := map[int]Location{}
	var timer *time.Timer
	sc := bufio.NewScanner(out)
	for sc.Scan() {
		var n int
		var l Location
		if _, err := fmt.Sscan(sc.Text(), &n, &l.File, &l.Offset, &l.Length, &l.Digest); err != nil {
			if strings.Contains(sc.Text(), ":") && !strings.Contains(sc.Text(), "sha1:") {
				t.Error(sc.Text())
			}
			continue // a line cut by the kill
		}
		said[n] = l
		if timer == nil {
			timer = time.AfterFunc(time.Duration(rand.IntN(60_000))*time.Microsecond, func() { cmd.Process.Kill() })
		}
	}
	if timer == nil {
		t.Fatal("the child said nothing")
	}
	timer.Stop()
	cmd.Process.Kill()
	cmd.Wait()
	return said
}

// TestCutEverywhere cuts a file at every byte of its last records, with its
// whole log (a crash of the machine), and opens it.
func TestCutEverywhere(t *testing.T) {
	src := t.TempDir()
	a := open(t, src, Options{})
	for i := range 2 {
		appendOne(t, a, page(i, 300))
	}
	if err := a.Sync(); err != nil { // a checkpoint
		t.Fatal(err)
	}
	synced := a.live[names(t, src)[1][:len(names(t, src)[1])-len(openSuffix)]].end
	appendOne(t, a, page(2, 300))
	last := appendOne(t, a, page(3, 300))
	if err := a.do((*writer).flush); err != nil {
		t.Fatal(err)
	}
	warc, log := readFile(t, src, openName(last.File)), readFile(t, src, logName(last.File))
	ends := memberEnds(t, warc)
	for cut := 0; cut <= len(warc); cut++ {
		end, _, err := newScanner(bytes.NewReader(warc[:cut]), "x", 0).index(func([]byte) error { return nil })
		if at, whole := slices.BinarySearch(ends, cut); int(end) != append([]int{0}, ends...)[at+btoi(whole)] || whole != (err == nil) && cut > 0 {
			t.Fatalf("cut at %d: whole up to %d, %v", cut, end, err)
		}
	}
	for cut := int(synced) - 40; cut <= len(warc); cut += 37 {
		t.Run(fmt.Sprint(cut), func(t *testing.T) {
			t.Parallel() // each waits for the disk most of the time
			dir := t.TempDir()
			write(t, dir, openName(last.File), warc[:cut])
			write(t, dir, logName(last.File), log)
			a := open(t, dir, Options{})
			want := 0
			for _, e := range ends {
				if e <= cut {
					want = e
				}
			}
			got := readFile(t, dir, last.File)
			if !bytes.Equal(got, warc[:want]) {
				t.Fatalf("cut at %d: %d bytes, want %d; ends %v, synced %d\n%s", cut, len(got), want, ends, synced, log)
			}
			checkIndexes(t, a)
			checkStrict(t, got)
			closeNow(t, a)
		})
	}
}

// TestDamagedLog opens an archive whose log lies in every possible place.
func TestDamagedLog(t *testing.T) {
	src := t.TempDir()
	a := open(t, src, Options{})
	var last Location
	for i := range 3 {
		last = appendOne(t, a, page(i, 100))
		if err := a.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	warc, log := readFile(t, src, openName(last.File)), readFile(t, src, logName(last.File))
	if n := bytes.Count(log, []byte("\n!")); n != 3 {
		t.Fatalf("%d checkpoints in\n%s", n, log)
	}
	closeNow(t, a)
	want := readFile(t, src, indexName(last.File))
	dir := t.TempDir()
	for i := 0; i <= 2*len(log); i += 61 {
		bad := bytes.Clone(log)
		if i <= len(log) {
			bad = bad[:i] // cut
		} else {
			bad[i-len(log)-1] ^= 1 // changed
		}
		write(t, dir, openName(last.File), warc)
		write(t, dir, logName(last.File), bad)
		closeNow(t, open(t, dir, Options{}))
		if got := readFile(t, dir, indexName(last.File)); !bytes.Equal(got, want) {
			t.Fatalf("log damaged at %d: index\n%s\nwant\n%s", i, got, want)
		}
		os.Remove(dir + "/" + last.File)
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func write(t testing.TB, dir, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(dir+"/"+name, b, 0o644); err != nil {
		t.Fatal(err)
	}
}
