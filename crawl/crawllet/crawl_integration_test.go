//go:build integration

package crawllet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"peerd/crawl/crawllet/record"
)

// agentPackage is the reference crawllet.
const agentPackage = "./agent"

// manual returns a site like a manual: chapters of sections, with the same navigation on each page.
func manual(pages int, seed uint64) map[string]string {
	r := rand.New(rand.NewPCG(seed, 1))
	words := make([]string, 2000)
	for i := range words {
		for range 3 + r.IntN(8) {
			words[i] += string(rune('a' + r.IntN(26)))
		}
	}
	text := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteString(words[int(float64(len(words))*r.Float64()*r.Float64())] + " ")
		}
		return b.String()
	}
	name := func(i int) string {
		if i == 0 {
			return "index.html"
		}
		return fmt.Sprintf("chapter%d/section%d.html", i%17, i)
	}
	files := map[string]string{"robots.txt": "User-agent: *\nDisallow: /private\n"}
	for i := range pages {
		var b strings.Builder
		fmt.Fprintf(&b, "<!DOCTYPE html><html><head><title>Section %d</title>"+
			"<style>body { color: black }</style></head><body><nav>", i)
		for k := range 40 {
			fmt.Fprintf(&b, "<a href=\"/%s\">%s</a>\n", name((i+k*k)%pages), words[k])
		}
		fmt.Fprintf(&b, "<a href=/%s>next</a></nav><h1>%s</h1>", name((i+1)%pages), text(5))
		for range 12 {
			fmt.Fprintf(&b, `<p class="paragraph">%s<a href="https://other.example/%d">%s</a></p>`,
				text(60+r.IntN(150)), r.IntN(1000), text(2))
		}
		b.WriteString("</body></html>")
		files[name(i)] = b.String()
	}
	return files
}

// records runs a job and returns its records.
func (w *world) records(t testing.TB, j Job) ([]record.Record, error) {
	t.Helper()
	r, err := w.client.Run(t.Context(), w.policy, j)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var all []record.Record
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, rec)
	}
}

// larger are limits for whole sites.
func larger(c *Config) {
	c.Limits = Limits{CPU: 60, Memory: 128, Pages: 10_000, Output: 1 << 30, Wall: 120}
}

// The crawllet finds the pages of the site, and reports them as they are.
func TestCrawl(t *testing.T) {
	agent := build(t, agentPackage)
	files := manual(120, 1)
	files["private/p.html"] = "private"
	files["index.html"] += `<a href="private/p.html">p</a><a href="none.html">n</a>` +
		`<a href="chapter1">c</a><a href="page.php">s</a><a href="?q=1">q</a>`
	files["page.php"] = "source"
	w := newWorld(t, files, larger)
	args := Args{Prefix: w.policy.Prefix}
	seeds := []string{w.policy.Prefix}
	got, err := w.records(t, Job{Module: agent, Args: args.List(), Seeds: seeds})
	if err != nil {
		t.Fatal(err)
	}
	status := map[int]int{}
	for _, r := range got {
		status[r.Status]++
		if r.Status != 200 {
			continue
		}
		name := strings.TrimPrefix(r.URL, w.policy.Prefix)
		if name == "" {
			name = "index.html"
		}
		if string(r.Body) != files[name] || r.Type != "text/html" || r.Modified == 0 ||
			!strings.HasPrefix(r.Title, "Section ") {
			t.Errorf("record of %s: type %s, title %q, %d bytes", name, r.Type, r.Title,
				len(r.Body))
		}
	}
	// The index is also linked by its name; chapter1/ has no index.
	if status[200] != 121 || status[301] != 1 || status[404] != 2 {
		t.Errorf("statuses %v, want 121 pages, a redirect, and 2 missing", status)
	}
	t.Run("summaries", func(t *testing.T) {
		args := Args{Prefix: w.policy.Prefix, Summaries: true}
		short, err := w.records(t, Job{Module: agent, Args: args.List(),
			Seeds: []string{w.policy.Prefix}})
		if err != nil || len(short) != len(got) {
			t.Fatalf("%d records, %v, want %d", len(short), err, len(got))
		}
		for i, r := range short {
			if r.Body != nil || r.URL != got[i].URL || !bytes.Equal(r.Digest, got[i].Digest) ||
				r.Status == 200 && (len(r.Text) < 100 || len(r.Links) < 10) {
				t.Errorf("summary of %s: %d bytes, text %q", r.URL, len(r.Body), r.Text)
			}
		}
	})
	t.Run("known", func(t *testing.T) {
		var known []string
		for _, r := range got[1:] {
			known = append(known, r.URL)
		}
		rest, err := w.records(t, Job{Module: agent, Args: args.List(),
			Seeds: []string{w.policy.Prefix}, Known: known})
		if err != nil || len(rest) != 1 || rest[0].URL != w.policy.Prefix {
			t.Errorf("%d records, %v, want only that of the seed", len(rest), err)
		}
	})
	t.Run("since", func(t *testing.T) {
		old := time.Now().Add(-time.Hour)
		for name := range files {
			if err := os.Chtimes(filepath.Join(w.root, name), old, old); err != nil {
				t.Fatal(err)
			}
		}
		changed := filepath.Join(w.root, "chapter1/section1.html")
		if err := os.Chtimes(changed, time.Now(), time.Now()); err != nil {
			t.Fatal(err)
		}
		args := Args{Prefix: w.policy.Prefix, Since: old.Add(time.Minute)}
		part, err := w.records(t, Job{Module: agent, Args: args.List(),
			Seeds: []string{w.policy.Prefix}})
		if err != nil || len(part) != len(got) {
			t.Fatalf("%d records, %v, want %d", len(part), err, len(got))
		}
		for _, r := range part {
			if (r.Status == 200) != strings.HasSuffix(r.URL, "/section1.html") {
				t.Errorf("%s has status %d", r.URL, r.Status)
			}
		}
	})
}

// What a native build of the crawllet writes is what the module writes.
func TestNative(t *testing.T) {
	agent := build(t, agentPackage)
	w := newWorld(t, manual(60, 2), larger)
	args := Args{Prefix: w.policy.Prefix, Summaries: true}.List()
	got := w.run(t, Job{Module: agent, Args: args, Seeds: []string{w.policy.Prefix}})
	if got.err != nil {
		t.Fatal(got.err)
	}
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"run", "-p", "2", agentPackage,
		"-root", w.root}, args...)...)
	cmd.Stdin = strings.NewReader(w.policy.Prefix + "\n\n")
	native, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if string(native) != got.out {
		t.Errorf("native: %d bytes, module: %d bytes, and they differ", len(native), len(got.out))
	}
}

// A module is uploaded once.
func TestUploadedOnce(t *testing.T) {
	agent := build(t, agentPackage)
	w := newWorld(t, manual(3, 3), func(c *Config) { larger(c); c.Cache = t.TempDir() })
	var methods []string
	next := w.server.Config.Handler
	w.server.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		methods = append(methods, r.Method)
		next.ServeHTTP(rw, r)
	})
	args := Args{Prefix: w.policy.Prefix}
	for range 2 {
		if _, err := w.records(t, Job{Module: agent, Args: args.List(),
			Seeds: []string{w.policy.Prefix}}); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"POST", "PUT", "POST", "POST", "POST"}; !slices.Equal(methods, want) {
		t.Errorf("requests %v, want %v", methods, want)
	}
}

// children returns the numbers of processes of this one.
func children(t *testing.T) []string { return childrenOf(t, os.Getpid()) }

func childrenOf(t *testing.T, pid int) []string {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range tasks {
		b, err := os.ReadFile(f)
		if err == nil {
			all = append(all, strings.Fields(string(b))...)
		}
	}
	return all
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not happen", what)
		}
	}
}

// If its process is killed, the client has what was written and knows that it is not all.
func TestKilledProcess(t *testing.T) {
	evil := build(t, "./testdata/evil")
	w := newWorld(t, nil, nil)
	r, err := w.client.Run(t.Context(), w.policy, Job{Module: evil, Args: []string{"cpu"}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	first := make([]byte, 8)
	if _, err := io.ReadFull(r.zstd, first); err != nil || string(first) != "started\n" {
		t.Fatalf("read %q, %v", first, err)
	}
	for _, pid := range children(t) {
		if err := exec.Command("kill", "-9", pid).Run(); err != nil {
			t.Fatal(err)
		}
	}
	_, err = io.ReadAll(r.zstd)
	if err = r.failure(errors.Join(err, io.EOF)); !errors.Is(err, Killed) {
		t.Errorf("error %v, want %v", err, Killed)
	}
}

// The process ends when its host is killed.
func TestKilledHost(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(modulePath(dir), build(t, "./testdata/evil"), 0o600); err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	host := exec.CommandContext(t.Context(), program)
	host.Args = []string{hostName, dir}
	out, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	crawllets := childrenOf(t, host.Process.Pid)
	if len(crawllets) != 1 {
		t.Fatalf("the host has %d processes, want 1", len(crawllets))
	}
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = host.Wait() // it was killed
	waitFor(t, "end of the process", func() bool {
		// A process that has ended may wait for its new parent to read its status.
		stat, err := os.ReadFile("/proc/" + crawllets[0] + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
}

// The process ends when the client goes away.
func TestLostClient(t *testing.T) {
	evil := build(t, "./testdata/evil")
	w := newWorld(t, nil, nil)
	for _, what := range []string{"cpu", "flood"} {
		ctx, cancel := context.WithCancel(t.Context())
		r, err := w.client.Run(ctx, w.policy, Job{Module: evil, Args: []string{what}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(r.zstd, make([]byte, 8)); err != nil {
			t.Fatal(err)
		}
		cancel()
		r.Close()
		waitFor(t, "end of the process", func() bool { return len(children(t)) == 0 })
	}
}

// If the connection breaks, the client has what has arrived, and knows that it is not all.
func TestCutOff(t *testing.T) {
	evil := build(t, "./testdata/evil")
	w := newWorld(t, nil, nil)
	r, err := w.client.Run(t.Context(), w.policy, Job{Module: evil, Args: []string{"cpu"}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.ReadFull(r.zstd, make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	w.server.CloseClientConnections()
	_, err = io.ReadAll(r.zstd)
	if err = r.failure(errors.Join(err, io.EOF)); !errors.Is(err, CutOff) {
		t.Errorf("error %v, want %v", err, CutOff)
	}
}

// More crawllets than the site runs at a time, and more time than it gives in an hour, are refused.
func TestBusy(t *testing.T) {
	evil := build(t, "./testdata/evil")
	w := newWorld(t, nil, func(c *Config) { c.Runs, c.CPUPerHour = 1, 2 })
	job := Job{Module: evil, Args: []string{"cpu"}, Limits: Limits{CPU: 3}}
	first, err := w.client.Run(t.Context(), w.policy, job)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if _, err := io.ReadFull(first.zstd, make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	if got := w.run(t, job); !errors.Is(got.err, Busy) ||
		!strings.Contains(got.err.Error(), "too many") {
		t.Errorf("second run: %v, want %v", got.err, Busy)
	}
	_, err = io.ReadAll(first.zstd)
	if err = first.failure(errors.Join(err, io.EOF)); !errors.Is(err, CPULimit) {
		t.Errorf("first run: %v, want %v", err, CPULimit)
	}
	// Its place is free a moment after its process has ended.
	var last error
	waitFor(t, "end of the first run", func() bool {
		last = w.run(t, job).err
		return last == nil || !strings.Contains(last.Error(), "too many")
	})
	if !errors.Is(last, Busy) || !strings.Contains(last.Error(), "hour") {
		t.Errorf("third run: %v, want %v", last, Busy)
	}
}

// A site that lies about every second page is found out by the sample, and an honest one is not.
// (Of a page in ten, one sample of 400 has none.)
func TestCheck(t *testing.T) {
	agent := build(t, agentPackage)
	files := manual(200, 4)
	w := newWorld(t, files, larger)
	lies := 0
	pages := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body := files[strings.TrimPrefix(r.URL.Path, "/")]
		if r.URL.Path == "/" {
			body = files["index.html"]
		}
		name := strings.TrimSuffix(r.URL.Path, ".html")
		if lies > 0 && strings.Contains("13579", name[len(name)-1:]) {
			body += "."
		}
		_, _ = io.WriteString(rw, body)
	}))
	defer pages.Close()
	fetch := func(ctx context.Context, u string) (int, []byte, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet,
			pages.URL+"/"+strings.TrimPrefix(u, w.policy.Prefix), nil)
		if err != nil {
			return 0, nil, err
		}
		res, err := pages.Client().Do(r)
		if err != nil {
			return 0, nil, err
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		return res.StatusCode, b, err
	}
	all, err := w.records(t, Job{Module: agent, Args: Args{Prefix: w.policy.Prefix,
		Summaries: true}.List(), Seeds: []string{w.policy.Prefix}})
	if err != nil {
		t.Fatal(err)
	}
	for lies = range 2 {
		s := NewSample(SampleSize)
		for _, r := range all {
			s.Add(r)
		}
		got, err := s.Check(t.Context(), fetch)
		if err != nil || got.Same+len(got.Different) != SampleSize ||
			(len(got.Different) > 0) != (lies > 0) {
			t.Errorf("lies %d: %d same, %d different, %v", lies, got.Same, len(got.Different), err)
		}
	}
}
