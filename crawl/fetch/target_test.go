package fetch

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"peerd/store"
)

func TestParseTarget(t *testing.T) {
	tests := []struct {
		url  store.URL
		addr string // "" = refused
		uri  string
	}{
		{"http://site.example/", "site.example:80", "/"},
		{"http://site.example", "site.example:80", "/"},
		{"https://site.example/a?b", "site.example:443", "/a?b"},
		{"http://site.example:8080/a", "site.example:8080", "/a"},
		{"http://site.example?q", "site.example:80", "/?q"},
		{"http://site.example/?", "site.example:80", "/?"},
		{"http://[2001:db8::1]/", "[2001:db8::1]:80", "/"},
		{"http://[2001:db8::1]:81/", "[2001:db8::1]:81", "/"},
		// What url.Parse would rewrite or refuse goes out as it stands.
		{"http://site.example/a|b%2Fc", "site.example:80", "/a|b%2Fc"},
		{"http://site.example/%zz?100%", "site.example:80", "/%zz?100%"},
		{"http://site.example/a?x=/../%00|", "site.example:80", "/a?x=/../%00|"},
		{"http://site.example//a", "site.example:80", "//a"},
		{"http://site.example//%zz", "site.example:80", "http://site.example//%zz"},
		// No canonical URLs.
		{"", "", ""},
		{"ftp://site.example/", "", ""},
		{"http:///a", "", ""},
		{"http://user@site.example/", "", ""},
		{"http://site.example/a b", "", ""},
		{"http://site.example/a\r\nHost: evil", "", ""},
		{"http://site.example/ä", "", ""},
		{"http://site.example/#f", "", ""},
		{"http://site.example:0/", "", ""},
		{"http://site.example:65536/", "", ""},
		{"http://site.example:x/", "", ""},
		{"http://:80/", "", ""},
	}
	for _, tt := range tests {
		got, err := parseTarget(tt.url)
		if tt.addr == "" {
			if !errors.Is(err, errBadURL) {
				t.Errorf("parseTarget(%q) = %v, %v, want errBadURL", tt.url, got, err)
			}
			continue
		}
		if err != nil || got.addr != tt.addr || got.url.RequestURI() != tt.uri {
			t.Errorf("parseTarget(%q) = %q %q, %v, want %q %q", tt.url, got.addr,
				got.url.RequestURI(), err, tt.addr, tt.uri)
		}
	}
}

// TestVerbatim verifies that any path and query are sent unchanged.
func TestVerbatim(t *testing.T) {
	var alphabet []rune
	for r := '!'; r <= '~'; r++ {
		if r != '#' {
			alphabet = append(alphabet, r)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		uri := "/" + rapid.StringOf(rapid.SampledFrom(alphabet)).Draw(t, "uri")
		tgt, err := parseTarget(store.URL("http://site.example" + uri))
		if err != nil {
			t.Fatal(err)
		}
		got := strings.TrimPrefix(tgt.url.RequestURI(), "http://site.example")
		if got != uri {
			t.Fatalf("%q goes out as %q", uri, got)
		}
	})
}

// TestVerbatimOnTheWire does the same with a server.
func TestVerbatimOnTheWire(t *testing.T) {
	for _, kind := range []string{"http", "h2"} {
		s := newSite(t, "127.7.1.1", kind, func(w http.ResponseWriter, r *http.Request) {
			w.Write([]byte(r.Proto + " " + r.RequestURI))
		})
		scheme, proto := "http", "HTTP/1.1 "
		f := newFetcher(t, nil)
		if kind == "h2" {
			scheme, proto = "https", "HTTP/2.0 "
			f = newFetcher(t, func(c *Config) { c.TLS = tlsRoots(s) })
		}
		for _, uri := range []string{"/a|b%2Fc?d|e", "/;a=b?", "//x/../y", "/?q=%"} {
			res := f.Do(t.Context(), Request{URL: s.url(scheme, "example.com", uri), Addr: s.addr})
			if got := string(res.Body); got != proto+uri {
				t.Errorf("%s%s arrived as %q (%v %v)", proto, uri, got, res.Outcome, res.Err)
			}
		}
	}
}
