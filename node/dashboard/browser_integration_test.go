//go:build integration

package dashboard_test

import (
	"context"
	_ "embed" // accessibility.js
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"peerd/node/admin"
	"peerd/node/dashboard"
)

var (
	screenshots = flag.String("screenshots", "", "directory for a picture of each view")
	firstView   = flag.Duration("first-view", 0, "fail if the first view takes longer; 0: only log")
)

// browser is a browser that is logged in at a generated peer.
type browser struct {
	ctx    context.Context
	peer   *generated
	client *admin.Client
	base   string

	mu       sync.Mutex
	problems []string // messages of the console, and failed requests
	bytes    float64  // received
}

// patience limits a test. It only ends one that hangs: drawing in software takes minutes on a busy
// machine.
const patience = 15 * time.Minute

// open starts a server with 1,000 peers and 10,000 subnets, and a browser.
func open(t *testing.T) *browser {
	t.Helper()
	return openWith(t, generate(1000, 10_000, 1))
}

// openWith is open for another peer.
func openWith(t *testing.T, n *generated) *browser {
	t.Helper()
	b := openAt(t, serve(t, n))
	b.peer = n
	return b
}

// openAt starts a browser for the server with an api.json.
func openAt(t *testing.T, file string) *browser {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		t.Skip("browser tests are skipped: no chromium found; on Debian: apt-get install chromium")
	}
	// Some systems have a script in its place that only tells how to install it.
	version := exec.CommandContext(t.Context(), program, "--version")
	if out, err := version.CombinedOutput(); err != nil {
		t.Skipf("browser tests are skipped: %s --version: %v\n%s", program, err, out)
	}
	b := &browser{}
	var err error
	if b.client, err = admin.Dial(file); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	ctx, cancelAll := chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.WSURLReadTimeout(patience))...)
	t.Cleanup(cancelAll)
	ctx, cancelTab := chromedp.NewContext(ctx)
	t.Cleanup(cancelTab)
	b.ctx = ctx
	b.run(t, send(network.Enable, network.EnableParams{}), send(runtime.Enable, cdp.Empty{}),
		send(log.Enable, cdp.Empty{}))
	if err := chromedp.Listen(ctx, b.observe); err != nil {
		t.Fatal(err)
	}
	return b
}

// serve runs a server until the end of the test, and returns its api.json.
func serve(t *testing.T, n admin.Node) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "api.json")
	s, err := admin.Listen(admin.Config{Addr: "127.0.0.1:0", File: file, Node: n,
		Dashboard: dashboard.Handler(),
		Metrics:   promhttp.HandlerFor(prometheus.NewRegistry(), promhttp.HandlerOpts{})})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	for {
		if _, err := os.Stat(file); err == nil {
			return file
		}
		select {
		case err := <-done:
			t.Fatal(err)
		case <-time.After(time.Millisecond):
		}
	}
}

func (b *browser) observe(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.problems = append(b.problems, fmt.Sprintf("%+v", e.ExceptionDetails))
	case *runtime.EventConsoleAPICalled:
		if e.Type == "error" || e.Type == "warning" {
			b.problems = append(b.problems, fmt.Sprintf("console: %v", e.Args))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == "error" || e.Entry.Level == "warning" {
			b.problems = append(b.problems, e.Entry.Text+" "+e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		if u := e.Request.URL; b.base != "" && !strings.HasPrefix(u, b.base) &&
			!strings.HasPrefix(u, "blob:") && !strings.HasPrefix(u, "data:") {
			b.problems = append(b.problems, "request to another server: "+u)
		}
	case *network.EventDataReceived:
		b.bytes += float64(e.EncodedDataLength)
	}
}

// check fails the test if there was a problem since the last call.
func (b *browser) check(t *testing.T, where string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.problems {
		t.Errorf("%s: %s", where, p)
	}
	b.problems = nil
}

// send returns an action that sends a command of the protocol.
func send[P any](c cdp.Command[P, cdp.Empty], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, c, params)
		return err
	})
}

// until returns an action that waits until an expression of JavaScript is true.
func until(expression string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := chromedp.Poll[bool]("Boolean("+expression+")",
			chromedp.WithPollingTimeout(0))(ctx, target)
		return err
	})
}

func (b *browser) run(t *testing.T, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		t.Fatalf("%v; problems of the page: %q", err, b.problems)
	}
}

// login opens the dashboard with a new code.
func (b *browser) login(t *testing.T) {
	t.Helper()
	url, err := b.client.DashboardURL(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.base, _, _ = strings.Cut(url, "dashboard/")
	b.run(t, chromedp.Navigate(url), chromedp.WaitVisible(`main[data-view=overview]`))
}

// show opens a view by its link.
func (b *browser) show(t *testing.T, view string) {
	t.Helper()
	b.run(t, chromedp.Click(`nav a[href="#`+view+`"]`),
		chromedp.WaitVisible(`main[data-view="`+view+`"]`))
	b.settle(t)
}

// settle waits until the page has shown what it has fetched.
func (b *browser) settle(t *testing.T) {
	t.Helper()
	b.run(t, until(`![...document.querySelectorAll('[role=cell]')].some(c => c.textContent === '…')
		&& [...document.querySelectorAll('.table')].every(x => x.hasAttribute('aria-rowcount'))`))
}

// text returns the text of an element.
func (b *browser) text(t *testing.T, selector string) string {
	t.Helper()
	return eval[string](t, b, "document.querySelector(`"+selector+"`).innerText")
}

// eval evaluates an expression of JavaScript.
func eval[T any](t *testing.T, b *browser, expression string) T {
	t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// accessibility lists faults: controls without names, images without texts, rows outside of
// tables, text with a contrast below 4.5 (WCAG 2.2, 1.4.3), and contents wider than the page.
//
//go:embed testdata/accessibility.js
var accessibility string

var allViews = []string{"overview", "map", "peers", "subnets", "moves", "queue", "pages", "search",
	"gain", "limits", "denied", "events"}

// TestViews opens every view at three widths, in light and dark.
func TestViews(t *testing.T) {
	b := open(t)
	b.login(t)
	for i, width := range []int64{390, 820, 1440} {
		scheme := []string{"light", "dark", "light"}[i]
		b.run(t, chromedp.EmulateViewport(width, 900), send(emulation.SetEmulatedMedia,
			emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
				{Name: "prefers-color-scheme", Value: scheme}}}))
		for _, view := range append(allViews, "ask/example.org") {
			name := fmt.Sprintf("%s-%d-%s", strings.ReplaceAll(view, "/", "-"), width, scheme)
			if of, ok := strings.CutPrefix(view, "ask/"); ok {
				b.ask(t, of)
			} else {
				b.show(t, view)
			}
			for _, fault := range eval[[]string](t, b, accessibility) {
				t.Errorf("%s: %s", name, fault)
			}
			b.check(t, name)
			b.picture(t, name)
		}
	}
}

// TestReplayLink checks where the pages of the list lead to.
func TestReplayLink(t *testing.T) {
	b := open(t)
	b.login(t)
	b.show(t, "pages")
	p := b.peer.RecentPages()[0]
	link := eval[[]string](t, b, `(() => {
		const all = [...document.querySelectorAll('main a')];
		const a = all.find((a) => a.textContent === '`+p.URL+`');
		return a ? [a.href, a.target, a.rel] : [];
	})()`)
	stamp := p.FetchedAt.UTC().Format("20060102150405")
	want := []string{"http://127.0.0.1:8090/web/" + stamp + "/" + p.URL, "_blank", "noreferrer"}
	if !slices.Equal(link, want) {
		t.Errorf("a page leads to %q, want %q", link, want)
	}
	b.check(t, "pages")
}

func (b *browser) picture(t *testing.T, name string) {
	t.Helper()
	if *screenshots == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(os.MkdirAll(*screenshots, 0o755),
		os.WriteFile(filepath.Join(*screenshots, name+".png"), png, 0o644))
	if err != nil {
		t.Fatal(err)
	}
}

// ask enters a host at the top of the page.
func (b *browser) ask(t *testing.T, of string) {
	t.Helper()
	b.run(
		t,
		chromedp.SetValue("#ask-host", of),
		chromedp.Click("#ask button"),
		chromedp.WaitVisible(
			"main[data-view=ask] h2",
		),
		until(`document.querySelector('main h3, main .note')?.textContent.includes("`+of+`")`),
	)
}

// TestFirstView measures the first view: from the begin of the navigation until it is in the page,
// and what was received. The median of five times counts.
func TestFirstView(t *testing.T) {
	b := open(t)
	b.login(t) // starts the processes of the browser
	var times []time.Duration
	received := 0.0
	for range 5 {
		b.mu.Lock()
		b.bytes = 0
		b.mu.Unlock()
		b.run(t, send(network.ClearBrowserCache, cdp.Empty{}), chromedp.Navigate("about:blank"))
		url, err := b.client.DashboardURL(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b.run(t, chromedp.Navigate(url), until(`document.querySelector('main[data-view] #disk')`))
		shown := eval[float64](t, b, `performance.getEntriesByName('shown')[0].startTime`)
		times = append(times, time.Duration(shown)*time.Millisecond)
		b.mu.Lock()
		received = max(received, b.bytes)
		b.mu.Unlock()
	}
	slices.Sort(times)
	t.Logf("the first view took %v and at most %.0f bytes", times, received)
	if received > 300e3 {
		t.Errorf("received %.0f bytes, want at most 300,000", received)
	}
	if *firstView > 0 && times[2] > *firstView {
		t.Errorf("the first view took %v, want at most %v in the median", times, *firstView)
	}
	b.check(t, "first view")
}

// TestQuestions follows the clicks that docs/dashboard.md gives for five questions.
func TestQuestions(t *testing.T) {
	b := open(t)
	b.login(t)
	b.run(t, chromedp.EmulateViewport(1280, 900))
	contains := func(question, text string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("%s: got %q, want %q in it", question, text, part)
			}
		}
	}
	contains("is my peer healthy", b.text(t, "#health"),
		"Crawling: 2481003 URLs are waiting")
	contains("what needs attention", b.text(t, "#warnings"), "bandwidth")
	contains("when is the disk full", b.text(t, "#disk"), "in about 31 days")

	b.ask(t, "example.org")
	contains("who owns example.org", b.text(t, "main"), "172.16.4.0/24",
		"Another peer is the owner", "right", "(owner)")
	b.ask(t, "unknown.example")
	contains("who owns an unknown host", b.text(t, "main"), "has no address")
	b.mu.Lock()
	b.problems = nil // the browser logs the status 400
	b.mu.Unlock()

	b.show(t, "moves")
	contains("what moved last, and was it right",
		b.text(t, `main [role=row][aria-rowindex="2"]`), b.peer.Moves()[0].Subnet, "right")
	b.show(t, "gain")
	contains("what does the strategy gain", b.text(t, "#gain"), "59 % less time", "16 % less")
	b.show(t, "limits")
	contains("what limits me now", b.text(t, "#limits .warn"), "bandwidth", "limits now",
		"raise crawl.bandwidth")
}

// TestTables scrolls, sorts and searches in 10,000 rows, of which few are in the page at a time.
func TestTables(t *testing.T) {
	b := open(t)
	b.login(t)
	b.run(t, chromedp.EmulateViewport(1280, 900))
	b.show(t, "subnets")
	last := b.peer.Subnets()[9999].Subnet
	rows := `document.querySelectorAll('.rows [role=row]').length`
	if n := eval[int](t, b, rows); n < 10 || n > 60 {
		t.Errorf("%d rows are in the page, want 10 to 60", n)
	}
	eval[any](t, b, `document.querySelector('.table').focus()`)
	b.run(t, chromedp.KeyEvent(kb.End),
		until(`document.querySelector('.rows').textContent.includes('`+last+`')`))
	if n := eval[int](t, b, rows); n > 60 {
		t.Errorf("%d rows are in the page at the end", n)
	}
	eval[any](t, b, `[...document.querySelectorAll('.head button')].find(x =>
		x.textContent === 'URLs').click()`)
	b.settle(t)
	order := eval[string](t, b, `document.querySelectorAll('[role=columnheader]')[4].ariaSort`)
	least := eval[string](t, b,
		`document.querySelectorAll('.rows [role=row]')[0].children[4].textContent`)
	if order != "ascending" || len(least) != 1 {
		t.Errorf("sorted by URLs: %s, the first row has %s", order, least)
	}
	b.run(t, chromedp.SendKeys(`.tools input`, "10.39.15."),
		until(`document.querySelector('.count').textContent === '1 row'`))
	b.check(t, "tables")
}

// TestMap finds a peer on the map, and saves it.
func TestMap(t *testing.T) {
	b := open(t)
	b.login(t)
	b.run(t, chromedp.EmulateViewport(1280, 900))
	b.show(t, "map")
	id := b.peer.Peers()[7].PeerID
	b.run(t, chromedp.SendKeys(".map input[type=search]", id),
		until(`document.querySelector('.told').textContent.includes("`+id+`")`))
	for _, kind := range []string{"SVG", "PNG"} {
		b.run(t, chromedp.Click(`button[title="Save as `+kind+`"]`), until(
			`document.querySelector('.told').textContent.startsWith("Saved peerd-map.`+
				strings.ToLower(kind)+`")`))
	}
	b.check(t, "map")
}

// TestEarth shows the map by places on Earth, without what has none.
func TestEarth(t *testing.T) {
	b := open(t)
	b.login(t)
	b.run(t, chromedp.EmulateViewport(1280, 900))
	b.show(t, "map")
	choose := func(selector, value, event string) {
		t.Helper()
		eval[any](t, b, `(() => { const e = document.querySelector('`+selector+`');
			e.value = '`+value+`'; e.dispatchEvent(new Event('`+event+`')); })()`)
	}
	choose(".map select", "earth", "change")
	located := 0
	for _, s := range b.peer.Servers() {
		if s.Earth != nil {
			located++
		}
	}
	if located == 0 || located == len(b.peer.Servers()) {
		t.Fatalf("%d of %d servers have a place", located, len(b.peer.Servers()))
	}
	lost := b.peer.Servers()[0].Subnet // the first of ten has no place
	b.run(t, chromedp.SendKeys(".map input[type=search]", lost), until(
		`document.querySelector('.told').textContent === 'Nothing on the map has this name.'`))
	choose(".map select", "time", "change")
	choose(".map input[type=search]", lost, "input")
	b.run(t, until(`document.querySelector('.told').textContent.startsWith('Found')`))
	b.check(t, "earth")
}

// TestSavedPictures saves every picture of a view, in both kinds.
func TestSavedPictures(t *testing.T) {
	b := open(t)
	b.login(t)
	for view, pictures := range map[string]int{"overview": 4, "gain": 1} {
		b.show(t, view)
		names := eval[[]string](t, b, `[...document.querySelectorAll('figure button')].map(
			(e) => e.getAttribute('aria-label'))`)
		if len(names) != 2*pictures {
			t.Errorf("%s has the buttons %q, want %d", view, names, 2*pictures)
		}
		for _, name := range names {
			kind := strings.ToLower(name[len(name)-3:])
			eval[any](t, b, `document.getElementById('said').textContent = '';
				void document.querySelector('[aria-label="`+name+`"]').click()`)
			b.run(t, until(`/^Saved peerd-[a-z-]+\.`+kind+` \([1-9][0-9]{2,} bytes/.test(
				document.getElementById('said').textContent)`))
		}
	}
	b.check(t, "saved")
}

// TestLiveEvents shows an event that happens while the page is open.
func TestLiveEvents(t *testing.T) {
	b := open(t)
	b.login(t)
	b.show(t, "events")
	b.peer.AddEvent("something <img src=x onerror=alert(1)> happened")
	b.run(t, until(`document.querySelector('#events').textContent.includes("<img src=x")`))
	if n := eval[int](t, b, `document.querySelectorAll('#events img').length`); n != 0 {
		t.Error("the text of an event became markup")
	}
	b.check(t, "events")
}

// TestLogin: a code works once, the address keeps no code, and scripts cannot read the cookie.
func TestLogin(t *testing.T) {
	b := open(t)
	url, err := b.client.DashboardURL(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.run(t, chromedp.Navigate(url), chromedp.WaitVisible(`main[data-view=overview]`))
	if hash := eval[string](t, b, `location.hash + document.cookie`); hash != "" {
		t.Errorf("the page can read %q", hash)
	}
	b.check(t, "login")
	b.run(t, chromedp.Reload(), chromedp.WaitVisible(`main[data-view=overview]`))
	b.check(t, "second view")
	b.run(t, send(network.ClearBrowserCookies, cdp.Empty{}), chromedp.Navigate("about:blank"),
		chromedp.Navigate(url),
		chromedp.WaitVisible("main .narrow"))
	if text := b.text(t, "main"); !strings.Contains(text, "peerd dashboard") {
		t.Errorf("a used code shows %q", text)
	}
}
