package events

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// open returns a log in a new file.
func open(t testing.TB, name string, max int64) *Log {
	t.Helper()
	l, err := Open(name, max, Start{Header: Header{Self: "me"}, Version: "v"},
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// read returns all events of a file.
func read(t testing.TB, name string) (all []Event, skipped int) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	r := NewReader(bytes.NewReader(text))
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all, r.Skipped
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
}

// What is added is read again, in order, with its time, its peer and its run.
func TestRoundTrip(t *testing.T) {
	name := filepath.Join(t.TempDir(), "events.jsonl")
	l := open(t, name, 0)
	for _, e := range Kinds()[1:] {
		l.Add(e)
	}
	url := "http://a.example/?x=1&y=<2>"
	l.Add(&Page{URL: url, Took: 1.5})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	all, skipped := read(t, name)
	if len(all) != len(Kinds())+1 || skipped != 0 {
		t.Fatalf("%d events and %d lines skipped, want %d and 0", len(all), skipped,
			len(Kinds())+1)
	}
	var before int64
	for i, e := range all {
		h := e.Head()
		if h.T < before || h.Self != "me" || h.Run == "" || h.Run != all[0].Head().Run {
			t.Errorf("event %d has the header %+v after %d", i, *h, before)
		}
		before = h.T
		if i < len(Kinds()) && reflect.TypeOf(e) != reflect.TypeOf(Kinds()[i]) {
			t.Errorf("event %d is a %T, want a %T", i, e, Kinds()[i])
		}
	}
	if now := time.Now().UnixMicro(); before < now-60e6*60 || before > now {
		t.Errorf("the last time is %d, now is %d", before, now)
	}
	if p := all[len(all)-1].(*Page); p.URL != url || p.Took != 1.5 {
		t.Errorf("the page is %+v", p)
	}
	if text, err := os.ReadFile(name); err != nil || !bytes.Contains(text, []byte(url)) {
		t.Errorf("the file does not contain %s as it is: %v", url, err)
	}
}

// A run of a process that was killed ends with a torn line. The next one begins with a line of its
// own, and nothing else is lost.
func TestTornLine(t *testing.T) {
	name := filepath.Join(t.TempDir(), "events.jsonl")
	l := open(t, name, 0)
	l.Add(&Page{URL: "a"})
	l.write(nil)
	l.Add(&Page{URL: "torn"})
	if _, err := l.file.Write(l.lines[:len(l.lines)-5]); err != nil {
		t.Fatal(err)
	}
	l.file.Close()
	l = open(t, name, 0)
	l.Add(&Page{URL: "b"})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	all, skipped := read(t, name)
	if len(all) != 4 || skipped != 1 || all[3].(*Page).URL != "b" {
		t.Errorf("%d events and %d lines skipped, want 4 and 1", len(all), skipped)
	}
}

// What was added is in the file a second later.
func TestWrittenWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name := filepath.Join(t.TempDir(), "events.jsonl")
		l := open(t, name, 0)
		done := make(chan error, 1)
		go func() { done <- l.Run(t.Context()) }()
		for i := range 10 {
			time.Sleep(333 * time.Millisecond)
			l.Add(&Page{URL: fmt.Sprint(i)})
			added := time.Now()
			time.Sleep(time.Second)
			synctest.Wait()
			all, _ := read(t, name)
			if got := all[len(all)-1].(*Page); got.URL != fmt.Sprint(i) ||
				got.T != added.UnixMicro() {
				t.Fatalf("a second after page %d the file ends with %+v", i, got)
			}
		}
	})
}

// A log ends at its limit with whole lines.
func TestMaxSize(t *testing.T) {
	name := filepath.Join(t.TempDir(), "events.jsonl")
	l := open(t, name, 1000)
	for range 100 {
		l.Add(&Page{URL: strings.Repeat("x", 50)})
		l.write(nil)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(name)
	if err != nil || info.Size() > 1000 || info.Size() < 800 {
		t.Errorf("the file has %d bytes, want at most 1000, and nearly as many", info.Size())
	}
	if all, skipped := read(t, name); len(all) < 5 || skipped != 0 {
		t.Errorf("%d events, %d lines skipped", len(all), skipped)
	}
}

// A write that fails after one that broke off in a line loses the events of the first, and no more.
func TestLostAfterBrokenLine(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "events.jsonl"), 0)
	l.broken = true
	_ = l.file.Close()
	l.Add(&Page{URL: "a"})
	want := int64(bytes.Count(l.lines, []byte("\n")))
	if l.write(nil); l.lost != want {
		t.Errorf("%d events are counted as lost, want %d", l.lost, want)
	}
}

// A disk that cannot be written is logged once, not twice a second.
func TestFailureIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	l, err := Open(filepath.Join(t.TempDir(), "events.jsonl"), 0, Start{},
		slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	_ = l.file.Close()
	for range 3 {
		l.Add(&Page{URL: "a"})
		l.write(nil)
	}
	if n := strings.Count(log.String(), "failed to write"); n != 1 {
		t.Errorf("the failure was logged %d times:\n%s", n, log.String())
	}
}

// A disk that stands still costs events, not memory, and the log says how many.
func TestLost(t *testing.T) {
	name := filepath.Join(t.TempDir(), "events.jsonl")
	l := open(t, name, 0)
	url := strings.Repeat("x", 1<<20)
	for range 12 {
		l.Add(&Page{URL: url})
	}
	if len(l.lines) > maxUnwritten {
		t.Errorf("%d bytes in memory", len(l.lines))
	}
	l.write(nil)
	l.Add(&Page{URL: "later"})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	all, _ := read(t, name)
	lost, ok := all[len(all)-2].(*Lost)
	if want := int64(12 - (len(all) - 3)); !ok || lost.Count != want {
		t.Errorf("the last event but one is %+v, want that %d were lost", all[len(all)-2], want)
	}
}

// A reader skips what it does not know, and refuses a later schema.
func TestReader(t *testing.T) {
	long := `{"t":7,"kind":"page","url":"` + strings.Repeat("x", maxLine) + `"}`
	text := strings.Join([]string{
		`{"t":1,"kind":"lost","count":3,"new":[]}`, "", `{"t":2,"kind":"other"}`, `{"t":3,`,
		`{"t":-1,"kind":"lost"}`, long, `{"t":4,"kind":"lost","count":4}`,
		`{"t":5,"kind":"lost","count":5}`,
	}, "\n")
	r := NewReader(strings.NewReader(text))
	for _, want := range []int64{3, 4, 5} {
		e, err := r.Next()
		if err != nil || e.(*Lost).Count != want {
			t.Fatalf("Next() = %+v, %v, want count %d", e, err, want)
		}
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("Next() at the end = %v", err)
	}
	if r.Skipped != 4 {
		t.Errorf("%d lines skipped, want 4", r.Skipped)
	}
	_, err := NewReader(strings.NewReader(`{"t":1,"kind":"start","schema":2}`)).Next()
	if !errors.Is(err, ErrSchema) {
		t.Errorf("a later schema: %v, want ErrSchema", err)
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte(`{"t":1,"kind":"start","schema":1,"self":"a"}` + "\n" +
		`{"t":2,"kind":"exchange","sent":[1],"received":[2]}` + "\n{"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r := NewReader(bytes.NewReader(text))
		for lines := bytes.Count(text, []byte{'\n'}) + 1; ; lines-- {
			e, err := r.Next()
			if err != nil {
				return
			}
			if h := e.Head(); h.T <= 0 || h.T > maxTime || lines <= 0 {
				t.Fatalf("read %+v", h)
			}
		}
	})
}

func BenchmarkAdd(b *testing.B) {
	l := open(b, filepath.Join(b.TempDir(), "events.jsonl"), 0)
	e := &Fetch{Subnet: "192.0.2.0/24", Outcome: "ok", Status: 200, Bytes: 12345,
		Times: Times{Connect: 1.234, FirstByte: 23.456, Body: 7.89}, Predicted: 30.123}
	b.ReportAllocs()
	for b.Loop() {
		l.Add(e)
		if len(l.lines) > 1<<20 {
			l.lines = l.lines[:0]
		}
	}
}
