package tool

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func TestURL(t *testing.T) {
	for _, c := range []struct {
		o               URLOptions
		base, ref, href string
		reason          string // in the error
	}{
		{URLOptions{}, "", "HTTP://A.example:80/%7e?b#c", "http://a.example/~?b", ""},
		{URLOptions{}, "", "http://a.example/;jsessionid=1?sort=b&a", "http://a.example/?sort=b&a",
			""},
		{URLOptions{}, "http://a.example/b/", "../c", "http://a.example/c", ""},
		{URLOptions{}, "ftp://a.example/b/", "//c.example/", "", "only http"},
		{URLOptions{}, "ftp://a.example/b/", "http://c.example/", "http://c.example/", ""},
		{URLOptions{}, "", "c", "", "no base"},
		{URLOptions{}, "c", "http://a.example/", "", `base "c": not a URL`},
		{URLOptions{}, "", "http://a.example/" + strings.Repeat("x", 2048), "",
			"at most 2048 bytes"},
		{URLOptions{Raw: true}, "", "HTTP://u@A.example:80/%7e?b#c", "http://u@a.example/%7e?b#c",
			""},
		{URLOptions{Raw: true}, "mailto:a", "#x", "mailto:a#x", ""},
		{URLOptions{Raw: true}, "", "http://a.example/" + strings.Repeat("x", 5000),
			"http://a.example/" + strings.Repeat("x", 5000), ""},
		{URLOptions{Raw: true}, "", "http://a.example/" + strings.Repeat("x", 65536), "", "64 KiB"},
	} {
		got := c.o.URL(c.base, c.ref)
		if got.Input != c.ref || got.Href != c.href || (got.Error == "") != (c.reason == "") ||
			!strings.Contains(got.Error, c.reason) {
			t.Errorf("%+v.URL(%.40q, %.40q) = %+v, want %q", c.o, c.base, c.ref, got, c.href)
		}
		if got.Parts != nil {
			t.Errorf("Parts = %+v, want nil", got.Parts)
		}
	}
}

func TestURLParts(t *testing.T) {
	o := URLOptions{Raw: true, Parts: true}
	got := o.URL("", "https://u:p@a.example:8443/b?c#d")
	want := &Parts{"https:", "u", "p", "a.example:8443", "a.example", "8443", "/b", "?c", "#d"}
	if !reflect.DeepEqual(got.Parts, want) {
		t.Errorf("Parts = %+v, want %+v", got.Parts, want)
	}
	if got := o.URL("", "x"); *got.Parts != (Parts{}) || got.Error == "" {
		t.Errorf("URL() of an invalid URL = %+v", got)
	}
	text, err := json.Marshal(URLOptions{}.URL("", "x"))
	if err != nil || !strings.HasPrefix(string(text),
		`{"input":"x","href":"","error":"not a URL`) || strings.Contains(string(text), "protocol") {
		t.Errorf("JSON of an invalid URL = %s, %v", text, err)
	}
}

func TestRobots(t *testing.T) {
	r := NewRobots([]byte("# c\r\nuser-agent: a\r\rdisallow: /x \nallow: /x/y\n"))
	for _, c := range []struct {
		agent, url string
		want       RobotsResult
	}{
		{"a", "/x", RobotsResult{URL: "/x", Line: 4, Text: "disallow: /x"}},
		{"a", "http://h.example/x/y", RobotsResult{URL: "http://h.example/x/y", Allowed: true,
			Line: 5, Text: "allow: /x/y"}},
		{"a", "//x", RobotsResult{URL: "//x", Allowed: true}},
		{"b", "/x", RobotsResult{URL: "/x", Allowed: true}},
		{"a", "ftp://h.example/x", RobotsResult{URL: "ftp://h.example/x",
			Error: "only http and https are crawled"}},
	} {
		if got := r.Check(c.agent, c.url); got != c.want {
			t.Errorf("Check(%q, %q) = %+v, want %+v", c.agent, c.url, got, c.want)
		}
	}
	long := NewRobots([]byte(strings.Repeat("#\n", MaxRobots/2) + "user-agent: *\ndisallow: /"))
	if a := long.Check("a", "/x"); !a.Allowed {
		t.Errorf("Check() used a rule beyond the limit: %+v", a)
	}
	if CheckAgent(" ") == nil || CheckAgent(Agent) != nil {
		t.Error("CheckAgent() accepted a blank token or refused a valid one")
	}
}

func TestLinks(t *testing.T) {
	const html = "<style>p { background: url(s.png) }</style>" +
		"<a href='b;jsessionid=0123456789abcdef0123456789abcdef' rel=x><img src=i>" +
		"<form action=f></form><a href=b><link rel=stylesheet href=c.css>"
	list, dropped, err := Links("http://a.example/", "text/html", []byte(html))
	var got []string
	for _, l := range list {
		got = append(got, strings.Join([]string{strings.TrimPrefix(l.URL, "http://a.example"),
			l.Element, l.Attribute, l.Rel}, " "))
	}
	want := []string{"/b;jsessionid=0123456789abcdef0123456789abcdef a href x", "/i img src ",
		"/f form action ", "/b a href "}
	if err != nil || dropped != 0 || !slices.Equal(got, want) {
		t.Errorf("Links() = %q, %d, %v, want %q", got, dropped, err, want)
	}
	if _, _, err := Links("http://a.example/", "image/png", nil); !errors.Is(err, ErrContentType) {
		t.Errorf("Links() of an image: %v, want ErrContentType", err)
	}
	if _, _, err := Links("a", "text/html", nil); err == nil || CheckPage("a") == nil ||
		CheckPage("http://a.example/") != nil {
		t.Errorf("Links() with an invalid base: %v", err)
	}
}

func TestQueries(t *testing.T) {
	for line, want := range map[string]Query{
		"": {}, "a": {"a", ""}, "a\tb": {"a", "b"}, "a\tb\t": {"a\tb", ""}, "\tb": {"", "b"},
		" a \tb ": {" a ", "b "},
	} {
		if got := ParseQuery(line); got != want {
			t.Errorf("ParseQuery(%q) = %q, want %q", line, got, want)
		}
	}
}

// A surrogate becomes one replacement character, as for scripts in browsers.
func TestScalars(t *testing.T) {
	for in, want := range map[string]string{
		"a": "a", "\xed\xa0\x80x": "\ufffdx", "\xed\xb0\x80\xed\xbf\xbf": "\ufffd\ufffd",
		"\xed\xa0": "\xed\xa0", "\xed\x9f\xbf": "\xed\x9f\xbf",
		"\xff\xed\xa0\x80": "\xff\ufffd",
	} {
		if got := scalarValues(in); got != want {
			t.Errorf("scalarValues(%q) = %q, want %q", in, got, want)
		}
	}
	got := URLOptions{Raw: true}.URL("http://a.example/\xed\xa0\x80/", "\xed\xb0\x80")
	if got.Href != "http://a.example/%EF%BF%BD/%EF%BF%BD" || got.Input != "\ufffd" {
		t.Errorf("URL() with surrogates = %+v", got)
	}
}

// Every result has either a URL or an error.
func FuzzURL(f *testing.F) {
	f.Add("http://a.example/", "\xed\xa0\x80\t\n x", false)
	f.Add("", "", true)
	f.Add("about:blank", "#", true)
	f.Fuzz(func(t *testing.T, base, ref string, raw bool) {
		got := URLOptions{Raw: raw, Parts: true}.URL(base, ref)
		if (got.Href == "") == (got.Error == "") || got.Parts == nil || got.Error != "" &&
			*got.Parts != (Parts{}) {
			t.Errorf("URL(%q, %q) = %+v, want either Href or Error", base, ref, got)
		}
	})
}

func TestLines(t *testing.T) {
	long := strings.Repeat("x", maxLine+9)
	for in, want := range map[string][]string{
		"":                   nil,
		"\n":                 {""},
		"a\r\n\nb":           {"a", "", "b"},
		"a\n" + long + "\nb": {"a", long[:maxLine], "b"},
	} {
		var got []string
		for s, err := range Lines(strings.NewReader(in)) {
			if err != nil {
				t.Error(err)
			}
			got = append(got, s)
		}
		if !slices.Equal(got, want) {
			t.Errorf("Lines(%.20q) yielded %d lines, want %d", in, len(got), len(want))
		}
	}
	stop := errors.New("stop")
	var got error
	for _, err := range Lines(iotest.ErrReader(stop)) {
		got = err
	}
	if !errors.Is(got, stop) {
		t.Errorf("Lines() yielded %v, want the error of the reader", got)
	}
}

func TestReadAtMost(t *testing.T) {
	for in, want := range map[string]string{"": "", "abc": "abc", "abcd": "abc"} {
		got, more, err := ReadAtMost(strings.NewReader(in), 3)
		if string(got) != want || more != (len(in) > 3) || err != nil {
			t.Errorf("ReadAtMost(%q) = %q, %v, %v, want %q", in, got, more, err, want)
		}
	}
}
