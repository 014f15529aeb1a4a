package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"peerd/cmd/internal/cli"
	"peerd/node"
	"peerd/node/admin"
	"peerd/node/config"
	"peerd/node/crawllet"
)

func TestMain(m *testing.M) {
	crawllet.Main() // the process of a crawllet is this program, too
	testscript.Main(m, map[string]func(){"peerd": main})
}

func TestScripts(t *testing.T) { runScripts(t, "testdata", nil) }

// scriptCmd is a command of scripts.
type scriptCmd = func(ts *testscript.TestScript, neg bool, args []string)

// runScripts runs the scripts in a folder with more commands.
func runScripts(t *testing.T, dir string, cmds map[string]scriptCmd) {
	t.Helper()
	all := map[string]scriptCmd{"mode": mode}
	maps.Copy(all, cmds)
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			// Programs built with the race detector idle for a second at their end otherwise.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			env.Setenv("PEERD_HOME", env.WorkDir+"/none")
			return nil
		},
		Cmds: all,
	})
}

// mode compares the permissions of a file: mode 600 FILE.
func mode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: mode OCTAL FILE")
	}
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := strings.TrimLeft(info.Mode().Perm().String(), "-"); got != args[0] {
		ts.Fatalf("%s is %s, want %s", args[1], got, args[0])
	}
}

// Every failure is one line on stderr that starts with "peerd: ", and a status that
// distinguishes a wrong command line or setting from a failure.
func TestFailures(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PEERD_HOME", filepath.Join(dir, "none"))
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	home := filepath.Join(dir, "home")
	if code := run(t.Context(), []string{"init", "--home", home}, nil, io.Discard,
		os.Stderr); code != 0 {
		t.Fatal("init failed")
	}
	profile := file("floor.toml",
		"name = 'x'\n[scope]\nmode = 'any'\n[politeness]\nmin_delay = '2s'\n")
	misspelt := file("misspelt.toml", "name = 'x'\n[scope]\nmodus = 'any'\n")
	traps := file("traps.toml",
		"name = 'x'\n[scope]\nmode = 'any'\n[traps]\nlimits = { pages = 5 }\n")
	in := func(args ...string) []string { return append(args, "--home", home) }

	tests := []struct {
		name string
		args []string
		code int
		want string
	}{
		{"command", []string{"frobnicate"}, 2, `unknown command "frobnicate"`},
		{"near command", []string{"statsu"}, 2, `unknown command "statsu", did you mean "status"?`},
		{"near command with an option", in("statsu"), 2,
			`unknown command "statsu", did you mean "status"?`},
		{"unknown command with an option", in("frobnicate"), 2,
			`unknown command "frobnicate"; see peerd --help`},
		{"subcommand with an option", in("registry", "lod"), 2,
			`unknown command "lod"`},
		{"option", []string{"--frobnicate"}, 2, `unknown flag: --frobnicate; see peerd --help`},
		{"option of a command", []string{"run", "--frobnicate"}, 2, `see peerd run --help`},
		{"argument", in("status", "x"), 2, `peerd status takes no arguments, but got "x"`},
		{"control characters", []string{"a\x1b[31mb\nc"}, 2, `"a\x1b[31mb\nc"`},
		{"no home", []string{"run"}, 2, `not the home of a peer; create one with: peerd init`},
		{"two keys", in("config", "show", "a", "b"), 2, `want at most one key, but got "b"; see ` +
			`peerd config show --help`},
		{"list of what", in("deny", "list", "x"), 2, `peerd deny list takes no arguments`},
		{"list of which", in("plugin", "list", "x"), 2, `peerd plugin list takes no arguments`},
		{"no rule", in("deny", "add", "bad rule"), 2,
			`"bad rule" is no host, .domain or range of addresses`},
		{"removed rule", in("deny", "remove", "x/y"), 2, `"x/y" is no host`},
		{"replay to others", in("replay", "--listen", "192.0.2.1:80"), 2,
			`--listen: "192.0.2.1:80": not an address of this machine alone`},
		{"page", in("get", "x"), 2, `"x": must start with http:// or https://`},
		{"host of a page", in("get", "http://x^y/"), 2, `not a URL`},
		{"pages", in("get", "http://a.example/", "b"), 2, `want one URL`},
		{"traced", in("trace", "x"), 2, `"x": must start with http:// or https://`},
		{"hits", in("search", "--limit", "101", "x"), 2, `together at most 100`},
		{"no hits", in("search", "--limit", "0", "x"), 2, `--limit 0: want`},
		{"skipped hits", in("search", "--offset", "-1", "x"), 2, `--offset -1, --limit 10: want`},
		{"host of what was given up", in("retry", "a b"), 2, `"a b" is not the name of a host`},
		{"host of an export", in("export", "links", "--host", "a b"), 2,
			`--host: bad request: "a b" is not the name of a host`},
		{"wait for the end", in("stop", "--timeout", "0s"), 2, `--timeout 0s: want more than 0`},
		{"no such home", []string{"run", "--home", filepath.Join(dir, "none")}, 2,
			`not the home of a peer`},
		{"init twice", in("init"), 1, `already the home of a peer; nothing was changed`},
		{"init in a file", []string{"init", "--home", profile}, 1, `not a directory`},
		{"level", in("run", "--log-level", "loud"), 2,
			`--log-level "loud": want debug, info, warn or error`},
		{"listen", in("run", "--listen", "localhost:80"), 2,
			`listen: "localhost:80": not a multiaddr`},
		{"bootstrap", in("run", "--bootstrap", "/ip4/192.0.2.1/tcp/1"), 2,
			`not a multiaddr that ends in /p2p/PEER-ID`},
		{"api", in("run", "--api", "80"), 2, `api: "80": want HOST:PORT`},
		{"strategy", in("run", "--strategy", "best"), 2, `want one of proxy, random, hash`},
		{"range", in("run", "--allow-net", "127.0.0.1"), 2,
			`--allow-net: "127.0.0.1" is not an address range`},
		{"resolve", in("run", "--resolve", "a.example"), 2,
			`--resolve: "a.example" is not HOST=IP`},
		{"delay", in("run", "--min-delay", "5"), 2, `missing unit in duration`},
		{"negative delay", in("run", "--min-delay", "-5s"), 2, `--min-delay -5s: want 0 or more`},
		{"share", in("run", "--check-reports", "2"), 2, `--check-reports 2: want 0 to 1`},
		{"below the floor", in("run", "--profile", profile, "--min-delay", "1s"), 2,
			`--min-delay 1s is below the floor of the network, 2s`},
		{"profile", in("run", "--profile", misspelt), 2,
			misspelt + `:3:1: unknown key "scope.modus"`},
		{"no such profile", in("run", "--profile", filepath.Join(dir, "none")), 1, `no such file`},
		{"no peer", in("status"), 1,
			`no peer is running with this home; start one with: peerd run --home ` + home},
		{"no peer to stop", in("stop"), 1, `no peer is running with this home`},
		{"no peer to seed", in("seed", "http://a.example/"), 1,
			`no peer is running with this home`},
		{"no seed", in("seed"), 2, `no URL`},
		{"two sources of seeds", in("seed", "-f", "x", "http://a.example/"), 2,
			`got both URLs and --file`},
		{"no such file of seeds", in("seed", "-f", filepath.Join(dir, "none")), 1, `no such file`},
		{"nothing to crawl", []string{"crawl"}, 2, `no URL`},
		{"no URL", []string{"crawl", "a.example"}, 2,
			`"a.example": must start with http:// or https://`},
		{"scope", []string{"crawl", "http://a.example/", "--scope", "world"}, 2,
			`--scope "world": want host, domain or any`},
		{"pages", []string{"crawl", "http://a.example/", "--max-pages", "-1"}, 2, `--max-pages -1`},
		{"page count", []string{"crawl", "http://a.example/", "--max-pages", "many"}, 2,
			`invalid argument "many" for "--max-pages" flag`},
		{"workers", []string{"crawl", "http://a.example/", "--workers", "0"}, 2,
			`--workers 0: want 1 to 4096; see peerd crawl --help`},
		{"workers of a peer", in("run", "--workers", "-1"), 2, `--workers -1: want 1 to 4096`},
		{"archive nowhere", []string{"crawl", "http://a.example/", "--warc"}, 2,
			`--warc needs --home`},
		{"profile of a crawl", []string{"crawl", "http://a.example/", "--profile", misspelt}, 2,
			misspelt + `:3:1: unknown key "scope.modus"`},
		{"trap", []string{"crawl", "http://a.example/", "--profile", traps}, 2,
			traps + `:5:1: traps.limits: unknown limit "pages", want one of closed, `},
		{"no profile", []string{"crawl", "http://a.example/", "--profile",
			filepath.Join(dir, "none")}, 1, `no such file`},
		{"export", []string{"export"}, 2,
			`nothing to export, want warc, wacz, cdx, links, graph, arcs, given-up or text; ` +
				`see peerd export --help`},
		{"export of what is none", []string{"export", "html"}, 2,
			`unknown command "html", want arcs, cdx, given-up, graph, links, text, wacz or warc; ` +
				`see peerd export --help`},
		{"export from nowhere", []string{"export", "warc"}, 2,
			`not the home of a peer`},
		{"export of no archive", in("export", "warc"), 1,
			home +
				`: the home has no archive; crawl with --warc, or set archive.enabled`},
		{"text of no archive", in("export", "text"), 1, `the home has no archive`},
		{"index of no archive", in("export", "cdx"), 1, `the home has no archive`},
		{"export to nowhere", in("export", "links", "-o", filepath.Join(dir, "none", "x")), 1,
			"create " + filepath.Join(dir, "none", "x") + ": no such file"},
		{"tool", []string{"tool", "x"}, 2, `unknown command "x", want extract, robots or url`},
		{"peers", []string{"testnet", "--peers", "0"}, 2, `--peers 0: want 1 to 200`},
		{"few pages", []string{"testnet", "--sites", "5", "--pages", "4"}, 2,
			`--pages 4: want at least one a site, 5`},
		{"misled share", []string{"testnet", "--strategy", "geo", "--geo-error", "1.1"}, 2,
			`--geo-error 1.1: want 0 to 1`},
		{"site", []string{"site", "--number", "3", "--of", "3", "--listen", "127.0.0.1:0"}, 2,
			`--number 3: want 0 to 2`},
		{"site nowhere", []string{"site"}, 2, `--listen is missing`},
		{"bind", []string{"testnet", "--site-bind", "x"}, 2, `--site-bind: "x": want HOST:PORT`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), tt.args, strings.NewReader(""), &stdout, &stderr)
			line := stderr.String()
			if code != tt.code || !strings.Contains(line, tt.want) {
				t.Errorf("status %d, stderr %q, want %d, %q", code, line, tt.code, tt.want)
			}
			if !strings.HasPrefix(line, "peerd: ") || strings.Count(line, "\n") != 1 ||
				strings.Contains(line, "\x1b") {
				t.Errorf("stderr is not one line: %q", line)
			}
			if stdout.Len() > 0 {
				t.Errorf("stdout = %q, want none", stdout.String())
			}
		})
	}
}

// A network with invalid rules is not founded, and leaves no home.
func TestNetworkWithInvalidRules(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"Bad Name"}, {"--min-delay", "-1s", "gardens"},
		{"--seed", "ftp://x.example/", "gardens"}, {"--admission", "maybe", "gardens"}} {
		home := filepath.Join(t.TempDir(), "h")
		var stderr bytes.Buffer
		args = append([]string{"network", "new", "--home", home, "--domain", "x.example"}, args...)
		if code := run(t.Context(), args, nil, io.Discard, &stderr); code == 0 {
			t.Errorf("%v: status 0, want an error", args)
		}
		if _, err := os.Stat(home); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v: left a home; stderr %q", args, stderr.String())
		}
	}
}

func TestSettingsInTheHome(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"[crawl]\nmindelay = '1s'", `config.toml:2:1: unknown key "crawl.mindelay"`},
		{"[crawl]\nmin_delay = 'soon'",
			`config.toml:2:13: crawl.min_delay: "soon" is not a duration`},
		{"strategy = 'x'\n[overlay]\nunclaimed_urls = 0", `strategy is "x", want one of`},
		{"strategy = 'x'\n[overlay]\nunclaimed_urls = 0",
			`overlay.unclaimed_urls is 0, want 1 to 10000`},
		{"api = ", `config.toml:1:6: expected value`},
		{"contact = 'me'",
			`config.toml:1:1: contact: "me": must start with http:// or https://`},
		{"[archive]\nmax_file = 5", `config.toml:2:1: archive.max_file is 5, want 1048576 to`},
		{"[crawl]\ntimeout = 60",
			`config.toml:2:1: crawl.timeout: "60" is not a duration, want one such as "1s"`},
		{"[crawl]\n[crawl.shares]\nown = 'x'",
			`config.toml:3:7: crawl.shares.own: got string, want a number`},
	} {
		home := filepath.Join(t.TempDir(), "h")
		if code := run(t.Context(), []string{"init", "--home", home}, nil, io.Discard,
			os.Stderr); code != 0 {
			t.Fatal("init failed")
		}
		if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(c.text),
			0o600); err != nil {
			t.Fatal(err)
		}
		var stderr bytes.Buffer
		code := run(t.Context(), []string{"run", "--home", home}, nil, io.Discard, &stderr)
		if code != cli.ExitUsage || !strings.Contains(stderr.String(), c.want) ||
			strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("%q: status %d, stderr %q, want %q", c.text, code, stderr.String(), c.want)
		}
	}
}

// A crawl that fetches no page fails, and says why for each URL.
func TestCrawlWithoutPages(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"crawl", "http://127.0.0.1:1/", "http://10.1.2.3/x"}, nil,
		&stdout, &stderr)
	want := "peerd: http://127.0.0.1:1/: 127.0.0.1 is not a public address; " +
		"to fetch from it, use --allow-net 127.0.0.1/32\n" +
		"peerd: http://10.1.2.3/x: 10.1.2.3 is not a public address; " +
		"to fetch from it, use --allow-net 10.1.2.3/32\n" +
		"peerd: crawl: no page was fetched\n"
	if code != cli.ExitFailed || stderr.String() != want {
		t.Errorf("status %d, stderr %q, want %d, %q", code, stderr.String(), cli.ExitFailed, want)
	}
	if !strings.Contains(stdout.String(), "nothing is left") {
		t.Errorf("stdout = %q, want the summary", stdout.String())
	}
}

func TestPrintSeedFailures(t *testing.T) {
	seeds := []node.SeedOutcome{{URL: "u", Fetched: true}}
	for range maxSeedFailures + 4 {
		seeds = append(seeds, node.SeedOutcome{URL: "v", Reason: "a\nb"})
	}
	var b strings.Builder
	printSeedFailures(&b, seeds)
	want := strings.Repeat("peerd: v: a; b\n", maxSeedFailures-1) +
		"peerd: 5 more URLs not fetched\n"
	if b.String() != want {
		t.Errorf("printSeedFailures() = %q, want %q", b.String(), want)
	}
}

// Each SIGHUP reloads, and a failure is logged.
func TestReloadAtHangups(t *testing.T) {
	var b strings.Builder
	n := 0
	ctx, cancel := context.WithCancel(t.Context())
	hup := make(chan os.Signal)
	done := make(chan struct{})
	go func() {
		defer close(done)
		reloadAtHangups(ctx, slog.New(slog.NewTextHandler(&b, nil)), hup,
			func() (admin.Reloaded, error) {
				n++
				return admin.Reloaded{}, config.ErrInvalid
			})
	}()
	hup <- syscall.SIGHUP
	hup <- syscall.SIGHUP
	cancel()
	<-done
	if n < 1 || strings.Count(b.String(), "failed to reload config.toml") != n {
		t.Errorf("%d reloads, log = %q", n, b.String())
	}
}

func TestVersionText(t *testing.T) {
	b := config.Build{
		Version: "1.2.3", Module: "v1.2.3", Go: "go1.26.1", Platform: "linux/amd64",
	}
	want := "peerd 1.2.3 (module v1.2.3, go1.26.1, linux/amd64)"
	if got := versionText(b); got != want {
		t.Errorf("versionText() = %q, want %q", got, want)
	}
	b.Revision, b.Modified = "0123456789abcdef", true
	want = "peerd 1.2.3 (revision 0123456789ab, modified, go1.26.1, linux/amd64)"
	if got := versionText(b); got != want {
		t.Errorf("versionText() = %q, want %q", got, want)
	}
}

func TestStopTexts(t *testing.T) {
	d := admin.Drain{Subnets: 12, Remaining: 3, URLs: 70, HandingOver: "192.0.2.0/24"}
	want := "handing over: 3 of 12 subnets left, 70 URLs pending for other peers, now 192.0.2.0/24"
	if got := progressText(d); got != want {
		t.Errorf("progressText() = %q, want %q", got, want)
	}
	for want, d := range map[string]admin.Drain{
		"":                       {Done: true},
		"handed over 12 subnets": {Subnets: 12, Done: true},
		"handed over 9 of 12 subnets, 70 URLs are pending; the rest stays in the home: a; b": {
			Subnets: 12, Remaining: 3, URLs: 70, Reason: "a\nb", Done: true,
		},
	} {
		if got := resultText(d); got != want {
			t.Errorf("resultText(%+v) = %q, want %q", d, got, want)
		}
	}
}

func TestFormatBootstrap(t *testing.T) {
	now := time.Now()
	next := now.Add(90 * time.Second)
	for want, b := range map[string]admin.BootstrapAddr{
		"A connected":     {Addr: "A", Connected: true},
		"A not connected": {Addr: "A"},
		"A not connected: refused; next attempt in 1m30s": {
			Addr: "A", LastError: "refused", NextAttempt: &next,
		},
	} {
		if got := formatBootstrap(b, now); got != want {
			t.Errorf("formatBootstrap(%+v) = %q, want %q", b, got, want)
		}
	}
}
