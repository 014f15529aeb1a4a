package config

import (
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"
)

// A setting is replaced or added, and everything else stays, comments and all.
func TestSet(t *testing.T) {
	h, err := Init(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(h.ConfigFile())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range [][2]string{
		{"contact", "https://example.org/"}, {"crawl.hours", "22:00-06:00"}, {"mdns", "true"},
		{"crawl.pages_per_day", "5000"}, {"crawl.pages_per_day", "6000"},
		{"bootstrap", "[\n]"[:1] + "]"}, {"crawl.min_delay", "2s"}, {"crawl.shares.own", "0.5"},
		{"listen", `["/ip4/127.0.0.1/tcp/1"]`}, {"archive.max_file", "2GiB"},
	} {
		if err := h.Set(kv[0], kv[1]); err != nil {
			t.Errorf("Set(%q, %q) = %v", kv[0], kv[1], err)
		}
	}
	c, err := h.Load()
	if err != nil || c.Contact != "https://example.org/" || c.Crawl.Hours != "22:00-06:00" ||
		!c.MDNS || c.Crawl.PagesPerDay != 6000 || c.Crawl.MinDelay.Duration != 2*time.Second ||
		c.Crawl.Shares.Own != .5 || len(c.Listen) != 1 || c.Archive.MaxFile != 2<<30 {
		t.Errorf("Load() = %+v, %v", c, err)
	}
	after, err := os.ReadFile(h.ConfigFile())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(before)) {
		if !strings.Contains(string(after), line) {
			t.Errorf("the line %q is lost", line)
		}
	}
	if n := strings.Count(string(after), "\npages_per_day = "); n != 1 {
		t.Errorf("pages_per_day is set %d times", n)
	}
	for _, kv := range [][2]string{{"crawl.pages_per_day", "-1"}, {"crawl.hours", "night"},
		{"mdns", "1"}, {"nothing", "1"}, {"contact", "a\nmdns = false"}, {"crawl", "{}"}} {
		if err := h.Set(kv[0], kv[1]); !errors.Is(err, ErrInvalid) {
			t.Errorf("Set(%q, %q) = %v, want ErrInvalid", kv[0], kv[1], err)
		}
	}
	for _, kv := range [][3]string{{"crawl.fetch_workers", "0", "is 0, want 1 to"},
		{"crawl.hours", "night", "not a span of hours"}} {
		if err := h.Set(kv[0], kv[1]); err == nil || !strings.Contains(err.Error(), kv[2]) {
			t.Errorf("Set(%q, %q) = %v, want %q", kv[0], kv[1], err, kv[2])
		}
	}
	if again, _ := os.ReadFile(h.ConfigFile()); string(again) != string(after) {
		t.Error("a refused value has changed the file")
	}
}

// A value of several lines is replaced as a whole, and the comment after it stays.
func TestSetLines(t *testing.T) {
	text := "listen = [ # two\n  'a',\n  'b',\n]\n# the address\napi = 'x'\n[crawl]\nhours = ''\n"
	want := "listen = []\n# the address\napi = 'x'\n[crawl]\nhours = ''\n"
	if got := string(setLine([]byte(text), "listen", "[]")); got != want {
		t.Errorf("setLine() = %q, want %q", got, want)
	}
	if got := string(setLine([]byte("api = 'x'"), "archive.enabled", "true")); got !=
		"api = 'x'\n[archive]\nenabled = true\n" {
		t.Errorf("setLine() = %q", got)
	}
}

// A setting is found as the file has it: keys are read regardless of case, may have dots, and may
// be in a table on one line.
func TestSetAsWritten(t *testing.T) {
	for _, text := range []string{"Contact = 'https://a.example/'\n[crawl]\nhours = 'never'\n",
		"contact = 'https://a.example/'\n[Crawl]\nHours = 'never'\n",
		"contact = 'https://a.example/'\ncrawl.hours = 'never'\n",
		"[crawl]\nhours = 'never'\nshares = { own = 0.1, assigned = 0.8, estimations = 0.1 }\n",
	} {
		h, err := Init(t.TempDir())
		if err == nil {
			err = os.WriteFile(h.ConfigFile(), []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		err = errors.Join(h.Set("contact", "https://b.example/"), h.Set("crawl.hours", "1:00-2:00"),
			h.Set("crawl.shares.own", "0.5"))
		if c, e := h.Load(); err != nil || e != nil || c.Contact != "https://b.example/" ||
			c.Crawl.Hours != "1:00-2:00" || c.Crawl.Shares != (Shares{0.5, 0.8, 0.1}) {
			t.Errorf("%q: %v, %v: %q, %q, %v", text, err, e, c.Contact, c.Crawl.Hours,
				c.Crawl.Shares)
		}
	}
}

// Every setting can be shown alone.
func TestText(t *testing.T) {
	c := Default()
	for _, key := range Keys() {
		if text, err := c.Text(key); err != nil || strings.TrimSpace(text) == "" &&
			key != "crawl.resolve" && key != "archive.max_body" && key != "local_sites" {
			t.Errorf("Text(%s) = %q, %v", key, text, err)
		}
	}
	if text, err := c.Text("crawl.min_delay"); err != nil || strings.TrimSpace(text) != "'1s'" {
		t.Errorf("Text(crawl.min_delay) = %q, %v", text, err)
	}
	c.Crawl.Resolve = map[string][]netip.Addr{
		"a.example": {netip.MustParseAddr("192.0.2.1")}, "b.example": {netip.IPv6Loopback()}}
	if text, err := c.Text("crawl.resolve"); err != nil ||
		text != "'a.example' = ['192.0.2.1']\n'b.example' = ['::1']\n" {
		t.Errorf("Text(crawl.resolve) = %q, %v", text, err)
	}
	if all, err := c.Text(""); err != nil || !strings.Contains(all, "[crawl]") {
		t.Errorf("Text() = %q, %v", all, err)
	}
	if _, err := c.Text("x"); !errors.Is(err, ErrInvalid) {
		t.Errorf("Text(x) = %v", err)
	}
}
