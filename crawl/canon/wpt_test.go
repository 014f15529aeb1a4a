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

// TestStandard holds Raw to every case of http and https in the web platform
// tests.
func TestStandard(t *testing.T) {
	cases := readCases[struct {
		Input, Base string
		Failure     bool
		Parts
	}](t, "testdata/urltestdata.json")
	for _, c := range cases {
		got, err := Raw(c.Base, c.Input)
		if c.Failure != (err != nil) || got != c.Parts {
			t.Errorf("Raw(%q, %q)\n got %+v, %v\nwant %+v, failure %v", c.Base, c.Input, got, err, c.Parts, c.Failure)
		}
	}
}

// TestDomainToASCII holds the host of Raw to the web platform tests of domain
// to ASCII.
func TestDomainToASCII(t *testing.T) {
	cases := readCases[struct {
		Input  string
		Output *string
	}](t, "testdata/toascii.json")
	for _, c := range cases {
		got, err := Raw("", "https://"+c.Input+"/x")
		if (c.Output == nil) != (err != nil) || err == nil && got.Hostname != *c.Output {
			t.Errorf("%q: host %q, %v", c.Input, got.Hostname, err)
		}
	}
}

// Digits before a right-to-left label are taken, and nothing else is taken
// along with them.
func TestDigitLabels(t *testing.T) {
	for _, c := range []struct{ in, host string }{
		{"1.2.\u064a", "1.2.xn--mhb"},
		{"1.xn--mhb", "1.xn--mhb"},
		{"a.1.\u064a.", "a.1.xn--mhb."},
		{"1.%D9%8A", "1.xn--mhb"},
		{"\u064a.1", ""},
		{"\u064a.1.", ""},
		{"1.\u064aa", ""},
		{"1.xn--a", ""},
		{"1a.\u064a", ""},
		{"1..\u064a", "1..xn--mhb"},
		{digitMark + "1.\u064a", digitMark + "1.xn--mhb"},
		{digitMark + "1.2.\u064a", ""},
		{"%78" + digitMark[1:] + "1.2.\u064a", ""},
	} {
		got, err := Raw("", "http://"+c.in)
		if got.Hostname != c.host || (err == nil) != (c.host != "") {
			t.Errorf("%q: host %q, %v; want %q", c.in, got.Hostname, err, c.host)
		}
		if u, err := Parse(got.Href); err == nil {
			checkCanonical(t, u)
		}
	}
}

func TestRawBounds(t *testing.T) {
	for _, in := range []string{"http://" + strings.Repeat("@", maxRawAts+1), "http://a/" + strings.Repeat("a", maxRaw)} {
		if _, err := Raw("", in); !errors.Is(err, ErrTooLong) {
			t.Errorf("%.20q: %v", in, err)
		}
		if _, err := Raw(in, "x"); !errors.Is(err, ErrTooLong) {
			t.Errorf("base %.20q: %v", in, err)
		}
	}
	if _, err := Raw("", "x"); !errors.Is(err, ErrSyntax) {
		t.Errorf("relative without a base: %v", err)
	}
}
