package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"peerd": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("GORACE", "atexit_sleep_ms=0") // see environment
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"awaitapi": awaitAPI, "mode": mode},
	})
}

// awaitAPI waits for the api.json of a home and puts the address in it into a
// variable: awaitapi HOME VARIABLE.
func awaitAPI(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: awaitapi HOME VARIABLE")
	}
	file := ts.MkAbs(filepath.Join(args[0], "api.json"))
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for {
		var api struct{ Addr string }
		data, err := os.ReadFile(file)
		if err == nil {
			ts.Check(json.Unmarshal(data, &api))
			ts.Setenv(args[1], api.Addr)
			return
		}
		select {
		case <-tick.C:
		case <-late:
			ts.Fatalf("no peer came up: %v", err)
		}
	}
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

// Every failure is one line on stderr that begins with "peerd: ", and a status
// that tells a wrong command line or setting from a failure.
func TestFailures(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	home := filepath.Join(dir, "home")
	if code := run(t.Context(), []string{"init", "--home", home}, nil, io.Discard, os.Stderr); code != 0 {
		t.Fatal("init failed")
	}
	profile := file("floor.toml", "name = 'x'\n[scope]\nmode = 'any'\n[politeness]\nmin_delay = '2s'\n")
	misspelt := file("misspelt.toml", "name = 'x'\n[scope]\nmodus = 'any'\n")
	traps := file("traps.toml", "name = 'x'\n[scope]\nmode = 'any'\n[traps]\nlimits = { pages = 5 }\n")
	in := func(args ...string) []string { return append(args, "--home", home) }

	tests := []struct {
		name string
		args []string
		code int
		want string
	}{
		{"command", []string{"frobnicate"}, 2, `unknown command "frobnicate"`},
		{"near command", []string{"statsu"}, 2, `did you mean "status"`},
		{"option", []string{"--frobnicate"}, 2, `unknown flag: --frobnicate; see peerd --help`},
		{"option of a command", []string{"run", "--frobnicate"}, 2, `see peerd run --help`},
		{"argument", in("status", "x"), 2, `peerd status takes no arguments, but got "x"`},
		{"control characters", []string{"a\x1b[31mb\nc"}, 2, `"a\x1b[31mb\nc"`},
		{"no home", []string{"run"}, 2, `--home is missing`},
		{"no such home", []string{"run", "--home", filepath.Join(dir, "none")}, 2, `no peer lives here`},
		{"init twice", in("init"), 1, `a peer lives there already; nothing was changed`},
		{"init in a file", []string{"init", "--home", profile}, 1, `not a directory`},
		{"level", in("run", "--log-level", "loud"), 2, `--log-level "loud": want debug, info, warn or error`},
		{"listen", in("run", "--listen", "localhost:80"), 2, `listen: "localhost:80": not a multiaddr`},
		{"bootstrap", in("run", "--bootstrap", "/ip4/192.0.2.1/tcp/1"), 2, `not a multiaddr that ends in /p2p/PEER-ID`},
		{"api", in("run", "--api", "80"), 2, `api: "80": want HOST:PORT`},
		{"strategy", in("run", "--strategy", "best"), 2, `want one of proxy, random, hash`},
		{"range", in("run", "--allow-net", "127.0.0.1"), 2, `--allow-net: "127.0.0.1" is no address range`},
		{"resolve", in("run", "--resolve", "a.example"), 2, `--resolve: "a.example" is not HOST=IP`},
		{"delay", in("run", "--min-delay", "5"), 2, `missing unit in duration`},
		{"negative delay", in("run", "--min-delay", "-5s"), 2, `--min-delay -5s: want 0 or more`},
		{"below the floor", in("run", "--profile", profile, "--min-delay", "1s"), 2, `--min-delay 1s is below the floor of the network, 2s in ` + profile},
		{"profile", in("run", "--profile", misspelt), 2, misspelt + `:3:1: unknown key "scope.modus"`},
		{"no such profile", in("run", "--profile", filepath.Join(dir, "none")), 1, `no such file`},
		{"no peer", in("status"), 1, `no peer is running with this home; start one with: peerd run --home ` + home},
		{"no peer to stop", in("stop"), 1, `no peer is running with this home`},
		{"no peer to seed", in("seed", "http://a.example/"), 1, `no peer is running with this home`},
		{"no seed", in("seed"), 2, `no URL`},
		{"two sources of seeds", in("seed", "-f", "x", "http://a.example/"), 2, `URLs and --file at once`},
		{"no such file of seeds", in("seed", "-f", filepath.Join(dir, "none")), 1, `no such file`},
		{"nothing to crawl", []string{"crawl"}, 2, `no URL`},
		{"no URL", []string{"crawl", "a.example"}, 2, `"a.example": want http:// or https:// in front`},
		{"scope", []string{"crawl", "http://a.example/", "--scope", "world"}, 2, `--scope "world": want host, domain or any`},
		{"pages", []string{"crawl", "http://a.example/", "--max-pages", "-1"}, 2, `--max-pages -1`},
		{"page count", []string{"crawl", "http://a.example/", "--max-pages", "many"}, 2, `invalid argument "many" for "--max-pages" flag`},
		{"workers", []string{"crawl", "http://a.example/", "--workers", "0"}, 2, `--workers 0: want 1 to 4096; see peerd crawl --help`},
		{"workers of a peer", in("run", "--workers", "-1"), 2, `--workers -1: want 1 to 4096`},
		{"archive nowhere", []string{"crawl", "http://a.example/", "--warc"}, 2, `--warc needs --home`},
		{"profile of a crawl", []string{"crawl", "http://a.example/", "--profile", misspelt}, 2, misspelt + `:3:1: unknown key "scope.modus"`},
		{"trap", []string{"crawl", "http://a.example/", "--profile", traps}, 2, traps + `:5:1: traps.limits: no limit is called "pages", there are dates, `},
		{"no profile", []string{"crawl", "http://a.example/", "--profile", filepath.Join(dir, "none")}, 1, `no such file`},
		{"export", []string{"export"}, 2, `what? warc, cdx, links or text; see peerd export --help`},
		{"export of what is none", []string{"export", "pdf"}, 2, `cannot export "pdf", want warc, cdx, links or text; see peerd export --help`},
		{"export from nowhere", []string{"export", "warc"}, 2, `--home is missing; see peerd export warc --help`},
		{"export of no archive", in("export", "warc"), 1, home + `: the home has no archive; crawl with --warc, or set archive.enabled in config.toml`},
		{"text of no archive", in("export", "text"), 1, `the home has no archive`},
		{"index of no archive", in("export", "cdx"), 1, `the home has no archive`},
		{"export to nowhere", in("export", "links", "-o", filepath.Join(dir, "none", "x")), 1, `no such file`},
		{"tool", []string{"tool", "x"}, 2, `unknown tool "x"`},
		{"peers", []string{"testnet", "--peers", "0"}, 2, `--peers 0: want 1 or more`},
		{"few pages", []string{"testnet", "--sites", "5", "--pages", "4"}, 2, `--pages 4: want at least one a site, 5`},
		{"misled share", []string{"testnet", "--strategy", "geo", "--geo-error", "1.1"}, 2, `--geo-error 1.1: want 0 to 1`},
		{"site", []string{"site", "--number", "3", "--of", "3", "--listen", "127.0.0.1:0"}, 2, `--number 3: want 0 to 2`},
		{"site nowhere", []string{"site"}, 2, `--listen is missing`},
		{"bind", []string{"testnet", "--site-bind", "x"}, 2, `--site-bind: "x": want HOST:PORT`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), tt.args, strings.NewReader(""), &stdout, &stderr)
			line := stderr.String()
			if code != tt.code || !strings.Contains(line, tt.want) {
				t.Errorf("status %d, %q; want %d, %q", code, line, tt.code, tt.want)
			}
			if !strings.HasPrefix(line, "peerd: ") || strings.Count(line, "\n") != 1 || strings.Contains(line, "\x1b") {
				t.Errorf("not one clear line: %q", line)
			}
			if stdout.Len() > 0 {
				t.Errorf("on stdout: %q", stdout.String())
			}
		})
	}
}

func TestSettingsInTheHome(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		`config.toml:2:1: unknown key "crawl.mindelay"`:                              "[crawl]\nmindelay = '1s'",
		`config.toml:2:13: crawl.min_delay: "soon" is no duration`:                   "[crawl]\nmin_delay = 'soon'",
		`strategy is "x", want one of`:                                               "strategy = 'x'\n[overlay]\nnursery_urls = 0",
		`overlay.nursery_urls is 0, want 1 to 10000`:                                 "strategy = 'x'\n[overlay]\nnursery_urls = 0",
		`config.toml:1:6: expected value`:                                            "api = ",
		`config.toml:1:1: contact: "me": want http:// or https:// in front`:          "contact = 'me'",
		`config.toml:2:1: archive.max_file is 5, want 1048576 to`:                    "[archive]\nmax_file = 5",
		`config.toml:2:1: crawl.timeout: "60" is no duration, want one such as "1s"`: "[crawl]\ntimeout = 60",
		`config.toml:3:7: crawl.shares.own: got string, want a number`:               "[crawl]\n[crawl.shares]\nown = 'x'",
	} {
		home := filepath.Join(t.TempDir(), "h")
		if code := run(t.Context(), []string{"init", "--home", home}, nil, io.Discard, os.Stderr); code != 0 {
			t.Fatal("init failed")
		}
		if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var stderr bytes.Buffer
		code := run(t.Context(), []string{"run", "--home", home}, nil, io.Discard, &stderr)
		if code != exitUsage || !strings.Contains(stderr.String(), name) || strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("%q: status %d, %q", text, code, stderr.String())
		}
	}
}
