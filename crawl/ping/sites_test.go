package ping

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"peerd/store"
)

const (
	key  = "0123456789abcdef"
	key2 = "fedcba9876543210"
)

var start = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

func notice(t *testing.T, page, key string) Notice {
	t.Helper()
	n, err := New(page, key, "")
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// ask fails unless the answer is want.
func ask(t *testing.T, s *Sites, n Notice, now time.Time, want Answer) (forgotten []store.URL) {
	t.Helper()
	a, forgotten := s.Ask(n, now)
	if a != want {
		t.Fatalf("%s: answer %d, want %d", n.URL(), a, want)
	}
	return forgotten
}

// next fails unless a file of want is due; "": none.
func next(t *testing.T, s *Sites, now time.Time, want store.URL) Claim {
	t.Helper()
	c, ok := s.Next(now)
	if ok != (want != "") || c.File != want {
		t.Fatalf("next file is %q, want %q", c.File, want)
	}
	return c
}

func TestProved(t *testing.T) {
	s := NewSites()
	a, b := notice(t, "https://a.test/1", key), notice(t, "https://a.test/2", key)
	ask(t, s, a, start, Wait)
	ask(t, s, a, start, Wait)
	ask(t, s, b, start, Wait)
	c := next(t, s, start, a.File)
	next(t, s, start, "") // one at a time
	if got := s.Read(c, Present, start); len(got) != 2 || got[0] != a.URL() || got[1] != b.URL() {
		t.Fatalf("settled %v", got)
	}
	ask(t, s, a, start, Believed)
	ask(t, s, b, start.Add(proofLifetime-1), Believed)
	// Another key of the site, and the same key at another origin, prove nothing.
	ask(t, s, notice(t, "https://a.test/1", key2), start, Wait)
	ask(t, s, notice(t, "http://a.test/1", key), start, Wait)
	ask(t, s, a, start.Add(proofLifetime), Wait)
}

// Whatever number of keys is claimed, by whatever number of notices and on all ports, one file of a
// site is read in a while that gets longer, and nothing is believed.
func TestForged(t *testing.T) {
	s := NewSites()
	reads := 0
	for i := range 24 * 360 {
		now := start.Add(time.Duration(i) * 10 * time.Second)
		ask(t, s, notice(t, fmt.Sprintf("https://a.test:%d/%d", i+1, i), fmt.Sprintf("forged-%d", i)),
			now, Wait)
		if c, ok := s.Next(now); ok {
			reads++
			s.Read(c, Absent, now)
		}
	}
	if reads < 24 || reads > 32 {
		t.Errorf("%d key files read in a day, want one an hour and some more at first", reads)
	}
	if n := len(s.sites["a.test"].claimed); n > maxClaims {
		t.Errorf("%d claims wait, want at most %d", n, maxClaims)
	}
}

// Among forged claims, the true one is found.
func TestTrueAmongForged(t *testing.T) {
	s := NewSites()
	n := notice(t, "https://a.test/1", key)
	ask(t, s, n, start, Wait)
	for i := range maxClaims - 1 {
		ask(t, s, notice(t, "https://a.test/1", fmt.Sprintf("forged-%d", i)), start, Wait)
	}
	now := start
	for range maxClaims {
		c, ok := s.Next(now)
		if !ok {
			t.Fatal("no file is due")
		}
		if c.Key == key {
			s.Read(c, Present, now)
			ask(t, s, n, now, Believed)
			return
		}
		s.Read(c, Absent, now)
		now = now.Add(maxRead)
	}
	t.Error("the file of the true key was not read")
}

func TestUnreached(t *testing.T) {
	s, now, tries := NewSites(), start, 0
	n := notice(t, "https://a.test/1", key)
	ask(t, s, n, now, Wait)
	for ; len(s.sites["a.test"].claimed) > 0; tries++ {
		s.Read(next(t, s, now, n.File), Unreached, now)
		next(t, s, now, "")
		now = now.Add(maxRead)
	}
	if tries != maxTries {
		t.Errorf("forgotten after %d tries, want %d", tries, maxTries)
	}
	ask(t, s, n, now, Wait)
	if got := s.Read(next(t, s, now, n.File), Moved, now); len(got) != 1 {
		t.Errorf("settled %v of a host that has moved", got)
	}
	ask(t, s, n, now, Wait) // not believed
}

func TestLimits(t *testing.T) {
	s := NewSites()
	n := notice(t, "https://a.test/1", key)
	ask(t, s, n, start, Wait)
	s.Read(next(t, s, start, n.File), Present, start)
	for range MaxPerDay {
		ask(t, s, n, start, Believed)
	}
	ask(t, s, n, start, Refused)
	s.Read(Claim{n.File, key}, Present, start.Add(23*time.Hour))
	ask(t, s, n, start.Add(24*time.Hour), Believed) // the next day

	waiting := 0
	for i := range 2 * maxSites {
		for k := range 4 {
			n := notice(t, fmt.Sprintf("https://%d.test/%d", i, k), key)
			if a, _ := s.Ask(n, start); a == Wait {
				waiting++
			}
		}
	}
	if waiting != maxNotices || s.waiting != maxNotices || len(s.sites) > maxSites {
		t.Errorf("%d notices of %d sites wait, want %d of at most %d", waiting, len(s.sites),
			maxNotices, maxSites)
	}
	s = NewSites()
	for i := range 2 * maxSites { // sites with one read in vain are forgotten when there are many
		n := notice(t, fmt.Sprintf("https://%d.test/", i), key)
		now := start.Add(time.Duration(i) * time.Second)
		ask(t, s, n, now, Wait)
		s.Read(next(t, s, now, n.File), Absent, now)
	}
	if len(s.sites) != maxSites {
		t.Errorf("%d sites are known, want %d", len(s.sites), maxSites)
	}
}

// When there are too many claims, the notices of one are forgotten.
func TestForgotten(t *testing.T) {
	s := NewSites()
	for i := range maxClaims {
		ask(t, s, notice(t, "https://a.test/1", fmt.Sprintf("forged-%d", i)), start, Wait)
	}
	if got := ask(t, s, notice(t, "https://a.test/1", key), start, Wait); len(got) != 1 ||
		!strings.HasPrefix(string(got[0]), "https://a.test/1#forged-") {
		t.Errorf("forgotten %v, want a notice", got)
	}
	if s.waiting != maxClaims {
		t.Errorf("%d notices wait, want %d", s.waiting, maxClaims)
	}
}

func TestIn(t *testing.T) {
	for text, want := range map[string]bool{key: true, key + "\n": true,
		"\ufeff" + key + "\r\n": true, "": false, key + key2: false,
		"<p>" + key: false, key + "\n" + key2: false} {
		if got := (Claim{Key: key}).In([]byte(text)); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestNotices(t *testing.T) {
	for _, c := range []struct {
		page, key, file string
		want            string // URL of the notice
		err             error
	}{
		{"https://A.test/x?y#z", key, "", "https://a.test/x?y#" + key, nil},
		{"https://a.test/x", key, "https://a.test/" + key + ".txt", "https://a.test/x#" + key, nil},
		{"https://a.test/d/e/x", key, "https://a.test/d/k.txt?v=/", "https://a.test/d/e/x#" + key +
			",/d/k.txt?v=/", nil},
		{"https://a.test/x", key, "https://a.test/d/k.txt", "", ErrURL},
		{"https://a.test/d/../x", key, "https://a.test/d/k.txt", "", ErrURL},
		{"https://a.test/x", key, "https://b.test/k.txt", "", ErrURL},
		{"https://a.test/x", key, "http://a.test/k.txt", "", ErrURL},
		{"https://a.test/x", key, "https://a.test:8443/k.txt", "", ErrURL},
		{"mailto:a", key, "", "", ErrURL},
		{"https://a.test/" + strings.Repeat("x", 2030), key, "", "", ErrURL},
		{"https://a.test/x", "short", "", "", ErrKey},
		{"https://a.test/x", key + ",/", "", "", ErrKey},
		{"https://a.test/x", strings.Repeat("k", 129), "", "", ErrKey},
	} {
		n, err := New(c.page, c.key, c.file)
		if !errors.Is(err, c.err) || err == nil && string(n.URL()) != c.want {
			t.Errorf("New(%.40q, %.20q, %q): %v, %v; want %q, %v", c.page, c.key, c.file, n, err,
				c.want, c.err)
		}
		if err == nil {
			if got, err := Parse(n.URL()); got != n || err != nil {
				t.Errorf("parsed %v: %v, %v", n, got, err)
			}
		}
	}
	for _, u := range []store.URL{"", "https://a.test/x", "https://a.test/x#",
		"https://A.test/#" + key,
		"https://a.test/x#" + key + ",/" + key + ".txt", "https://a.test/x#" + key + ",/d/k.txt",
		"https://a.test/x#" + key + ",@b.test/k.txt", "#" + key} {
		if n, err := Parse(u); err == nil {
			t.Errorf("%q: parsed as %v", u, n)
		}
	}
}

func TestRequests(t *testing.T) {
	many := `"https://a.test/1"` + strings.Repeat(`,"https://a.test/1"`, MaxPages)
	for _, c := range []struct {
		body string
		want int
		err  error
	}{
		{`{"host":"A.test","key":"` + key +
			`","urlList":["https://a.test/1","http://a.test:81/2"]}`, 2, nil},
		{`{"host":"a.test","key":"` + key + `","keyLocation":"https://a.test/k","urlList":` +
			`["https://a.test/1"],"more":{}}`, 1, nil},
		{`{"host":"a.test","key":"` + key + `","urlList":["https://b.test/1"]}`, 0, ErrURL},
		{`{"host":"a.test","key":"k","urlList":["https://a.test/1"]}`, 0, ErrKey},
		{`{"host":"a.test","key":"` + key + `","urlList":[]}`, 0, ErrForm},
		{`{"host":"a.test","key":"` + key + `","urlList":[` + many + `]}`, 0, ErrForm},
		{`{"host":"","key":"` + key + `","urlList":["https://a.test/1"]}`, 0, ErrForm},
		{`[]`, 0, ErrForm}, {``, 0, ErrForm}, {strings.Repeat(" ", MaxBody+1), 0, ErrForm},
	} {
		all, err := FromJSON([]byte(c.body))
		if len(all) != c.want || !errors.Is(err, c.err) {
			t.Errorf("%.80s: %d pages, %v; want %d, %v", c.body, len(all), err, c.want, c.err)
		}
	}
	q, err := url.ParseQuery("url=https%3A%2F%2Fa.test%2Fx&key=" + key +
		"&keyLocation=https://a.test/k.txt")
	if err != nil {
		t.Fatal(err)
	}
	all, err := FromQuery(q)
	want := Notice{"https://a.test/x", "https://a.test/k.txt", key}
	if err != nil || len(all) != 1 || all[0] != want {
		t.Errorf("%v, %v", all, err)
	}
	q.Del("key")
	if _, err := FromQuery(q); !errors.Is(err, ErrForm) {
		t.Errorf("a ping without a key: %v", err)
	}
}

// What Parse accepts is one notice, of which the file is of the page's origin.
func FuzzParse(f *testing.F) {
	f.Add("https://a.test/x#" + key)
	f.Add("https://a.test/d/x#" + key + ",/d/k.txt?q")
	f.Fuzz(func(t *testing.T, u string) {
		n, err := Parse(store.URL(u))
		if err != nil {
			return
		}
		if string(n.URL()) != u || n.File.Origin() != n.Page.Origin() || len(u) > maxNotice {
			t.Errorf("%q: %+v", u, n)
		}
	})
}

func FuzzFromJSON(f *testing.F) {
	f.Add([]byte(`{"host":"a.test","key":"` + key + `","urlList":["https://a.test/1"]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		all, err := FromJSON(body)
		if err != nil && len(all) != 0 || len(all) > MaxPages {
			t.Errorf("%d pages, %v", len(all), err)
		}
		for _, n := range all {
			if got, err := Parse(n.URL()); got != n || err != nil {
				t.Errorf("%v: %v, %v", n, got, err)
			}
		}
	})
}
