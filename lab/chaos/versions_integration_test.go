//go:build integration

package chaos

import (
	"bytes"
	"encoding/json"
	"flag"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"peerd/lab/internal/build"
)

var previous = flag.String("previous", "",
	"the `revision` with which TestTwoVersions compares; the last tag if empty")

// A network of two versions crawls all pages, also when its peers are killed.
func TestTwoVersions(t *testing.T) {
	o := shortRun(t)
	o.Previous = previousProgram(t)
	o.Peers, o.Sites, o.Pages, o.Length, o.Seed = 4, 8, 160, 20*time.Second, 7
	var out, progress bytes.Buffer
	err := Run(t.Context(), o, &out, &progress)
	var r Report
	if jsonErr := json.Unmarshal(out.Bytes(), &r); jsonErr != nil {
		t.Fatalf("Run() = %v and printed %q: %v\n%s", err, out.String(), jsonErr, progress.String())
	}
	t.Logf("%d of %d pages in %d fetches, %d kills", r.PagesFetched, r.PagesExpected, r.Fetches,
		r.Faults[kill])
	if r.PagesFetched != r.PagesExpected || r.Faults[kill] == 0 || r.Politeness.Violations > 0 ||
		len(r.Crashes) > 0 {
		t.Errorf("%d of %d pages, %d kills, %d politeness violations, crashes %q; want all pages "+
			"after some kills, and none of the others\n%s", r.PagesFetched, r.PagesExpected,
			r.Faults[kill], r.Politeness.Violations, r.Crashes, progress.String())
	}
}

// previousProgram builds peerd of the revision that the flag names. It skips the test if there is
// none.
func previousProgram(t *testing.T) string {
	t.Helper()
	root, err := build.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	git := func(args ...string) ([]byte, error) {
		return exec.CommandContext(t.Context(), "git",
			append([]string{"-C", root}, args...)...).CombinedOutput()
	}
	rev := *previous
	if rev == "" {
		tag, err := git("describe", "--tags", "--abbrev=0", "HEAD^")
		if err != nil {
			t.Skip("no tag before this commit: -previous REVISION names another version")
		}
		rev = strings.TrimSpace(string(tag))
	}
	dir := t.TempDir()
	tree, file := filepath.Join(dir, "tree"), filepath.Join(dir, "peerd")
	if text, err := git("worktree", "add", "--detach", tree, rev); err != nil {
		t.Fatalf("git worktree add: %v\n%s", err, text)
	}
	t.Cleanup(func() { // the context of the test has ended
		if err := exec.Command("git", "-C", root, "worktree", "remove", "--force",
			tree).Run(); err != nil {
			t.Error(err)
		}
	})
	cmd := exec.CommandContext(t.Context(), "go", "build", "-C", tree, "-o", file, "./cmd/peerd")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", rev, err, text)
	}
	return file
}
