package canon

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
)

func readCases[T any](t *testing.T, file string) (cases []T) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		t.Fatal(err)
	}
	for _, r := range raw {
		var c T
		if r[0] == '"' { // a comment
			continue
		}
		if err := json.Unmarshal(r, &c); err != nil {
			t.Fatal(err)
		}
		cases = append(cases, c)
	}
	return cases
}

// TestStandard runs ParseWHATWG on all cases of http and https in the web platform tests.
func TestStandard(t *testing.T) {
	cases := readCases[struct {
		Input, Base string
		Failure     bool
		Parts
	}](t, "testdata/urltestdata.json")
	for _, c := range cases {
		got, err := ParseWHATWG(c.Base, c.Input)
		if c.Failure != (err != nil) || got != c.Parts {
			t.Errorf("ParseWHATWG(%q, %q)\n got %+v, %v\nwant %+v, failure %v",
				c.Base, c.Input, got, err, c.Parts, c.Failure)
		}
	}
}

// TestDomainToASCII compares hosts with the web platform tests of "domain to ASCII".
func TestDomainToASCII(t *testing.T) {
	cases := readCases[struct {
		Input  string
		Output *string
	}](t, "testdata/toascii.json")
	for _, c := range cases {
		got, err := ParseWHATWG("", "https://"+c.Input+"/x")
		if (c.Output == nil) != (err != nil) || err == nil && got.Hostname != *c.Output {
			want := "an error"
			if c.Output != nil {
				want = *c.Output
			}
			t.Errorf("host of %q = %q, %v, want %s", c.Input, got.Hostname, err, want)
		}
	}
}

// TestASCIIDomains verifies that an ASCII domain is only converted to lower case (URL Standard,
// section 3.3), whatever its labels decode to, and that what a domain may not contain is still
// rejected.
func TestASCIIDomains(t *testing.T) {
	for _, c := range []struct{ in, host string }{
		{"xn--8i7caa", "xn--8i7caa"}, // the example of the standard: decodes to full-width www
		{"a.XN--pokxncvks", "a.xn--pokxncvks"},
		{"x\tn--a", "xn--a"},
		{"%58n%2D-A", "xn--a"},
		{"a.xn--", "a.xn--"},
		{"a.xn--.", "a.xn--."},
		{"xn--abc-.xn--", "xn--abc-.xn--"},
		{"2.xn--mgbb", "2.xn--mgbb"},   // violates the rules for right-to-left text
		{"xx--a.xn--a", "xx--a.xn--a"}, // contains what replaces the prefix
		{"axn--a", "axn--a"},
		{"xn--%2541", ""},
		{"xn--%", ""},
		{"xn--a|b", ""},
		{"xn--a b", ""},
		{"xn--a%00", ""},
		{"xn--a.1", ""},
		{"xn--a.0x", ""},
		{"[xn--a]", ""},
		{"%5Bxn--a]", ""},
		{"xn--a.\u00fc", ""}, // not ASCII: the label must be valid
		{"\uff58n--a", ""},
	} {
		got, err := ParseWHATWG("", "http://"+c.in)
		if got.Hostname != c.host || (err == nil) != (c.host != "") {
			t.Errorf("host of %q = %q, %v; want %q", c.in, got.Hostname, err, c.host)
		}
		if u, err := Parse(got.Href); err == nil {
			checkCanonical(t, u)
		}
	}
	for _, in := range []string{"foo://XN--a/", "foo://1.xn--a.\u064a/"} {
		base := "http://1.\u064a/"
		got, err := ParseWHATWG(base, in)
		if want := strings.ReplaceAll(in, "\u064a", "%D9%8A"); err != nil || got.Href != want {
			t.Errorf("ParseWHATWG(%q, %q) = %q, %v; want %q", base, in, got.Href, err, want)
		}
	}
}

// TestDigitLabels verifies that labels of digits before a right-to-left label are accepted, and
// no other hosts with them.
func TestDigitLabels(t *testing.T) {
	for _, c := range []struct{ in, host string }{
		{"1.2.\u064a", "1.2.xn--mhb"},
		{"1.xn--mhb", "1.xn--mhb"},
		{"a.1.\u064a.", "a.1.xn--mhb."},
		{"1.%D9%8A", "1.xn--mhb"},
		{"\u064a.1", ""},
		{"\u064a.1.", ""},
		{"1.\u064aa", ""},
		{"1.xn--a", "1.xn--a"},
		{"1a.\u064a", ""},
		{"1..\u064a", "1..xn--mhb"},
		{digitMark + "1.\u064a", digitMark + "1.xn--mhb"},
		{digitMark + "1.2.\u064a", ""},
		{"%78" + digitMark[1:] + "1.2.\u064a", ""},
	} {
		got, err := ParseWHATWG("", "http://"+c.in)
		if got.Hostname != c.host || (err == nil) != (c.host != "") {
			t.Errorf("host of %q = %q, %v; want %q", c.in, got.Hostname, err, c.host)
		}
		if u, err := Parse(got.Href); err == nil {
			checkCanonical(t, u)
		}
	}
}

func TestParseWHATWGLimits(t *testing.T) {
	for _, in := range []string{
		"http://" + strings.Repeat("@", maxWHATWGAts+1),
		"http://a/" + strings.Repeat("a", maxWHATWGInput),
	} {
		if _, err := ParseWHATWG("", in); !errors.Is(err, ErrTooLong) {
			t.Errorf("ParseWHATWG(\"\", %.20q): error %v, want ErrTooLong", in, err)
		}
		if _, err := ParseWHATWG(in, "x"); !errors.Is(err, ErrTooLong) {
			t.Errorf("ParseWHATWG(%.20q, x): error %v, want ErrTooLong", in, err)
		}
	}
	if _, err := ParseWHATWG("", "x"); !errors.Is(err, ErrSyntax) {
		t.Errorf("relative reference without a base: error %v, want ErrSyntax", err)
	}
}
