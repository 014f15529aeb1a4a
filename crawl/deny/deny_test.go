package deny

import (
	"bytes"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func rules(t testing.TB, texts ...string) []Rule {
	t.Helper()
	var all []Rule
	for _, text := range texts {
		r, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"example.org": "example.org", "Example.ORG": "example.org", ".example.org": ".example.org",
		"bücher.example": "xn--bcher-kva.example", "192.0.2.7": "192.0.2.7",
		"192.0.2.7/24": "192.0.2.0/24", "2001:db8::1/32": "2001:db8::/32",
		"[2001:db8::1]": "2001:db8::1", "::ffff:192.0.2.7": "192.0.2.7",
		"::ffff:192.0.2.0/120": "192.0.2.0/24", "intranet": "intranet",
		"": "", ".": "", "http://example.org/": "", "example.org:80": "", "a b": "", "*.org": "",
		"192.0.2.0/33": "", "fe80::1%eth0": "", "a/b": "", "u@h": "",
	} {
		r, err := Parse(text)
		if err != nil {
			if want != "" {
				t.Errorf("Parse(%q): %v, want %v", text, err, want)
			}
			continue
		}
		if r.String() != want {
			t.Errorf("Parse(%q) = %v, want %q", text, r, want)
		}
	}
}

// FuzzParse: the textual form of a rule is that of the same rule.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"example.org", ".example.org", "192.0.2.0/24", "[::1]", "0x7f.1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Parse(text)
		if err != nil {
			return
		}
		if again, err := Parse(r.String()); err != nil || again != r {
			t.Errorf("Parse(%q) = %v, and that is %v, %v", text, r, again, err)
		}
	})
}

func TestCheck(t *testing.T) {
	s := index(rules(t, "a.example", ".b.example", "192.0.2.0/24", "2001:db8::/32", "c.b.example"))
	for _, x := range []struct {
		host, addr string
		denied     bool
	}{
		{"a.example", "198.51.100.1", true},
		{"www.a.example", "198.51.100.1", false},
		{"b.example", "198.51.100.1", true},
		{"www.b.example", "198.51.100.1", true},
		{"x.c.b.example", "198.51.100.1", true},
		{"bb.example", "198.51.100.1", false},
		{"example", "198.51.100.1", false},
		{"d.example", "192.0.2.255", true},
		{"d.example", "192.0.3.0", false},
		{"d.example", "2001:db8::1", true},
		{"", "192.0.2.1", true},
		{"", "198.51.100.1", false},
	} {
		err := s.check(x.host, netip.MustParseAddr(x.addr))
		if got := errors.Is(err, ErrDenied); got != x.denied {
			t.Errorf("%s at %s: denied is %t (%v), want %t", x.host, x.addr, got, err, x.denied)
		}
	}
}

// TestList: rules that are added and removed hold at the next check, and a line that is no rule
// changes nothing.
func TestList(t *testing.T) {
	var logs bytes.Buffer
	file := filepath.Join(t.TempDir(), "deny")
	l, err := Open(file, slog.New(slog.NewTextHandler(&logs, nil)))
	if err != nil {
		t.Fatal(err)
	}
	addr := netip.MustParseAddr("::ffff:192.0.2.1")
	want := func(denied bool) {
		t.Helper()
		if err := l.Check("http://a.example/", addr); errors.Is(err, ErrDenied) != denied {
			t.Fatalf("Check: %v, want denied %t", err, denied)
		}
	}
	want(false)
	for _, text := range []string{"a.example", "192.0.2.0/24"} {
		if n, err := Add(file, rules(t, text, text)...); n != 1 || err != nil {
			t.Fatalf("Add: %d new, %v, want 1", n, err)
		}
		want(true)
		if n, err := Remove(file, rules(t, text)...); n != 1 || err != nil {
			t.Fatalf("Remove: %d, %v, want 1", n, err)
		}
		want(false)
	}
	text := "# why\n\n  a.example  \n.b.example\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	want(true)
	if err := os.WriteFile(file, []byte("http://a.example/\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	want(true)
	want(true)
	if n := strings.Count(logs.String(), `deny:1: \"http://a.example/\" is no host`); n != 1 {
		t.Errorf("%d lines tell of the fault, want one:\n%s", n, &logs)
	}
	if _, err := Open(file, slog.Default()); err == nil {
		t.Error("Open accepted a line that is no rule")
	}
	if _, err := Add(file, rules(t, "c.example")...); err == nil {
		t.Error("Add changed a file with a fault")
	}
}

// A file that cannot be read just now is read later, and the log says so once.
func TestUnreadable(t *testing.T) {
	var logs bytes.Buffer
	file := filepath.Join(t.TempDir(), "deny")
	l, err := Open(file, slog.New(slog.NewTextHandler(&logs, nil)))
	if err == nil {
		err = os.Mkdir(file, 0o700) // it exists, but cannot be read
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := l.Check("http://a.example/", netip.Addr{}); err != nil {
			t.Fatal(err)
		}
	}
	if id, err := stat(file); err != nil || l.read == id {
		t.Errorf("a file that was not read counts as read (%v)", err)
	}
	if n := strings.Count(logs.String(), "failed to read"); n != 1 {
		t.Errorf("%d lines tell that it was not read, want one:\n%s", n, &logs)
	}
}

// TestEdit: comments and other rules stay where they are.
func TestEdit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "deny")
	if err := os.WriteFile(file, []byte("# one\na.example\nB.example\n# two"), 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := Remove(file, rules(t, "b.example", "c.example")...); n != 1 || err != nil {
		t.Fatalf("Remove: %d, %v", n, err)
	}
	if n, err := Add(file, rules(t, ".c.example")...); n != 1 || err != nil {
		t.Fatalf("Add: %d, %v", n, err)
	}
	text, err := os.ReadFile(file)
	if want := "# one\na.example\n# two\n.c.example\n"; string(text) != want || err != nil {
		t.Errorf("got %q, %v, want %q", text, err, want)
	}
	got, err := Read(file)
	if !slices.Equal(got, rules(t, "a.example", ".c.example")) || err != nil {
		t.Errorf("Read: %v, %v", got, err)
	}
}

// BenchmarkCheck: a check looks whether the file has changed.
func BenchmarkCheck(b *testing.B) {
	file := filepath.Join(b.TempDir(), "deny")
	if _, err := Add(file, rules(b, ".a.example", "192.0.2.0/24")...); err != nil {
		b.Fatal(err)
	}
	l, err := Open(file, slog.Default())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		_ = l.Check("http://www.example.org/", netip.MustParseAddr("198.51.100.1"))
	}
}
