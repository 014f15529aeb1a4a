package localsite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"peerd/crawl/canon"
	"peerd/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const site store.URL = "https://docs.example/manual/"

func TestURLs(t *testing.T) {
	for _, c := range []struct {
		file    string
		changed bool
		want    []store.URL
	}{
		{"a.html", true, []store.URL{site + "a.html"}},
		{"index.html", false, []store.URL{site}},
		{"index.html", true, []store.URL{site, site + "index.html"}},
		{"a/b/index.htm", true, []store.URL{site + "a/b/", site + "a/b/index.htm"}},
		{"a b/50%.html", false, []store.URL{site + "a%20b/50%25.html"}},
		{"a?b#c.html", false, []store.URL{site + "a%3Fb%23c.html"}},
		{"é.html", false, []store.URL{site + "%C3%A9.html"}},
		{"\xff.html", false, []store.URL{site + "%FF.html"}},
		{strings.Repeat("a", 3000) + ".html", false, nil},
	} {
		if got := urls(site, c.file, c.changed); !slices.Equal(got, c.want) {
			t.Errorf("urls(%q, %v) = %v, want %v", c.file, c.changed, got, c.want)
		}
	}
}

// Every name of a file yields canonical URLs below the site, and different names different URLs.
func FuzzURLs(f *testing.F) {
	f.Add("a/../b.html", "b.html")
	f.Add("a\\b.html", "a/b.html")
	f.Add("%41.html", "A.html")
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, name := range []string{a, b} {
			if name == "" || !filepath.IsLocal(name) || filepath.Clean(name) != name {
				return
			}
		}
		of := func(name string) store.URL {
			all := urls(site, name, false)
			if len(all) == 0 {
				return ""
			}
			u, err := canon.Parse(string(all[0]))
			if err != nil || u != all[0] || !strings.HasPrefix(string(u), string(site)) {
				t.Errorf("urls(%q) = %q, want a canonical URL below %s", name, all[0], site)
			}
			return u
		}
		if u, v := of(a), of(b); u == v && u != "" && a != b &&
			(!isIndex(filepath.Base(a)) || !isIndex(filepath.Base(b))) {
			t.Errorf("urls of %q and %q are both %q", a, b, u)
		}
	})
}

func TestCheckURL(t *testing.T) {
	for raw, ok := range map[string]bool{
		"https://docs.example/": true, "http://127.0.0.1:8080/a/": true,
		"https://docs.example": false, "https://docs.example/a": false,
		"https://docs.example/?a/": false, "https://DOCS.example/": false,
		"ftp://docs.example/": false, "": false,
	} {
		if err := CheckURL(raw); (err == nil) != ok {
			t.Errorf("CheckURL(%q) = %v, want an error: %v", raw, err, !ok)
		}
	}
}

// ledger is an Announcer that keeps what it was told.
type ledger struct {
	mu       sync.Mutex
	versions map[string]Version
	told     map[store.URL]int // announcements; of pages that have changed 100
	refuse   error
	refused  int

	unreadable int
}

func newLedger() *ledger {
	return &ledger{versions: map[string]Version{}, told: map[store.URL]int{}}
}

func (l *ledger) Versions(store.URL) (map[string]Version, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.versions), nil
}

func (l *ledger) Announce(_ store.URL, changes []Change) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(changes) > maxChanges {
		return errors.New("too many changes at once")
	}
	if l.refuse != nil {
		l.refused++
		return l.refuse
	}
	for _, c := range changes {
		if l.versions[c.Path] = c.Version; c.Version == (Version{}) {
			delete(l.versions, c.Path)
		}
		for _, u := range c.URLs {
			if l.told[u]++; c.Changed {
				l.told[u] += 99
			}
		}
	}
	return nil
}

// Write counts log messages about a document root that could not be read.
func (l *ledger) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "failed to read local site") {
		l.mu.Lock()
		l.unreadable++
		l.mu.Unlock()
	}
	return len(p), nil
}

// take returns what was announced since the last call.
func (l *ledger) take() map[store.URL]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	told := l.told
	l.told = map[store.URL]int{}
	return told
}

// expect waits until these URLs, and no others, were announced since the last call.
func (l *ledger) expect(t *testing.T, what string, want map[store.URL]int) {
	t.Helper()
	got := map[store.URL]int{}
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); {
		maps.Copy(got, l.take())
		if len(got) >= len(want) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if !maps.Equal(got, want) {
		t.Errorf("%s: announced %v, want %v", what, got, want)
	}
}

// until waits for a condition that needs l.mu.
func (l *ledger) until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); {
		l.mu.Lock()
		ok := cond()
		l.mu.Unlock()
		if ok {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s: not within five minutes", what)
}

// run starts a watcher of root, and stops it when the test ends or stop is called.
func run(t *testing.T, root string, l *ledger, rescan time.Duration) (stop func()) {
	t.Helper()
	logs := slog.New(slog.NewTextHandler(l, nil))
	w, err := New(Config{URL: site, Root: root, Announcer: l, Rescan: rescan, Logger: logs})
	if err != nil {
		t.Fatal(err)
	}
	w.quiet = 20 * time.Millisecond
	ctx, done := t.Context(), make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	go func() { done <- w.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// write creates or replaces a file in one step.
func write(t *testing.T, root, name, text string) {
	t.Helper()
	file := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	tmp := filepath.Join(root, ".tmp")
	if err := os.WriteFile(tmp, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp, file); err != nil {
		t.Fatal(err)
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	root, l := t.TempDir(), newLedger()
	write(t, root, "index.html", "1")
	write(t, root, "a/b.html", "1")
	write(t, root, "a/.git/c.html", "1")
	write(t, root, "style.css", "1")
	if err := os.Symlink("/", filepath.Join(root, "away")); err != nil {
		t.Fatal(err)
	}
	stop := run(t, root, l, time.Hour)
	l.expect(t, "first time", map[store.URL]int{site: 1, site + "a/b.html": 1})

	write(t, root, "a/b.html", "two")
	l.expect(t, "changed file", map[store.URL]int{site + "a/b.html": 100})
	write(t, root, "new/deep/c.html", "1")
	l.expect(t, "file in a new directory", map[store.URL]int{site + "new/deep/c.html": 100})
	write(t, root, "new/deep/d.html", "1")
	l.expect(t, "second file there", map[store.URL]int{site + "new/deep/d.html": 100})
	if err := os.Rename(filepath.Join(root, "new"), filepath.Join(root, "old")); err != nil {
		t.Fatal(err)
	}
	l.expect(t, "moved directory", map[store.URL]int{
		site + "new/deep/c.html": 100, site + "new/deep/d.html": 100,
		site + "old/deep/c.html": 100, site + "old/deep/d.html": 100})
	write(t, root, "old/deep/c.html", "two")
	l.expect(t, "changed file below a moved directory", map[store.URL]int{
		site + "old/deep/c.html": 100})
	stop()

	write(t, root, "index.html", "three")
	if err := os.RemoveAll(filepath.Join(root, "old")); err != nil {
		t.Fatal(err)
	}
	run(t, root, l, time.Hour)
	l.expect(t, "changes while no watcher ran", map[store.URL]int{
		site: 100, site + "index.html": 100,
		site + "old/deep/c.html": 100, site + "old/deep/d.html": 100})
}

// A document root that cannot be read has not lost its pages, and is read again.
func TestRootIsAway(t *testing.T) {
	t.Parallel()
	root, l := filepath.Join(t.TempDir(), "root"), newLedger()
	write(t, root, "a.html", "1")
	stop := run(t, root, l, 20*time.Millisecond)
	l.expect(t, "first time", map[store.URL]int{site + "a.html": 1})
	stop()
	if err := os.Rename(root, root+".away"); err != nil {
		t.Fatal(err)
	}
	run(t, root, l, 20*time.Millisecond)
	l.until(t, "the root was read in vain", func() bool { return l.unreadable > 1 })
	write(t, root+".away", "b.html", "1")
	if err := os.Rename(root+".away", root); err != nil {
		t.Fatal(err)
	}
	l.expect(t, "root is back", map[store.URL]int{site + "b.html": 100})
}

// After a failure, further changes do not cause another try at once, as often as there are events.
func TestRetriesWait(t *testing.T) {
	t.Parallel()
	root, l := t.TempDir(), newLedger()
	l.refuse = errors.New("disk full")
	w, err := New(Config{URL: site, Root: root, Announcer: l, Rescan: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	w.versions = map[string]Version{}
	w.rescan()
	write(t, root, "a.html", "1")
	w.note("a.html")
	began := time.Now()
	w.announceBy = began // there have been events for long
	w.announce(t.Context())
	w.note("b.html")
	if l.refused != 1 || w.announceAt.Sub(began) < retryAfter {
		t.Errorf("%d tries, the next after %v; want 1, and %v or more", l.refused,
			w.announceAt.Sub(began), retryAfter)
	}
}

// What could not be announced is announced later.
func TestAnnouncementFails(t *testing.T) {
	t.Parallel()
	root, l := t.TempDir(), newLedger()
	l.refuse = errors.New("disk full")
	name := func(i int) string {
		return strings.Repeat("a", 1+i%20) + "/" + strings.Repeat("b", 1+i/20) + ".html"
	}
	for i := range maxChanges + 1 {
		write(t, root, name(i), "1")
	}
	stop := run(t, root, l, time.Hour)
	l.until(t, "the announcement was refused", func() bool { return l.refused > 0 })
	stop()
	l.refuse = nil
	run(t, root, l, time.Hour)
	want := map[store.URL]int{}
	for i := range maxChanges + 1 {
		want[site+store.URL(name(i))] = 1
	}
	l.expect(t, "after the failure", want)
}

// TestFiles verifies which files are read for a URL: none that is left out.
func TestFiles(t *testing.T) {
	for u, want := range map[store.URL]string{
		site: "index.html index.htm", site + "a/": "a/index.html a/index.htm",
		site + "a/b.html": "a/b.html", site + "a%20b.html": "a b.html", site + "c.xhtml": "c.xhtml",
		// The web server may redirect, or answer with something else.
		site + "index.html": "", site + "a": "", site + "a.php": "", site + "a.html?x": "",
		site + ".git/a.html": ".git/a.html", // is never announced
		site + ".a.html":     "", site + "a%2Fb.html": "", site + "..%2Fa.html": "",
		site + "%2E%2E/a.html": "", site + "/a.html": "", site + "a%00.html": "",
		"http://other.test/a.html": "",
	} {
		if got := strings.Join(Files(site, u), " "); got != want {
			t.Errorf("Files(%s) = %q, want %q", u, got, want)
		}
	}
}

// TestTrivialChanges verifies that changes of numbers, dates and few words are not announced, until
// many of them make a large one.
func TestTrivialChanges(t *testing.T) {
	t.Parallel()
	root, l := t.TempDir(), newLedger()
	page := func(text, rest string) string {
		return "<title>News</title><a href=/a>a</a><p>" + text + rest
	}
	var long strings.Builder
	for i := range 400 {
		fmt.Fprintf(&long, "%c%c%c ", 'a'+i%26, 'a'+i/26, 'a'+i*7%26)
	}
	words := strings.Fields(long.String())
	const short = "There are few words here. "
	write(t, root, "long.html", page(long.String(), "seen 1 times on Monday, 2 March 2026, 10:15"))
	write(t, root, "short.html", page(short, "seen 1 times"))
	run(t, root, l, time.Hour)
	l.expect(t, "first time", map[store.URL]int{site + "long.html": 1, site + "short.html": 1})
	version := func(name string) Version {
		info, err := os.Stat(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return Version{Size: info.Size(), ModTime: info.ModTime().UnixNano()}
	}
	for _, c := range []struct{ what, name, text string }{
		{"counter and date", "long.html",
			page(long.String(), "seen 23456 times on Friday, 13 November 2026, 22:59")},
		{"counter of a short page", "short.html", page(short, "seen 2,345 times")},
		{"markup", "short.html", "<style>p { color: red }</style>" + page(short,
			"seen <b>3</b> times<script>ad()</script>")},
	} {
		write(t, root, c.name, c.text)
		l.until(t, c.what+" is stored", func() bool {
			return l.versions[c.name].sameFile(version(c.name))
		})
		l.expect(t, c.what, map[store.URL]int{})
	}
	for _, c := range []struct{ what, name, text string }{
		{"new link", "long.html", page(long.String(), "<a href=/b>1</a>")},
		{"word", "short.html", page(short, "seen one times")},
		{"what crawlers are told", "short.html",
			"<meta name=robots content=noindex>" + page(short, "seen one times")},
	} {
		write(t, root, c.name, c.text)
		l.expect(t, c.what, map[store.URL]int{site + store.URL(c.name): 100})
	}
	// One word after the other is replaced. The page is announced now and then.
	for i := range 60 {
		words[i] = "new" + words[i]
		write(t, root, "long.html", page(strings.Join(words, " "), "<a href=/b>1</a>"))
		l.until(t, "the change is stored", func() bool {
			return l.versions["long.html"].sameFile(version("long.html"))
		})
	}
	n := l.take()[site+"long.html"]
	t.Logf("60 changes of a word in 400 were announced %d times", n/100)
	if n == 0 || n > 60*100/2 {
		t.Errorf("60 changes of a word were announced %d times, want some", n/100)
	}
}
