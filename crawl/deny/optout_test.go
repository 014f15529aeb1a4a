package deny

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"peerd/store"
)

func TestParseOptOut(t *testing.T) {
	for text, want := range map[string]string{
		"crawler: peerd": "out", "\ufeffCrawler : PEERD # all\r\n": "out", "crawler: *\n": "out",
		"crawler: peerd\nuntil: 2030-12-31\n": "out 2031-01-01",
		"until: 2030-12-31\n":                 "2031-01-01",
		"crawler: peerd\nuntil: soon":         "out",
		"":                                    "",
		"crawler: other":                      "",
		"crawler peerd":                       "",
		"<html>crawler: peerd</html>":         "", "#crawler: peerd": "",
		strings.Repeat("#", MaxOptOut) + "\ncrawler: peerd": "",
	} {
		out, until := ParseOptOut([]byte(text))
		var got []string
		if out {
			got = append(got, "out")
		}
		if !until.IsZero() {
			got = append(got, until.Format(time.DateOnly))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%.40q: %v, want %q", text, got, want)
		}
	}
}

// FuzzOptOut: whatever a site serves, it opts out only with the line that says so.
func FuzzOptOut(f *testing.F) {
	f.Add([]byte("crawler: peerd\nuntil: 2030-12-31"))
	f.Fuzz(func(t *testing.T, text []byte) {
		out, _ := ParseOptOut(text)
		if low := strings.ToLower(string(text)); out && !strings.Contains(low, "crawler") {
			t.Errorf("%q opts out", text)
		}
	})
}

func TestParseOrigin(t *testing.T) {
	for text, want := range map[string]string{
		"https://WWW.example.org:443/a?b": "https://www.example.org",
		"http://example.org:8080":         "http://example.org:8080", "ftp://example.org/": "",
		"example.org": "", "": "", "https://" + strings.Repeat("a.", 150) + "example/": "",
	} {
		got, err := ParseOrigin(text)
		if got != want || (err == nil) != (want != "") || err != nil && !errors.Is(err, ErrOrigin) {
			t.Errorf("%.40q: %q, %v, want %q", text, got, err, want)
		}
	}
}

var (
	file   = []byte("crawler: peerd\n")
	noAddr = netip.Addr{}
)

// optOuts returns OptOuts that keep what they save.
func optOuts(saved map[string]time.Time) *OptOuts {
	var all []OptOut
	for name, until := range saved {
		all = append(all, OptOut{name, until})
	}
	return NewOptOuts(all, func(o OptOut) error {
		if saved[o.Origin] = o.Until; o.Until.IsZero() {
			delete(saved, o.Origin)
		}
		return nil
	})
}

// What others say has one effect: the file is read, rarely if it is in vain.
func TestClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		saved := map[string]time.Time{}
		o := optOuts(saved)
		const u, origin = store.URL("http://a.example/x"), "https://a.example"
		begin, reads := time.Now(), 0
		for time.Since(begin) < time.Hour {
			o.Claim(origin)
			if due := o.Due(u, time.Now()); due != "" {
				if due != origin+OptOutPath {
					t.Fatalf("due is %s", due)
				}
				reads++
				out, changed, err := o.Read(origin, nil, reads%2 == 0, time.Now())
				if out || changed || err != nil {
					t.Fatal("opted out without a file", err)
				}
			}
			if err := o.Check(u, noAddr); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if reads < 7 || reads > 10 {
			t.Errorf("read %d times in an hour of claims, want 7 to 10", reads)
		}
		// At most maxRead after the file is there, it is obeyed.
		begin = time.Now()
		for o.Check(u, noAddr) == nil {
			time.Sleep(time.Second)
			o.Claim(origin)
			if o.Due(u, time.Now()) != "" {
				_, _, _ = o.Read(origin, file, true, time.Now())
			}
		}
		if took := time.Since(begin); took > 10*time.Minute {
			t.Errorf("obeyed after %v, want at most 10m", took)
		}
		if saved[origin].IsZero() {
			t.Error("the opt-out was not saved")
		}
	})
}

// An opt-out holds for both usual ports, and ends as its file says, or when that is gone.
func TestOptOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		saved := map[string]time.Time{}
		o := optOuts(saved)
		now := time.Now()
		read := func(text string, reached bool) bool {
			out, _, err := o.Read("https://a.example", []byte(text), reached, now)
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		if !read(string(file), true) {
			t.Fatal("not obeyed")
		}
		for u, denied := range map[store.URL]bool{
			"http://a.example/": true, "https://a.example/x": true, "http://a.example:8080/": false,
			"http://b.a.example/": false, "https://a.example" + OptOutPath: false, "": false,
			"http://a.example/x" + OptOutPath: true,
		} {
			err := o.Check(u, noAddr)
			if (err != nil) != denied || denied && !errors.Is(err, ErrDenied) {
				t.Errorf("%s: %v, denied should be %v", u, err, denied)
			}
		}
		again := optOuts(saved)
		if again.Check("http://a.example/", noAddr) == nil {
			t.Error("forgotten at a restart")
		}
		// Others cannot end it: another origin of the site without a file changes nothing.
		o.Claim("http://a.example")
		if _, _, err := o.Read("http://a.example", nil, true, now); err != nil {
			t.Fatal(err)
		}
		if o.Check("http://a.example/", noAddr) == nil {
			t.Error("ended by another origin")
		}
		// It is read again when its time has passed, and obeyed while the site does not answer.
		now = now.Add(OptOutLifetime)
		if due := o.Due("http://a.example/", now); due != "https://a.example"+OptOutPath {
			t.Errorf("due after its lifetime: %q", due)
		}
		if !read("", false) || o.Due("http://a.example/", now) != "" {
			t.Error("ended because the site does not answer")
		}
		if now = now.Add(time.Hour); read("crawler: peerd\nuntil: 1999-12-31", true) ||
			o.Check("http://a.example/", noAddr) != nil || len(saved) != 0 {
			t.Errorf("obeyed after the day in the file; saved %v", saved)
		}
	})
}

// Claims about others do not evict what is obeyed, and take bounded memory.
func TestClaimsAreBounded(t *testing.T) {
	o := optOuts(map[string]time.Time{})
	now := time.Now()
	_, _, _ = o.Read("http://a.example", file, true, now)
	for i := range 3 * maxClaims {
		o.Claim(fmt.Sprintf("http://%d.example", i))
	}
	if len(o.claims) != maxClaims || o.Check("http://a.example/", noAddr) == nil {
		t.Errorf("%d claims, want %d, and one site that is obeyed", len(o.claims), maxClaims)
	}
	if all := o.All(); len(all) != 1 || !slices.Contains([]string{"http://a.example"}, all[0].Origin) {
		t.Errorf("All() = %v", all)
	}
}

// A site is obeyed when there is no more room: then another one is forgotten, also on disk, and its
// file is read before the next request to it.
func TestObeyedAreBounded(t *testing.T) {
	saved := map[string]time.Time{}
	now := time.Now()
	for i := range maxObeyed {
		saved[fmt.Sprintf("http://%d.example", i)] = now.Add(OptOutLifetime)
	}
	o := optOuts(saved)
	all := o.All()
	const origin = "https://last.example"
	o.Claim(origin)
	if out, changed, err := o.Read(origin, file, true, now); !out || !changed || err != nil {
		t.Fatalf("read with a full table: %v, %v, %v; want it obeyed", out, changed, err)
	}
	if o.Check(origin+"/", noAddr) == nil || saved[origin].IsZero() {
		t.Error("a site that has opted out is not obeyed, or not saved")
	}
	if len(o.obeyed) != maxObeyed || len(saved) != maxObeyed {
		t.Errorf("%d sites are obeyed, %d saved, want %d", len(o.obeyed), len(saved), maxObeyed)
	}
	for _, a := range all {
		if saved[a.Origin].IsZero() && o.Due(store.URL(a.Origin+"/"), now) == "" {
			t.Errorf("%s was forgotten, but its file is not due", a.Origin)
		}
	}

	saved = map[string]time.Time{}
	o = optOuts(saved)
	for i := range 3 * maxOfHost {
		name := fmt.Sprintf("http://a.example:%d", 8000+i)
		if out, _, err := o.Read(name, file, true, now); !out || err != nil {
			t.Fatalf("read %s: %v, %v; want it obeyed", name, out, err)
		}
		if out, _, err := o.Read(name, file, true, now); !out || err != nil {
			t.Fatalf("read %s again: %v, %v; want it obeyed", name, out, err)
		}
	}
	if len(o.obeyed) != maxOfHost || len(saved) != maxOfHost {
		t.Errorf("%d origins of a host are obeyed, %d saved, want %d", len(o.obeyed), len(saved),
			maxOfHost)
	}
}

// The opt-out of a host is looked up among those of its origins only.
func TestUntil(t *testing.T) {
	now := time.Unix(1e9, 0)
	var saved []OptOut
	for i := range 10_000 {
		saved = append(saved, OptOut{fmt.Sprintf("https://%d.example", i), now})
	}
	saved = append(saved, OptOut{"http://7.example:8080", now.Add(2)},
		OptOut{"https://[2001:db8::1]:8443", now.Add(3)})
	o := NewOptOuts(saved, nil)
	for host, want := range map[string]time.Time{"7.example": now.Add(2), "8.example": now,
		store.URL("https://[2001:db8::1]:8443/").Host(): now.Add(3), "none.example": {}} {
		if got := o.Until(host); !got.Equal(want) {
			t.Errorf("Until(%s) = %v, want %v", host, got, want)
		}
	}
	if _, _, err := o.Read("http://7.example:8080", nil, true, now); err != nil {
		t.Fatal(err)
	}
	if got := o.Until("7.example"); !got.Equal(now) {
		t.Errorf("Until() = %v after one of two origins has ended it, want %v", got, now)
	}
	if n := testing.AllocsPerRun(10, func() { o.Until("7.example") }); n > 0 {
		t.Errorf("%v allocations for a look-up, want 0", n)
	}
}

func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := Open("", nil)
		if err != nil {
			t.Fatal(err)
		}
		l.OptOuts = optOuts(nil)
		addr := netip.MustParseAddr("192.0.2.7")
		if !l.OptOuts.Stop(addr, time.Now()) {
			t.Fatal("no room")
		}
		time.Sleep(MaxStop - time.Second)
		err = l.Check("http://a.example/", netip.MustParseAddr("::ffff:192.0.2.7"))
		if !errors.Is(err, ErrStopped) || !errors.Is(err, ErrDenied) {
			t.Errorf("stopped address: %v", err)
		}
		if err := l.Check("http://a.example/", addr.Next()); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		if err := l.Check("http://a.example/", addr); err != nil {
			t.Errorf("after the stop: %v", err)
		}
		for range maxStops {
			l.OptOuts.Stop(addr, time.Now())
			addr = addr.Next()
		}
		if l.OptOuts.Stop(addr, time.Now()) || !l.OptOuts.Stop(addr.Prev(), time.Now()) {
			t.Error("without room, want that only an address that is stopped already is stopped")
		}
	})
}
