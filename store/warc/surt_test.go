package warc

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "peerd/internal/rapidtest"
)

// TestSURT: the first rows are facts of the tests of the Python package surt
// (tests/test_surt.py), the others follow from its rules.
func TestSURT(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"http://www.archive.org/":                         "org,archive)/",
		"http://archive.org/goo/":                         "org,archive)/goo",
		"http://archive.org/goo/?":                        "org,archive)/goo",
		"http://archive.org/goo/?b&a":                     "org,archive)/goo?a&b",
		"http://archive.org/goo/?a=2&b&a=1":               "org,archive)/goo?a=1&a=2&b",
		"https://www.archive.org:80/":                     "org,archive:80)/",
		"http://www.archive.org:80/":                      "org,archive)/",
		"https://www.archive.org:443/":                    "org,archive)/",
		"dns:archive.org":                                 "dns:archive.org",
		"http://www34.archive.org/index.html?b=a&b=b&a=b": "org,archive)/index.html?a=b&b=a&b=b",
		"http://www2foo.com/":                             "com,www2foo)/",
		"http://www2.www2foo.com/":                        "com,www2foo)/",
		"http://host/%25%32%35":                           "host)/%25",
		"http://host/%2525252525252525":                   "host)/%25",
		"http://host/%%%25%32%35asd%%":                    "host)/%25%25%25asd%25%25",
		"http://host.com//twoslashes?more//slashes":       "com,host)/twoslashes?more//slashes",
		"http://host.com/ab%23cd":                         "com,host)/ab%23cd",
		"https://U:p@www.Example.com:443/A//b/?z=1&Y=2#f": "com,example)/a/b?y=2&z=1",
		"http://example.com":                              "com,example)/",
		"http://example.com?q":                            "com,example)/?q",
		"http://127.0.0.1:8765/x":                         "1,0,0,127:8765)/x",
		"http://[2001:db8::1]:8080/x":                     "[2001:db8::1]:8080)/x",
		"http://example.com/?a=b=c&a":                     "com,example)/?a&a=b=c",
		"http://example.com/%7Euser/a%20b":                "com,example)/~user/a%20b",
		"http://example.com/?&r=http%3A//x/&b=Navi%205":   "com,example)/?&b=navi%205&r=http://x/",
	} {
		if got := SURT(in); got != want {
			t.Errorf("SURT(%q) = %q, want %q", in, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		rest := rapid.StringMatching(`[a-zA-Z%0-9.:@]{0,12}[/?#%a-zA-Z0-9&=]{0,30}`)
		u := "http://" + rest.Draw(t, "u")
		if a, b := SURT(u), SURT(strings.ToUpper(u[:7])+u[7:]); a != b ||
			strings.ContainsAny(a, " \n\r\x00") {
			t.Fatalf("SURT(%q) = %q, with upper-case scheme %q, want the same key", u, a, b)
		}
	})
}

func FuzzSURT(f *testing.F) {
	f.Add("http://www.a%2525.b:80/../%0a?x#y")
	f.Fuzz(func(t *testing.T, u string) {
		if len(u) > maxURL || !isURL(u) {
			return
		}
		if k := SURT(u); strings.ContainsAny(k, " \n\r") || len(k) > 3*len(u)+3 {
			t.Fatalf("SURT(%q) = %q, want a short key without blanks", u, k)
		}
	})
}
