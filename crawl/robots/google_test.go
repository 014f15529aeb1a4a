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

// decision is whether an agent may fetch a URL, according to Google's parser.
type decision struct {
	set, robots, agent, url string
	allowed                 bool
}

// readDecisions reads a file in the format described in testdata/README.md.
func readDecisions(t *testing.T, file string) (list []decision) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var v decision
	in := bufio.NewScanner(f)
	for in.Scan() {
		line := in.Text()
		switch rest := strings.TrimPrefix(line[1:], " "); line[0] {
		case '=':
			v = decision{set: rest}
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

// exceptions are the decisions from which Rules differ, with the reason.
var exceptions = map[decision]string{}

func init() {
	for _, v := range []decision{
		{set: "stress/327748", agent: "asdfbot", url: "http://m.example.com/robots.txt"},
		{set: "stress/369883", agent: "BarBot", url: "http://example.com/robots.txt"},
		{set: "stress/369883", agent: "AB", url: "http://example.com/robots.txt"},
		{set: "stress/860237", agent: "XYZ", url: "http://example.com/robots.txt"},
	} {
		exceptions[v] = "RFC 9309, section 2.2.2: /robots.txt is always allowed"
	}
	const escapes = "correctness/non-ascii-paths"
	exceptions[decision{set: escapes, agent: "FooBot", url: "http://foo.bar/foo/bar/ツ"}] =
		"Google leaves the escaping of URLs to the caller; canonical URLs are escaped"
	exceptions[decision{set: escapes, agent: "FooBot", url: "http://foo.bar/foo/bar/baz"}] =
		"RFC 9309, section 2.2.2: an escape of an unreserved byte equals the byte"
}

// TestGoogle compares Rules with the decisions that Google publishes.
func TestGoogle(t *testing.T) {
	agreed, seen := 0, map[decision]bool{}
	list := readDecisions(t, "testdata/google.txt")
	for _, v := range list {
		var u store.URL // the tests have an empty URL; its path is "/"
		if v.url != "" {
			var err error
			if u, err = canon.Parse(v.url); err != nil {
				t.Fatal(err)
			}
		}
		key := decision{set: v.set, agent: v.agent, url: v.url}
		why := exceptions[key]
		got := ok(v.robots).Allowed(v.agent, u)
		switch {
		case got == v.allowed && why == "":
			agreed++
		case got == v.allowed:
			t.Errorf("%+v agrees, but is listed as an exception: %s", key, why)
		case why == "":
			t.Errorf("%s: Allowed(%q, %q) = %v, want %v by\n%s",
				v.set, v.agent, v.url, got, v.allowed, v.robots)
		}
		seen[key] = true
	}
	for key := range exceptions {
		if !seen[key] {
			t.Errorf("the exception %+v is not a decision", key)
		}
	}
	if len(list) != 400 || agreed != 393 {
		t.Errorf("%d of %d decisions agree, want 393 of 400", agreed, len(list))
	}
}
