package hostile

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"a/b", "a/b", true}, {"a/b", "a/bc", false}, {"a/*", "a/", true}, {"a/*", "a/x/y", true},
		{"*x", "abx", true}, {"*x", "abxy", false},
		{"a*b*c", "abbc", true}, {"a*b*c", "acb", false}, {"*", "", true}, {"", "", true},
		{"", "a", false}, {"a*a", "a", false}, {"*a*", "bab", true},
	} {
		if got := glob(c.pattern, c.s); got != c.want {
			t.Errorf("glob(%q, %q) = %v", c.pattern, c.s, got)
		}
	}
}

// Judge finds each fault, and no other.
func TestJudge(t *testing.T) {
	at := time.Unix(1e9, 0)
	hit := func(path string) Hit {
		return Hit{Host: "a.test", Path: path, Start: at, End: at.Add(time.Second), Status: 200,
			Ended: EndDone, Header: map[string]string{"User-Agent": "x"}}
	}
	with := func(h Hit, change func(*Hit)) Hit {
		change(&h)
		return h
	}
	c := Case{Name: "a", Hosts: []string{"a.test"}, Slow: true,
		addr: netip.MustParseAddr("127.1.1.1"), forbid: netip.MustParseAddr("127.2.2.2"),
		Bound: Bound{Requests: 3, Sent: 100, Repeat: 1, Lookups: 1, Want: []string{"/"},
			Never: []string{"b.test/*"}, Pause: time.Minute}}
	for _, test := range []struct {
		name    string
		hits    []Hit
		conns   []Conn
		lookups []Lookup
		want    string // "" for no fault
	}{
		{"good", []Hit{hit("/")}, []Conn{{Addr: c.addr}}, []Lookup{{Host: "a.test", Case: "a"},
			{Host: "b.test", Case: "b"}}, ""},
		{"nothing", nil, nil, nil, "/ was not requested"},
		{"many", []Hit{hit("/"), hit("/1"), hit("/2"), hit("/3")}, nil, nil,
			"4 requests, want at most 3"},
		{"again", []Hit{hit("/"), hit("/")}, nil, nil, "more than 1 times"},
		{"bytes", []Hit{with(hit("/"), func(h *Hit) { h.Sent = 101 })}, nil, nil, "101 bytes"},
		{"never", []Hit{hit("/"), with(hit("/x"), func(h *Hit) {
			h.Host = "b.test"
		})}, nil, nil, "want none of b.test/*"},
		{"cookie", []Hit{with(hit("/"), func(h *Hit) {
			h.Header = map[string]string{"User-Agent": "x", "Cookie": "y"}
		})}, nil, nil, "Cookie: y"},
		{"nameless", []Hit{with(hit("/"), func(h *Hit) {
			h.Header = nil
		})}, nil, nil, "without User-Agent"},
		{"early", []Hit{with(hit("/"), func(h *Hit) { h.Status = 429 }),
			with(hit("/1"), func(h *Hit) {
				h.Start = at.Add(time.Minute)
			})}, nil, nil, "1s too early"},
		{"held", []Hit{with(hit("/"), func(h *Hit) {
			h.End = at.Add(time.Minute)
		})}, nil, nil, "held for 1m0s"},
		{"stopped", []Hit{with(hit("/"), func(h *Hit) {
			h.Ended = EndStopped
		})}, nil, nil, "never gave up"},
		{"dialled", []Hit{hit("/")}, []Conn{{Addr: c.forbid}}, nil, "a connection to 127.2.2.2"},
		{"asked", []Hit{hit("/")}, nil, []Lookup{{Host: "a.test", Case: "a"},
			{Host: "b.test", Case: "a"}, {Host: "a.test", Case: "a"}}, "2 names were looked up"},
	} {
		w := &Web{cases: []Case{c}, rec: newRecorder()}
		for _, h := range test.hits {
			h.Case = "a"
			w.rec.hits = append(w.rec.hits, h)
		}
		w.rec.conns, w.rec.lookups = test.conns, test.lookups
		faults := w.Judge("a", 10*time.Second)
		if test.want == "" && len(faults) > 0 || test.want != "" &&
			(len(faults) != 1 || !strings.Contains(faults[0], test.want)) {
			t.Errorf("%s: faults %q, want %q", test.name, faults, test.want)
		}
	}
	if faults := (&Web{rec: newRecorder()}).Judge("b", 0); len(faults) != 1 {
		t.Errorf("a case that is not served: %q", faults)
	}
}
