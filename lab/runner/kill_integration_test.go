//go:build integration

package runner

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"peerd/lab/internal/build"
)

// childFile is the variable with the name of an experiment that TestMain runs.
const childFile = "PEERD_TEST_EXPERIMENT"

// TestMain runs an experiment in a process of its own, which tests kill.
func TestMain(m *testing.M) {
	name := os.Getenv(childFile)
	if name == "" {
		os.Exit(m.Run())
	}
	f, err := Read(name)
	if err == nil {
		err = Run(context.Background(), f, filepath.Join(filepath.Dir(name), "out"), os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// runChild runs an experiment in a process of its own, and kills that at the first message that
// contains a text, or after a time. It returns whether the experiment came to its end.
func runChild(t *testing.T, dir, text string, after time.Duration) bool {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childFile+"="+filepath.Join(dir, "test.toml"))
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if after > 0 {
		defer time.AfterFunc(after, func() { _ = cmd.Process.Kill() }).Stop()
	}
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		t.Log(lines.Text())
		if strings.HasPrefix(lines.Text(), "error:") {
			t.Fatal("the experiment failed")
		}
		if text != "" && strings.Contains(lines.Text(), text) {
			_ = cmd.Process.Kill()
		}
	}
	return cmd.Wait() == nil
}

// TestKills kills the runner with SIGKILL at intervals until the experiment is over.
func TestKills(t *testing.T) {
	_, dir := lab(t, 3, "[[step]]\nat = '0s'\ndo = 'restart'\nof = 100\n")
	runs := 1
	for ; !runChild(t, dir, "", time.Duration(50+20*runs)*time.Millisecond); runs++ {
		if runs > 100 {
			t.Fatal("the experiment makes no progress")
		}
	}
	t.Logf("%d runs", runs)
	if runs < 3 {
		t.Errorf("the runner was killed %d times, want more", runs-1)
	}
	for name, n := range starts(t, dir) {
		if n != 2 {
			t.Errorf("%s was started %d times, want 2", name, n)
		}
	}
	for i, p := range state(t, dir).Peers {
		if p.State != Collected || p.Why != "" {
			t.Errorf("peer %d is %s: %s", i, p.State, p.Why)
		}
	}
}

// TestBusy runs an experiment beside another runner.
func TestBusy(t *testing.T) {
	_, dir := lab(t, 1, "")
	if err := os.MkdirAll(filepath.Join(dir, "out"), 0o755); err != nil {
		t.Fatal(err)
	}
	held, err := lock(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childFile+"="+filepath.Join(dir, "test.toml"))
	if said, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(said),
		ErrBusy.Error()) {
		t.Errorf("got %v and %q, want %v", err, said, ErrBusy)
	}
}

// TestPeers runs an experiment with real peers and emulated links; one machine is reached by ssh
// if there is one. The runner is killed in each phase.
func TestPeers(t *testing.T) {
	dir := t.TempDir()
	program, err := build.Program(t.Context(), "cmd/peerd", dir)
	if err != nil {
		t.Fatal(err)
	}
	second := realSSH(t)
	if second == nil {
		second = Command{"sh", "-c"}
	}
	write(t, filepath.Join(dir, "test.toml"), fmt.Sprintf(`name = 'test'
peerd = '%[2]s'
peers = 2
port = 14301
for = '50s'
until = 'idle'
look = '2s'
[profile]
admission = 'invite'
[emulate]
sites = 6
pages = 60
min_delay = '20ms'
time_scale = 0.2
[settings.overlay]
batch_max_age = '500ms'
unclaimed_age = '500ms'
settle = '500ms'
[[machine]]
command = ['sh', '-c']
dir = '%[1]s/m0'
[[machine]]
command = ['%[3]s']
dir = '%[1]s/m1'
[[step]]
at = '4s'
do = 'kill'
of = 25
[[step]]
at = '7s'
do = 'start'
of = 100
[[step]]
at = '8s'
do = 'mark'
text = 'all run'
`, dir, program, strings.Join(second, "', '")))
	begin := time.Now()
	for _, at := range []string{"checked", "have the program", "started", "know each other",
		"gave the seeds", "kill:", "start:", "mark:", "wrote"} {
		if runChild(t, dir, at, 0) {
			t.Fatalf("the runner survived %q", at)
		}
	}
	if !runChild(t, dir, "", 0) {
		t.Fatal("the experiment did not end")
	}
	t.Logf("%.0f s", time.Since(begin).Seconds())
	p := state(t, dir)
	for i, s := range p.Machines {
		if s.State != Clean {
			t.Errorf("machine %d is %s: %s", i, s.State, s.Why)
		}
		if _, err := os.Stat(filepath.Join(dir, fmt.Sprintf("m%d", i))); err == nil {
			t.Errorf("machine %d is not clean", i)
		}
	}
	total := 0
	for _, s := range p.Peers {
		total += s.Starts
	}
	if total != 5 {
		t.Errorf("%d starts of 4 peers, want 5", total)
	}
	f, err := Read(filepath.Join(dir, "test.toml"))
	if err != nil {
		t.Fatal(err)
	}
	r := &runner{f: f, dir: filepath.Join(dir, "out"), p: &p}
	r.emulation()
	row, _, err := r.judge(filepath.Join(r.dir, "merged.jsonl"))
	if err != nil || row.Coverage != 1 || row.Early > 0 || row.Forbidden > 0 || row.Overlap > 0.05 {
		t.Errorf("judge() = %+v, %v", row, err)
	}
	figures, _ := filepath.Glob(filepath.Join(r.dir, "report", "test.5.*.svg"))
	if len(figures) < 8 {
		t.Errorf("got the figures %v, want those of chapter 5", figures)
	}
}
