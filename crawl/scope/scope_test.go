package scope_test

import (
	"errors"
	"strings"
	"testing"

	"peerd/crawl/scope"
	"peerd/store"
)

func TestAllows(t *testing.T) {
	for _, c := range []struct {
		name  string
		rules scope.Rules
		seeds []store.URL
		url   store.URL
		depth int
		want  error
	}{
		{"seed's host", scope.Rules{Mode: "hosts"}, []store.URL{"http://a.example/"},
			"https://a.example:8443/x", 9, nil},
		{"host below", scope.Rules{Mode: "hosts"}, []store.URL{"http://a.example/"},
			"http://www.a.example/", 0, scope.ErrHost},
		{"listed host", scope.Rules{Mode: "hosts", Hosts: []string{"B.example."}}, nil,
			"http://b.example/", 0, nil},
		{"listed IPv6", scope.Rules{Mode: "hosts", Hosts: []string{"2001:DB8::0:1"}}, nil,
			"http://[2001:db8::1]/", 0, nil},
		{"seed's domain", scope.Rules{Mode: "domains"}, []store.URL{"http://www.foo.co.uk/"},
			"http://x.y.foo.co.uk/", 0, nil},
		{"not the suffix", scope.Rules{Mode: "domains"}, []store.URL{"http://www.foo.co.uk/"},
			"http://bar.co.uk/", 0, scope.ErrHost},
		{"not the end of a label", scope.Rules{Mode: "domains"}, []store.URL{"http://foo.example/"},
			"http://barfoo.example/", 0, scope.ErrHost},
		{"address as domain", scope.Rules{Mode: "domains"}, []store.URL{"http://127.0.0.1/"},
			"http://127.0.0.1/x", 0, nil},
		{"another address", scope.Rules{Mode: "domains"}, []store.URL{"http://127.0.0.1/"},
			"http://127.1.0.1/x", 0, scope.ErrHost},
		{"suffix as seed", scope.Rules{Mode: "domains"}, []store.URL{"http://co.uk/"},
			"http://bar.co.uk/", 0, scope.ErrHost},
		{"single label", scope.Rules{Mode: "domains"}, []store.URL{"http://localhost/"},
			"http://localhost/", 0, nil},
		{"listed domain", scope.Rules{Mode: "domains", Domains: []string{"bücher.example"}}, nil,
			"http://a.xn--bcher-kva.example/", 0, nil},
		{"host in mode domains", scope.Rules{Mode: "domains", Hosts: []string{"b.example"}}, nil,
			"http://a.b.example/", 0, scope.ErrHost},
		{"any", scope.Rules{Mode: "any"}, nil, "http://x.example/", 0, nil},
		{"regex", scope.Rules{Mode: "regex", Include: []string{`/no/`, `^https?://x\.example/`}},
			nil, "http://x.example/", 0, nil},
		{"regex misses", scope.Rules{Mode: "regex", Include: []string{`^http://y`}}, nil,
			"http://x.example/", 0, scope.ErrNotIncluded},
		{"include narrows", scope.Rules{Mode: "hosts", Include: []string{`\.html$`}},
			[]store.URL{"http://a.example/"}, "http://a.example/x", 0, scope.ErrNotIncluded},
		{"exclude", scope.Rules{Mode: "any", Exclude: []string{`\?`}}, nil, "http://x.example/?a",
			0, scope.ErrExcluded},
		{"too deep", scope.Rules{Mode: "any", MaxDepth: 2}, nil, "http://x.example/", 3,
			scope.ErrTooDeep},
		{"deep enough", scope.Rules{Mode: "any", MaxDepth: 2}, nil, "http://x.example/", 2, nil},
		{"too long", scope.Rules{Mode: "any", MaxURLLength: 18}, nil, "http://x.example/ab", 0,
			scope.ErrTooLong},
		{"long enough", scope.Rules{Mode: "any", MaxURLLength: 18}, nil, "http://x.example/a", 0,
			nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := scope.Compile(c.rules, c.seeds)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Allows(c.url, c.depth); !errors.Is(err, c.want) {
				t.Errorf("Allows(%q, %d) = %v, want %v", c.url, c.depth, err, c.want)
			}
		})
	}
}

func TestValidateListsAllFaults(t *testing.T) {
	err := scope.Rules{
		Mode: "domain", Hosts: []string{"a/b", "a:80"}, Domains: []string{"u@d", ""},
		Include: []string{"("}, Exclude: []string{"["}, MaxURLLength: -1, MaxDepth: -2,
	}.Validate()
	if err == nil {
		t.Fatal("Validate() = nil, want an error")
	}
	for _, want := range []string{`"domain"`, `"a/b"`, `"a:80"`, `"u@d"`, `""`, "include",
		"exclude", "URL length", "depth"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error does not mention %q: %v", want, err)
		}
	}
}

func TestCompileRejects(t *testing.T) {
	for name, r := range map[string]scope.Rules{
		"empty hosts":     {Mode: "hosts"},
		"empty domains":   {Mode: "domains"},
		"empty regex":     {Mode: "regex"},
		"no mode":         {},
		"unused domains":  {Mode: "hosts", Domains: []string{"a.example"}},
		"unused hosts":    {Mode: "any", Hosts: []string{"a.example"}},
		"host with query": {Mode: "hosts", Hosts: []string{"a.example?x"}},
		"host with ports": {Mode: "hosts", Hosts: []string{"a.example:80"}},
	} {
		if _, err := scope.Compile(r, nil); err == nil {
			t.Errorf("%s: Compile() succeeded, want an error", name)
		}
	}
}
