package runner

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"peerd/node/admin"
)

// obeys is a machine on which everything succeeds at once. It notes what was done, and when.
type obeys struct {
	begin time.Time
	done  []string
}

var called = regexp.MustCompile(`(?m)^(begin|act|if runs) (peer-\d+) (\d+)`)

func (o *obeys) Run(_ context.Context, script string, _ io.Reader, out io.Writer) error {
	for _, m := range called.FindAllStringSubmatch(script, -1) {
		word := map[string]string{"begin": "running", "act": "stopped",
			"if runs": `running` + "\t" + `{"directory":3}`}[m[1]]
		fmt.Fprintf(out, "%s\t%s\n", m[2], word)
		if m[1] != "if runs" {
			o.done = append(o.done, fmt.Sprintf("%s %s %s at %s", m[1], m[2], m[3],
				time.Since(o.begin)))
		}
	}
	return nil
}

// hangs is a machine that does not answer.
type hangs struct{}

func (hangs) Run(ctx context.Context, _ string, _ io.Reader, _ io.Writer) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestHang runs a scenario on two machines, of which one hangs: the other one has its steps in
// time.
func TestHang(t *testing.T) {
	f, dir := lab(t, 2, `
[[step]]
at = '0s'
do = 'kill'
of = 100
[[step]]
at = '0s'
do = 'start'
of = 100
`)
	f.Timeout.Duration, f.Look.Duration = time.Minute, 20*time.Second
	f.For.Duration = 10 * time.Minute
	f.Steps[0].At.Duration, f.Steps[1].At.Duration = time.Minute, 2*time.Minute
	// The second step waits for the first one, but not for long.
	follow(t, f, filepath.Join(dir, "steps"), "act peer-000 1 at 1m0s, act peer-001 1 at 1m0s, "+
		"begin peer-000 2 at 2m10s, begin peer-001 2 at 2m10s", "kill:")
	f.Steps = nil
	follow(t, f, filepath.Join(dir, "looks"), "", "no answer to 3 looks")
}

// TestIdle has a peer that answers without work: the crawl is not over while a subnet waits to be
// taken over.
func TestIdle(t *testing.T) {
	f, dir := lab(t, 1, "")
	r, err := open(f, dir, &stopAt{t: t})
	if err != nil {
		t.Fatal(err)
	}
	r.p.Peers[0].State = Running
	for silent, want := range []bool{true, false} {
		r.seen[0] = admin.Status{PagesFetched: 1, SubnetsSilent: silent}
		if got := r.idle(); got != want {
			t.Errorf("with %d copies of subnets with silent owners: idle() = %v", silent, got)
		}
	}
}

// follow follows a scenario, and wants things done on one machine, and the other one left out.
func follow(t *testing.T, f *File, dir, want, why string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		r, err := open(f, dir, &stopAt{t: t})
		if err != nil {
			t.Fatal(err)
		}
		o := &obeys{begin: time.Now()}
		r.machines, r.p.Seeded = []Machine{o, hangs{}}, o.begin
		for _, m := range r.p.Machines {
			m.State = Running
		}
		for _, p := range r.p.Peers {
			p.State, p.Starts = Running, 1
		}
		if err := r.crawl(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(o.done, ", "); got != want {
			t.Errorf("done: %s, want %s", got, want)
		}
		m := r.p.Machines[1]
		if m.State != LeftOut || !strings.HasPrefix(m.Why, why) ||
			r.p.Machines[0].State != Running {
			t.Errorf("the machine that hangs is %s: %s, want %s", m.State, m.Why, why)
		}
		if took := time.Since(o.begin); took != f.For.Duration {
			t.Errorf("the crawl took %s, want %s", took, f.For)
		}
	})
}
