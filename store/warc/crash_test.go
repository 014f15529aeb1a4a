package warc

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"testing"
)

// TestCutEverywhere truncates a file at many places of its last records, with the complete
// log, as after a power failure, and opens it.
func TestCutEverywhere(t *testing.T) {
	t.Parallel()
	src := t.TempDir()
	a := open(t, src, Options{})
	for i := range 2 {
		appendOne(t, a, page(i, 300))
	}
	if err := a.Sync(); err != nil { // writes a checkpoint
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
		at, whole := slices.BinarySearch(ends, cut)
		if near := min(at, len(ends)-1); cut%5 > 0 && max(cut-ends[near], ends[near]-cut) > 20 {
			continue // each byte at the end of a member, and each fifth elsewhere
		}
		end, _, err := newScanner(bytes.NewReader(warc[:cut]), "x", 0).index(func([]byte) error {
			return nil
		})
		if want := append([]int{0}, ends...)[at+btoi(whole)]; int(end) != want ||
			whole != (err == nil) && cut > 0 {
			t.Fatalf("cut at %d: records end at %d, %v; members end at %v", cut, end, err, ends)
		}
	}
	for cut := int(synced) - 40; cut <= len(warc); cut += 37 {
		t.Run(fmt.Sprint(cut), func(t *testing.T) {
			t.Parallel() // waits for the disk most of the time
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
				t.Fatalf("repaired file has %d bytes, want %d; ends %v, synced %d\n%s", len(got),
					want, ends, synced, log)
			}
			checkIndexes(t, a)
			checkStrict(t, got)
			closeNow(t, a)
		})
	}
}

// TestDamagedLog opens an archive with a log that is truncated or damaged at many places.
func TestDamagedLog(t *testing.T) {
	t.Parallel()
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
		t.Fatalf("log has %d checkpoints, want 3:\n%s", n, log)
	}
	closeNow(t, a)
	want := readFile(t, src, indexName(last.File))
	dir := t.TempDir()
	for i := 0; i <= 2*len(log); i += 61 {
		bad := bytes.Clone(log)
		if i <= len(log) {
			bad = bad[:i]
		} else {
			bad[i-len(log)-1] ^= 1
		}
		write(t, dir, openName(last.File), warc)
		write(t, dir, logName(last.File), bad)
		closeNow(t, open(t, dir, Options{}))
		if got := readFile(t, dir, indexName(last.File)); !bytes.Equal(got, want) {
			t.Fatalf("log damaged at %d: index is\n%s\nwant\n%s", i, got, want)
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
