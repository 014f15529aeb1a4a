package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"peerd/lab/emulate/web"
	"peerd/node/config"
	"peerd/node/events"
)

// standIn takes the place of peerd: a script that knows the commands that a runner needs. "run"
// adds a line to the file starts beside the home, and an event log with a page.
const standIn = `#!/bin/sh
c=$1; shift
for a; do [ "$last" = --home ] && home=$a; last=$a; done
case $c in
version) echo "peerd stand-in" ;;
init)
	mkdir -p "$home"
	echo "created peer 12D3KooWEyoppNCUx8Yx66oV9fJnriXwCcXwDDUA2kj6vnc6iDEp in $home" ;;
run)
	trap 'exit 0' TERM
	echo $$ >>"$home/../starts"
	t=$(date +%s)
	echo '{"t":'$t'000000,"kind":"start","self":"p","run":"'$$'","schema":1,"strategy":"proxy"}
{"t":'$t'000001,"kind":"page","url":"http://'$$'.test/","outcome":"ok","took_ms":5}' \
		>>"$home/events.jsonl"
	while :; do sleep 1 & wait $!; done ;;
status) echo '{"directory":100,"pages_fetched":1,"health":{"state":"idle"}}' ;;
stop) kill "$(cat "$home"/../start.*/pid | tail -n 1)" ;;
seed) cat >>"$home/../../seeds" ;;
*) : ;;
esac
`

// lab returns an experiment with local machines of two peers each, in folders of their own.
func lab(t *testing.T, machines int, more string) (f *File, dir string) {
	t.Helper()
	dir = t.TempDir()
	write(t, filepath.Join(dir, "peerd"), standIn)
	var b strings.Builder
	b.WriteString("name = 'test'\npeers = 2\nseeds = ['http://a.test/']\nfor = '1s'\nlook = '1s'\n" +
		"timeout = '30m'\nkeep = true\nfan_out = 1\n")
	b.WriteString("[profile.scope]\nmode = 'any'\n[settings]\ncontact = 'https://example.org/'\n")
	for i := range machines {
		fmt.Fprintf(&b, "[[machine]]\ncommand = ['sh', '-c']\ndir = '%s/m%d'\nport = %d\n", dir, i,
			4200+10*i)
	}
	write(t, filepath.Join(dir, "test.toml"), b.String()+more)
	f, err := Read(filepath.Join(dir, "test.toml"))
	if err != nil {
		t.Fatal(err)
	}
	f.For = config.Duration{Duration: 300 * time.Millisecond}
	f.Look = config.Duration{Duration: 50 * time.Millisecond}
	t.Cleanup(func() { // whatever happened
		for i := range machines {
			_ = Command{"sh", "-c"}.Run(context.Background(), fmt.Sprintf(
				"cd %s/m%d && kill -9 $(cat */starts) 2>/dev/null", dir, i), nil, nil)
		}
	})
	return f, dir
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// starts returns how often each peer was started.
func starts(t *testing.T, dir string) map[string]int {
	t.Helper()
	all := map[string]int{}
	files, _ := filepath.Glob(filepath.Join(dir, "m*", "peer-*", "starts"))
	for _, f := range files {
		all[filepath.Base(filepath.Dir(f))] = strings.Count(read(t, f), "\n")
	}
	return all
}

func state(t *testing.T, dir string) (p progress) {
	t.Helper()
	text := read(t, filepath.Join(dir, "out", stateFile))
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestRun runs an experiment with three machines; a fourth refuses.
func TestRun(t *testing.T) {
	t.Parallel()
	f, dir := lab(t, 3, `
[[machine]]
name = 'refuses'
command = ['sh', '-c', 'echo no entry >&2; exit 5']
[[step]]
at = '1ms'
do = 'kill'
of = 40
[[step]]
at = '2ms'
do = 'start'
of = 100
[[step]]
at = '3ms'
do = 'restart'
of = 50
`)
	said := &stopAt{t: t}
	if err := Run(t.Context(), f, filepath.Join(dir, "out"), said); err != nil {
		t.Fatalf("%v\n%s", err, &said.all)
	}
	p := state(t, dir)
	for i, want := range []State{Collected, Collected, Collected, LeftOut} {
		if got := p.Machines[i].State; got != want {
			t.Errorf("machine %d is %s (%s), want %s", i, got, p.Machines[i].Why, want)
		}
	}
	if why := p.Machines[3].Why; !strings.Contains(why, "no entry") {
		t.Errorf("the machine that refuses was left out because %q", why)
	}
	total := 0
	for name, n := range starts(t, dir) {
		if total += n; n > 3 {
			t.Errorf("%s was started %d times", name, n)
		}
	}
	if want := 6 + 2 + 3; total != want { // 40 % of 6 were killed, and 50 % restarted
		t.Errorf("%d starts, want %d\n%s", total, want, &said.all)
	}
	if page := read(t, filepath.Join(dir, "out", "report", "report.html")); !strings.Contains(page,
		"politeness_violations") {
		t.Error("the report lacks the politeness")
	}
}

// TestClean has machines cleaned up by a later run, of which one was half done.
func TestClean(t *testing.T) {
	t.Parallel()
	f, dir := lab(t, 2, "")
	f.Keep = false
	s := &stopAt{t: t, text: "wrote"}
	ctx, stop := context.WithCancel(t.Context())
	s.stop = stop
	if err := Run(ctx, f, filepath.Join(dir, "out"), s); err == nil {
		t.Fatal("the run was not interrupted before it cleaned up")
	}
	for _, gone := range []string{"peerd", "peer-002", "peer-003", "experiment"} {
		if err := os.RemoveAll(filepath.Join(dir, "m1", gone)); err != nil {
			t.Fatal(err)
		}
	}
	if err := Run(t.Context(), f, filepath.Join(dir, "out"), &stopAt{t: t}); err != nil {
		t.Fatal(err)
	}
	for _, m := range []string{"m0", "m1"} {
		if _, err := os.Stat(filepath.Join(dir, m)); err == nil {
			t.Errorf("%s is not clean", m)
		}
	}
	write(t, filepath.Join(dir, "file"), "of something else")
	if err := (Command{"sh", "-c"}).Run(t.Context(), place{dir: dir, id: "x"}.clean(), nil,
		nil); err == nil {
		t.Error("a directory of something else was removed")
	}
	if err := (Command{"sh", "-c"}).Run(t.Context(), place{dir: dir, id: "x"}.claim(), nil,
		nil); err == nil {
		t.Error("a directory of something else was taken")
	}
}

// A machine is clean for a runner that goes on after one that was killed while its script ran.
func TestCleanTwice(t *testing.T) {
	t.Parallel()
	p := place{dir: filepath.Join(t.TempDir(), "machine"), id: "x"}
	for range 30 {
		if err := os.MkdirAll(filepath.Join(p.dir, "peer-000"), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(p.dir, "experiment"), "x")
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if err := (Command{"sh", "-c"}).Run(t.Context(), p.clean(), nil, nil); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if _, err := os.Stat(p.dir); err == nil {
			t.Fatal("it is not clean")
		}
	}
}

// TestJudge judges merged event logs.
func TestJudge(t *testing.T) {
	j := judge{gap: time.Second, hosts: map[string]visit{}, pages: map[string]bool{},
		checks: map[string]int{}, waiting: map[string]int64{}}
	page := func(self string, ms, took float64, bound int64, url string) {
		e := &events.Page{URL: url, Took: took}
		e.Self, e.T, e.Bound = self, int64(ms*1000), bound
		_ = j.add(e)
	}
	page("a", 1000, 100, 5000, "http://x/1")
	page("a", 2200, 100, 5000, "http://x/2") // began at 2.1 s, 1.1 s after the first ended
	page("a", 3200, 100, 5000, "http://x/3") // 0.9 s: early
	page("b", 4295, 100, 5000, "http://x/4") // 0.995 s by another clock: within the bounds
	page("b", 4400, 100, 5000, "http://y/1") // another host
	page("a", 5200, 100, 5000, "http://x/4") // repeated, and early
	page("a", 5300, 10, -1, "http://y/1")    // not comparable
	again := &events.Page{URL: "http://y/1", Took: 10, Check: true}
	again.Self, again.T, again.Bound = "a", 7_000_000, 5000
	_ = j.add(again)
	s := &events.State{Queued: 1, Outbox: 2}
	s.Self = "a"
	_ = j.add(s)
	row := j.row()
	if row.Pages != 5 || row.Expected != 8 || row.Early != 2 || row.Coverage != 0.625 ||
		row.Overlap != 0.6 || row.Unmeant != 0.4 || row.Comparable != 5.0/6 || row.P50 != 100 {
		t.Errorf("row() = %+v", row)
	}
	var hits []web.Hit
	for _, path := range []string{"/1", "/2", "/1", "/robots.txt", "/1", "/robots.txt", "/2"} {
		hits = append(hits, web.Hit{Host: "y", Path: path, Page: path != "/robots.txt"})
	}
	if n := j.unmeant(hits); n != 2 { // of three repetitions one was the check
		t.Errorf("%d pages were fetched again without a reason, want 2", n)
	}
}

// TestStart begins the same start several times at once, and again later: one process runs.
func TestStart(t *testing.T) {
	t.Parallel()
	f, dir := lab(t, 1, "")
	p := place{dir: f.Machines[0].Dir, id: "x"}
	machine := Command(f.Machines[0].Command)
	do := func(script string) string {
		var out bytes.Buffer
		if err := machine.Run(t.Context(), script, nil, &out); err != nil {
			t.Error(err)
		}
		return out.String()
	}
	do(p.claim() + "cp " + quote(f.Peerd) + " peerd\n" + home("peer-000", "", runFile(
		`run --home "$PWD/peer-000/home"`)))
	var wg sync.WaitGroup
	begin := p.enter() + start([]string{"peer-000"}, []int{1})
	for range 5 {
		wg.Go(func() {
			if said := do(begin); said != "peer-000\trunning\n" {
				t.Errorf("a start printed %q", said)
			}
		})
	}
	wg.Wait()
	if said := do(p.enter() + act(Step{Do: "quit"}, 0, []string{"peer-000"},
		[]int{1})); said != "peer-000\tstopped\n" {
		t.Errorf("the end printed %q", said)
	}
	if said := do(begin); !strings.HasPrefix(said, "peer-000\tgone") {
		t.Errorf("a start that had ended printed %q", said)
	}
	if n := starts(t, dir)["peer-000"]; n != 1 {
		t.Errorf("%d processes, want 1", n)
	}
}

// TestGive has a machine give the program to others, by all ways to reach them.
func TestGive(t *testing.T) {
	t.Parallel()
	f, dir := lab(t, 1, "")
	write(t, filepath.Join(dir, "peerd"), standIn+strings.Repeat("# padding\n", 20_000))
	for name, c := range reached(t) {
		f.Machines = append(f.Machines, MachineSpec{Name: name, Command: c,
			Dir: filepath.Join(dir, name)})
	}
	f.Machines = append(f.Machines, MachineSpec{Name: "x", Command: []string{"false"},
		Dir: dir + "/x"})
	r, err := open(f, dir, &stopAt{t: t})
	if err == nil {
		err = r.check(t.Context())
	}
	if err == nil {
		err = r.put(t.Context(), 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	for m, spec := range f.Machines[1:] {
		if err := r.give(t.Context(), 0, m+1); (err == nil) != (spec.Name != "x") {
			t.Errorf("give it to %s: %v", spec.Name, err)
		} else if err == nil && read(t, filepath.Join(spec.Dir, "peerd")) != read(t, f.Peerd) {
			t.Errorf("%s got another program", spec.Name)
		}
	}
}

// stopAt is a writer that ends a context at a line that contains a text.
type stopAt struct {
	t    *testing.T
	text string
	stop func()
	all  strings.Builder
}

func (s *stopAt) Write(b []byte) (int, error) {
	s.t.Logf("%s", b)
	if s.text != "" && strings.Contains(string(b), s.text) {
		s.stop()
	}
	return s.all.Write(b)
}

// TestContinue interrupts a run at each of its messages. In the end each peer has run as often as
// without interruption.
func TestContinue(t *testing.T) {
	t.Parallel()
	f, dir := lab(t, 2, "[[step]]\nat = '1ms'\ndo = 'restart'\nof = 100\n")
	for _, at := range []string{"checked", "have the program", "started", "gave the seeds",
		"restart", "peers answered", ""} {
		ctx, stop := context.WithCancel(t.Context())
		s := &stopAt{t: t, text: at, stop: stop}
		if f.For.Duration = time.Hour; at == "" {
			f.For.Duration = time.Millisecond
		}
		err := Run(ctx, f, filepath.Join(dir, "out"), s)
		stop()
		if (err == nil) != (at == "") {
			t.Fatalf("interrupted at %q: %v\n%s", at, err, &s.all)
		}
	}
	p := state(t, dir)
	for name, n := range starts(t, dir) {
		if n != 2 {
			t.Errorf("%s was started %d times, want 2", name, n)
		}
	}
	for i, peer := range p.Peers {
		if peer.State != Collected || peer.Starts != 2 || peer.Why != "" {
			t.Errorf("peer %d is %s after %d starts (%s), want %s after 2", i, peer.State,
				peer.Starts, peer.Why, Collected)
		}
	}
	if p.Resumed != 6 {
		t.Errorf("continued %d times, want 6", p.Resumed)
	}
	if _, err := open(&File{Peerd: f.Peerd, digest: "other"}, filepath.Join(dir, "out"),
		&strings.Builder{}); err == nil {
		t.Error("another experiment may use the directory")
	}
}
