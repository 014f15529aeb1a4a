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
		{URLOptions{}, "", "http://a.example/;jsessionid=1?sort=b&a", "http://a.example/?sort=b&a", ""},
		{URLOptions{}, "http://a.example/b/", "../c", "http://a.example/c", ""},
		{URLOptions{}, "ftp://a.example/b/", "//c.example/", "", "only http"},
		{URLOptions{}, "ftp://a.example/b/", "http://c.example/", "http://c.example/", ""},
		{URLOptions{}, "", "c", "", "no base"},
		{URLOptions{}, "c", "http://a.example/", "", `base "c": not a URL`},
		{URLOptions{}, "", "http://a.example/" + strings.Repeat("x", 2048), "", "at most 2048 bytes"},
		{URLOptions{Raw: true}, "", "HTTP://u@A.example:80/%7e?b#c", "http://u@a.example/%7e?b#c", ""},
		{URLOptions{Raw: true}, "mailto:a", "#x", "mailto:a#x", ""},
		{URLOptions{Raw: true}, "", "http://a.example/" + strings.Repeat("x", 5000), "http://a.example/" + strings.Repeat("x", 5000), ""},
		{URLOptions{Raw: true}, "", "http://a.example/" + strings.Repeat("x", 65536), "", "64 KiB"},
	} {
		got := c.o.URL(c.base, c.ref)
		if got.Input != c.ref || got.Href != c.href || (got.Error == "") != (c.reason == "") || !strings.Contains(got.Error, c.reason) {
			t.Errorf("%+v, %.40q + %.40q: %+v", c.o, c.base, c.ref, got)
		}
		if got.Parts != nil {
			t.Errorf("parts unasked: %+v", got.Parts)
		}
	}
}

func TestURLParts(t *testing.T) {
	o := URLOptions{Raw: true, Parts: true}
	got := o.URL("", "https://u:p@a.example:8443/b?c#d")
	want := &Parts{"https:", "u", "p", "a.example:8443", "a.example", "8443", "/b", "?c", "#d"}
	if !reflect.DeepEqual(got.Parts, want) {
		t.Errorf("%+v", got.Parts)
	}
	if got := o.URL("", "x"); *got.Parts != (Parts{}) || got.Error == "" {
		t.Errorf("%+v", got)
	}
	text, err := json.Marshal(URLOptions{}.URL("", "x"))
	if err != nil || !strings.HasPrefix(string(text), `{"input":"x","href":"","error":"not a URL`) || strings.Contains(string(text), "protocol") {
		t.Errorf("%s, %v", text, err)
	}
}

func TestRobots(t *testing.T) {
	r := NewRobots([]byte("# c\r\nuser-agent: a\r\rdisallow: /x \nallow: /x/y\n"))
	for _, c := range []struct {
		agent, url string
		want       RobotsAnswer
	}{
		{"a", "/x", RobotsAnswer{URL: "/x", Line: 4, Text: "disallow: /x"}},
		{"a", "http://h.example/x/y", RobotsAnswer{URL: "http://h.example/x/y", Allowed: true, Line: 5, Text: "allow: /x/y"}},
		{"a", "//x", RobotsAnswer{URL: "//x", Allowed: true}},
		{"b", "/x", RobotsAnswer{URL: "/x", Allowed: true}},
		{"a", "ftp://h.example/x", RobotsAnswer{URL: "ftp://h.example/x", Error: "only http and https are crawled"}},
	} {
		if got := r.Ask(c.agent, c.url); got != c.want {
			t.Errorf("%s, %s: %+v", c.agent, c.url, got)
		}
	}
	long := NewRobots([]byte(strings.Repeat("#\n", MaxRobots/2) + "user-agent: *\ndisallow: /"))
	if a := long.Ask("a", "/x"); !a.Allowed {
		t.Errorf("a rule beyond the end is obeyed: %+v", a)
	}
	if CheckAgent(" ") == nil || CheckAgent(Agent) != nil {
		t.Error("agents")
	}
}

func TestLinks(t *testing.T) {
	got, err := Links([]byte(`<a href=b rel=x><area href="//c.example">`), "text/html", "http://a.example/")
	want := []Link{{"http://a.example/b", "a", "href", "x"}, {"http://c.example/", "area", "href", ""}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := Links(nil, "image/png", "http://a.example/"); !errors.Is(err, ErrContentType) {
		t.Errorf("picture: %v", err)
	}
	if _, err := Links(nil, "", "a"); err == nil || CheckPage("a") == nil || CheckPage("http://a.example/") != nil {
		t.Errorf("base: %v", err)
	}
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
		err := Lines(strings.NewReader(in), func(s string) error { got = append(got, s); return nil })
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%.20q: %d lines, %v", in, len(got), err)
		}
	}
	stop := errors.New("stop")
	if err := Lines(strings.NewReader("a\nb"), func(string) error { return stop }); err != stop {
		t.Errorf("stopped: %v", err)
	}
	if err := Lines(iotest.ErrReader(stop), func(string) error { return nil }); err != stop {
		t.Errorf("broken: %v", err)
	}
}

func TestReadAtMost(t *testing.T) {
	for in, want := range map[string]string{"": "", "abc": "abc", "abcd": "abc"} {
		got, more, err := ReadAtMost(strings.NewReader(in), 3)
		if string(got) != want || more != (len(in) > 3) || err != nil {
			t.Errorf("%q: %q, %v, %v", in, got, more, err)
		}
	}
}
