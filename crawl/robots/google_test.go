package robots

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"testing"

	"peerd/crawl/canon"
	"peerd/store"
)

// verdict is one of Google's: may the agent fetch the URL?
type verdict struct {
	set, robots, agent, url string
	allowed                 bool
}

// readVerdicts reads a file in the format of testdata/README.md.
func readVerdicts(t *testing.T, file string) (list []verdict) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var v verdict
	in := bufio.NewScanner(f)
	for in.Scan() {
		line := in.Text()
		switch rest := strings.TrimPrefix(line[1:], " "); line[0] {
		case '=':
			v = verdict{set: rest}
		case '|':
			if text, err := strconv.Unquote(rest); err == nil {
				v.robots += text
			} else {
				v.robots += rest + "\n"
			}
		case '+', '-':
			v.allowed = line[0] == '+'
			if quoted, err := strconv.QuotedPrefix(rest); err == nil {
				v.agent, _ = strconv.Unquote(quoted)
				v.url = strings.TrimPrefix(rest[len(quoted):], " ")
			} else {
				v.agent, v.url, _ = strings.Cut(rest, " ")
			}
			list = append(list, v)
		default:
			t.Fatalf("line %q", line)
		}
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

// otherwise are the verdicts that Rules do not share, and why.
var otherwise = map[verdict]string{}

func init() {
	for _, v := range []verdict{
		{set: "stress/327748", agent: "asdfbot", url: "http://m.example.com/robots.txt"},
		{set: "stress/369883", agent: "BarBot", url: "http://example.com/robots.txt"},
		{set: "stress/369883", agent: "AB", url: "http://example.com/robots.txt"},
		{set: "stress/860237", agent: "XYZ", url: "http://example.com/robots.txt"},
	} {
		otherwise[v] = "RFC 9309, section 2.2.2: /robots.txt is always allowed"
	}
	const escapes = "correctness/non-ascii-paths"
	otherwise[verdict{set: escapes, agent: "FooBot", url: "http://foo.bar/foo/bar/ツ"}] =
		"Google leaves it to the caller to escape a URL first; here every URL is canonical, and so escaped"
	otherwise[verdict{set: escapes, agent: "FooBot", url: "http://foo.bar/foo/bar/baz"}] =
		"RFC 9309, section 2.2.2: an escape of an unreserved byte equals the byte"
}

// TestGoogle holds Rules to the verdicts that Google publishes.
func TestGoogle(t *testing.T) {
	agreed, seen := 0, map[verdict]bool{}
	list := readVerdicts(t, "testdata/google.txt")
	for _, v := range list {
		var u store.URL // the tests have an empty URL; its path is "/"
		if v.url != "" {
			var err error
			if u, err = canon.Parse(v.url); err != nil {
				t.Fatal(err)
			}
		}
		key := verdict{set: v.set, agent: v.agent, url: v.url}
		why := otherwise[key]
		got := ok(v.robots).Allowed(v.agent, u)
		switch {
		case got == v.allowed && why == "":
			agreed++
		case got == v.allowed:
			t.Errorf("%+v: agrees, but is listed: %s", key, why)
		case why == "":
			t.Errorf("%s: %q may fetch %q: %v, Google says %v by\n%s", v.set, v.agent, v.url, got, v.allowed, v.robots)
		}
		seen[key] = true
	}
	for key := range otherwise {
		if !seen[key] {
			t.Errorf("%+v is listed, but no verdict", key)
		}
	}
	if len(list) != 400 || agreed != 393 {
		t.Errorf("%d of %d verdicts agree, want 393 of 400", agreed, len(list))
	}
}
