package canon

import (
	"errors"
	"strings"
	"testing"

	"peerd/store"
)

func TestParse(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"http://example.org", "http://example.org/"},
		{" \tHTTP://Example.ORG:80/A/b?\n", "http://example.org/A/b"},
		{"https://example.org:443/", "https://example.org/"},
		{"https://example.org:80/", "https://example.org:80/"},
		{"http://example.org:08080/", "http://example.org:8080/"},
		{"http://example.org./x", "http://example.org/x"},
		{"http://example.org/a#b?c", "http://example.org/a"},
		{"http://example.org/?q#b", "http://example.org/?q"},
		{"http://example.org/a/./b/../c/%2e%2E/d", "http://example.org/a/d"},
		{"http://example.org/a//b", "http://example.org/a//b"},
		{"http://example.org/%7euser/%41%2d%2f%c3%bc", "http://example.org/~user/A-%2F%C3%BC"},
		{"http://example.org/?a=%7e%2b&b=%zz", "http://example.org/?a=~%2B&b=%25zz"},
		{"http://example.org/100%", "http://example.org/100%25"},
		{"http://example.org/%2%65", "http://example.org/%252e"},
		{"http://example.org/a b?c d'", "http://example.org/a%20b?c%20d%27"},
		{"http://example.org/ü?ü", "http://example.org/%C3%BC?%C3%BC"},
		{"http:\\\\example.org\\a\\b", "http://example.org/a/b"},
		{"http://ex\nample.org/a\tb", "http://example.org/ab"},
		{"http:example.org/a", "http://example.org/a"},
		{"http://bücher.example/", "http://xn--bcher-kva.example/"},
		{"http://XN--A/", "http://xn--a/"},
		{"http://BÜCHER.example/", "http://xn--bcher-kva.example/"},
		{"http://under_score.example/", "http://under_score.example/"},
		{"http://Under_Score.Example/", "http://under_score.example/"},
		{"http://0x7f.1/", "http://127.0.0.1/"},
		{"http://127.0.0.1./", "http://127.0.0.1/"},
		{"http://127.0.0.1:8080/x", "http://127.0.0.1:8080/x"},
		{"http://[2001:DB8:0:0::1]:80/", "http://[2001:db8::1]/"},
		{"http://@example.org/", "http://example.org/"},
		{"http://example.org/?a=b&a=b&", "http://example.org/?a=b&a=b&"},
		{
			"http://example.org/" + strings.Repeat("%41", 1000),
			"http://example.org/" + strings.Repeat("A", 1000),
		},
	} {
		got, err := Parse(c.in)
		if err != nil || string(got) != c.want {
			t.Errorf("Parse(%q) = %q, %v; want %q", c.in, got, err, c.want)
		}
		checkCanonical(t, got)
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct {
		in   string
		want error
	}{
		{"", ErrSyntax},
		{"/relative", ErrSyntax},
		{"http://", ErrSyntax},
		{"http://a b/", ErrSyntax},
		{"http://a:99999/", ErrSyntax},
		{"http://1.2.3.256/", ErrSyntax},
		{"http://[::1/", ErrSyntax},
		{"http://xn--a|/", ErrSyntax},
		{"ftp://example.org/", ErrScheme},
		{"mailto:a@example.org", ErrScheme},
		{"javascript:void(0)", ErrScheme},
		{"http://u@example.org/", ErrCredentials},
		{"http://:p@example.org/", ErrCredentials},
		{"http://" + strings.Repeat("@", 1000), ErrCredentials},
		{"http://./", ErrHost},
		{"http://a..b/", ErrHost},
		{"http://a../", ErrHost},
		{"http://a!b/", ErrHost},
		{"http://" + strings.Repeat("a", 64) + ".example/", ErrHost},
		{"http://" + strings.Repeat("a.", 130) + "example/", ErrHost},
		{"http://example.org:0/", ErrPort},
		{"https://example.org:00/a", ErrPort},
		{"http://example.org/" + strings.Repeat("a", MaxLength), ErrTooLong},
		{"http://example.org/" + strings.Repeat("ü", MaxLength/6), ErrTooLong},
		{"http://example.org/" + strings.Repeat("%41", maxInput), ErrTooLong},
	} {
		if got, err := Parse(c.in); !errors.Is(err, c.want) {
			t.Errorf("Parse(%.60q) = %q, %v; want error %v", c.in, got, err, c.want)
		}
	}
}

func TestJoin(t *testing.T) {
	const base = store.URL("http://example.org/a/b/c?q=1/2")
	for _, c := range []struct{ ref, want string }{
		{"", "http://example.org/a/b/c?q=1/2"},
		{"#x", "http://example.org/a/b/c?q=1/2"},
		{"?", "http://example.org/a/b/c"},
		{"?z", "http://example.org/a/b/c?z"},
		{"d", "http://example.org/a/b/d"},
		{"./d", "http://example.org/a/b/d"},
		{"../d?e/../f", "http://example.org/a/d?e/../f"},
		{"../../../../d", "http://example.org/d"},
		{"..", "http://example.org/a/"},
		{"/d", "http://example.org/d"},
		{"/", "http://example.org/"},
		{"//other.example/d", "http://other.example/d"},
		{"//other.example", "http://other.example/"},
		{"https://other.example/d", "https://other.example/d"},
		{"http:d", "http://example.org/a/b/d"},
		{"d:e", ""},
		{"./d:e", "http://example.org/a/b/d:e"},
		{"\\d", "http://example.org/d"},
		{" d ", "http://example.org/a/b/d"},
		{"d%2f%7e", "http://example.org/a/b/d%2F~"},
		{"ü", "http://example.org/a/b/%C3%BC"},
		{"mailto:x@y", ""},
		{"//u:p@other.example/", ""},
	} {
		got, err := Join(base, c.ref)
		if (err != nil) != (c.want == "") || string(got) != c.want {
			t.Errorf("Join(%q) = %q, %v; want %q", c.ref, got, err, c.want)
		}
	}
}

func TestRebase(t *testing.T) {
	const page = store.URL("http://example.org/a/b")
	for _, c := range []struct{ base, ref, want string }{
		{"/c/", "d", "http://example.org/c/d"},
		{"c/", "d", "http://example.org/a/c/d"},
		{"https://other.example", "d", "https://other.example/d"},
		{"https://other.example", "//third.example/d", "https://third.example/d"},
		{"javascript:1", "d", "http://example.org/a/d"},
		{"data:,x", "d", "http://example.org/a/d"},
		{"http://[", "d", "http://example.org/a/d"},
		{"//" + strings.Repeat("x", maxInput), "d", "http://example.org/a/d"},
		{"ftp://other.example/", "d", ""},
		{"ftp://other.example/", "https://third.example/d", "https://third.example/d"},
		{"mailto:x@y", "d", ""},
		{"mailto:x@y", "http://third.example/d", "http://third.example/d"},
		{"http://u:p@other.example/", "d", ""},
		{"http://u:p@other.example/", "//third.example/", "http://third.example/"},
	} {
		got, err := BaseOf(page).Rebase(c.base).Join(c.ref)
		if (err != nil) != (c.want == "") || string(got) != c.want {
			t.Errorf("Rebase(%.40q).Join(%q) = %q, %v; want %q", c.base, c.ref, got, err, c.want)
		}
	}
}

func TestRegisteredDomain(t *testing.T) {
	for host, want := range map[string]string{
		"a.b.example.com": "example.com", "example.com": "example.com", "com": "com",
		"a.b.co.uk":     "b.co.uk",
		"a.b.github.io": "b.github.io", "192.0.2.1": "192.0.2.1", "2001:db8::1": "2001:db8::1",
		"localhost": "localhost", "": "",
	} {
		if got := RegisteredDomain(host); got != want {
			t.Errorf("RegisteredDomain(%q) = %q, want %q", host, got, want)
		}
	}
}
