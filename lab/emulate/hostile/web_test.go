package hostile

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// Every case is complete and has hosts and addresses of its own.
func TestCases(t *testing.T) {
	names, hosts, addrs := map[string]bool{}, map[string]string{}, map[netip.Prefix]bool{}
	for _, c := range Cases() {
		if c.Name == "" || c.Name+"."+Domain == Portal || names[c.Name] || c.About == "" ||
			strings.Contains(c.About, "\n") || c.serve == nil {
			t.Errorf("case %q, about %q", c.Name, c.About)
		}
		names[c.Name] = true
		for _, h := range c.Hosts {
			if hosts[h] != "" || !strings.HasSuffix(h, "."+Domain) || h != strings.ToLower(h) {
				t.Errorf("%s: host %s, also of %q", c.Name, h, hosts[h])
			}
			hosts[h] = c.Name
		}
		for _, a := range []netip.Addr{c.addr, c.forbid} {
			p := netip.PrefixFrom(a, 24).Masked()
			if addrs[p] || !a.IsLoopback() {
				t.Errorf("%s: subnet %v", c.Name, p)
			}
			addrs[p] = true
		}
		if b := c.Bound; b.Requests < len(b.Want) || b.Requests < 2 || b.Repeat < 1 {
			t.Errorf("%s: bound %+v", c.Name, b)
		}
		for _, s := range c.Seeds {
			if host, _, _ := strings.Cut(s, "/"); hosts[host] != c.Name {
				t.Errorf("%s: seed %s", c.Name, s)
			}
		}
	}
	if len(names) > 250 {
		t.Errorf("%d cases, and the last addresses are the portal's", len(names))
	}
}

func TestServeSome(t *testing.T) {
	w := serve(t, "calendar", "facets")
	if n := len(w.Cases()); n != 2 || len(w.Seeds("calendar")) != 1 || w.Seeds("counter") != nil {
		t.Errorf("%d cases, seeds %v and %v", n, w.Seeds("calendar"), w.Seeds("counter"))
	}
	if _, err := w.Lookup(t.Context(), "counter."+Domain); err == nil {
		t.Error("a host of a case that is not served has an address")
	}
	if _, err := Serve(t.Context(), Options{Cases: []string{"calendar", "no-such"}}); err == nil {
		t.Error("a case that does not exist is served")
	}
	if _, err := Serve(t.Context(), Options{Cases: []string{"calendar"},
		Port: w.Port()}); err == nil {
		t.Error("two webs have one port")
	}
}

// Closing a web ends all exchanges in progress.
func TestEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w, err := Serve(ctx, Options{Cases: []string{"head-none", "body-drip", "head-1xx"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{"head-none." + Domain + "/bad/1", "body-drip." + Domain + "/bad/1",
		"head-1xx." + Domain + "/bad/1"} {
		ask(t, w, url)
	}
	for len(w.Log()) < 3 {
		<-time.After(time.Millisecond)
	}
	begin := time.Now()
	cancel()
	w.Close()
	if took := time.Since(begin); took > 5*time.Minute {
		t.Errorf("it took %v", took)
	}
	for _, h := range w.Log() {
		if h.Ended != EndStopped {
			t.Errorf("%s: %s", h.Host, h.Ended)
		}
	}
}

func TestLog(t *testing.T) {
	w := serve(t, "calendar", "head-reset")
	nc := ask(t, w, "calendar."+Domain+"/", "Cookie: a=b\r\n")
	buf := make([]byte, 1)
	if _, err := nc.Read(buf); err != nil {
		t.Fatal(err)
	}
	ended(t, w, 0)
	_, _ = nc.Write([]byte("HEAD http://CALENDAR." + Domain +
		":1/real/1?x HTTP/1.1\r\nHost: CALENDAR." + Domain + ".:1\r\n\r\n"))
	second := ended(t, w, 1)
	first := w.Log()[0]
	if first.Case != "calendar" || first.Host != "calendar."+Domain || first.Path != "/" ||
		first.Method != "GET" || first.Status != 200 ||
		first.Ended != EndDone || first.Sent < 1000 || first.Header["Cookie"] != "a=b" ||
		first.Header["User-Agent"] != "test" || first.End.Before(first.Start) {
		t.Errorf("first %+v", first)
	}
	if second.Method != "HEAD" || second.Path != "/real/1?x" || second.Host != first.Host ||
		second.Conn != first.Conn || second.Sent > 200 {
		t.Errorf("second %+v", second)
	}
	if _, err := io.ReadAll(ask(t, w, "head-reset."+Domain+"/bad/1")); err == nil {
		t.Error("the connection was not reset")
	}
	if h := ended(t, w, 2); h.Ended != EndReset || h.Conn == first.Conn {
		t.Errorf("reset %+v", h)
	}
	if cs := w.Conns(); len(cs) != 2 || cs[0].Addr != w.cases[0].addr ||
		cs[1].Addr != w.cases[1].addr {
		t.Errorf("connections %+v", cs)
	}
}

// The log distinguishes answers that the client aborted from those that were sent.
func TestClientGoesAway(t *testing.T) {
	w := serve(t, "head-none", "body-endless")
	for i, url := range []string{"head-none." + Domain + "/bad/1", "body-endless." + Domain +
		"/bad/1"} {
		nc := ask(t, w, url)
		for len(w.Log()) <= i {
			<-time.After(time.Millisecond)
		}
		nc.Close()
		if h := ended(t, w, i); h.Ended != EndClient {
			t.Errorf("%s: %+v", url, h)
		}
	}
}

func TestLookup(t *testing.T) {
	w := serve(t, "subdomains", "rebinding", "mixed-names", "private-names")
	at := func(host string) []netip.Addr {
		a, err := w.Lookup(t.Context(), host)
		if err != nil {
			t.Errorf("%s: %v", host, err)
		}
		return a
	}
	sub := w.caseOf("subdomains." + Domain)
	if a := at("ANY.thing.subdomains." + Domain + "."); !slices.Equal(a, []netip.Addr{sub.addr}) {
		t.Errorf("a wildcard has %v", a)
	}
	re := w.caseOf("rebinding." + Domain)
	if a, b := at("rebinding."+Domain), at("rebinding."+Domain); a[0] != re.addr ||
		b[0] != re.forbid {
		t.Errorf("rebinding: %v, then %v", a, b)
	}
	if a := at("last.mixed-names." + Domain); !slices.Contains(a,
		netip.MustParseAddr("127.0.0.1")) ||
		!slices.Contains(a, w.caseOf("mixed-names."+Domain).addr) {
		t.Errorf("mixed: %v", a)
	}
	var dns *net.DNSError
	if _, err := w.Lookup(t.Context(), "example.org"); err == nil || !errors.As(err, &dns) ||
		!dns.IsNotFound {
		t.Errorf("a foreign name: %v", err)
	}
	if n := len(w.Lookups()); n != 5 {
		t.Errorf("%d lookups in the log", n)
	}
	for _, p := range w.Allow() {
		for _, a := range w.Forbidden() {
			if p.Contains(a) {
				t.Errorf("%v is both allowed and forbidden", a)
			}
		}
	}
}

func TestPortal(t *testing.T) {
	w := serve(t, "calendar", "private-names")
	if _, body := get(t, w, Portal+"/"); !strings.Contains(body, "href=\""+w.Seeds("calendar")[0]+
		"\"") || !strings.Contains(body, w.Seeds("private-names")[0]) {
		t.Errorf("index %s", body)
	}
	if _, body := get(t, w, Portal+"/hosts"); !strings.Contains(body, w.cases[0].addr.String()+
		" calendar."+Domain+"\n") {
		t.Errorf("hosts %s", body)
	}
	get(t, w, "calendar."+Domain+"/real/1")
	if _, body := get(t, w, Portal+"/log"); !strings.Contains(body, `"path":"/real/1"`) {
		t.Errorf("log %s", body)
	}
	if _, body := get(t, w, Portal+"/results"); !strings.Contains(body,
		"/real/2 was not requested") {
		t.Errorf("results: %s", body)
	}
}

// A trap answers 410 after too many requests, unless Endless is set.
func TestTrapCloses(t *testing.T) {
	for _, endless := range []bool{false, true} {
		w, err := Serve(t.Context(), Options{Cases: []string{"redirect-self"}, Endless: endless})
		if err != nil {
			t.Fatal(err)
		}
		var last int
		for range 7 {
			resp, _ := get(t, w, "redirect-self."+Domain+"/")
			last = resp.StatusCode
		}
		if want := map[bool]int{false: 410, true: 302}[endless]; last != want {
			t.Errorf("endless %v: %d at the end, want %d", endless, last, want)
		}
		w.Close()
	}
}
