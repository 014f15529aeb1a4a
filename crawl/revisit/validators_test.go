package revisit

import (
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestValidators(t *testing.T) {
	t.Parallel()
	const sunday, httpDate = "Sun, 22 Feb 2026 10:00:00 GMT", "Sun, 22 Feb 2026 10:00:00 GMT"
	for _, c := range []struct{ etag, modified, wantTag, wantDate string }{
		{`"abc"`, sunday, `"abc"`, httpDate},
		{`W/"abc"`, "", `W/"abc"`, ""},
		{`""`, "", `""`, ""},
		{`w/"abc"`, "", "", ""},
		{`abc`, "", "", ""},
		{`"abc`, "", "", ""},
		{`"`, "", "", ""},
		{`"a"b"`, "", "", ""},
		{`"a b"`, "", "", ""},
		{"\"a\r\nX: y\"", "Sun, 22 Feb 2026 10:00:00 GMT\r\nX: y", "", ""},
		{"\"a\x00\"", "", "", ""},
		{"\"\xc3\xbc\"", "", "", ""},
		{`"` + strings.Repeat("x", maxETag) + `"`, strings.Repeat("x", 1<<16), "", ""},
		{"", "Sunday, 22-Feb-26 10:00:00 GMT", "", httpDate}, // RFC 850
		{"", "Sun Feb 22 10:00:00 2026", "", httpDate},       // asctime
		{"", "2026-02-22", "", ""},
		{"", "Thu, 01 Jan 1970 00:00:00 GMT", "", ""},
		{"", "Sun, 01 Mar 2026 12:00:01 GMT", "", ""}, // after the visit
	} {
		var h History
		h.Observe(start, Observation{ETag: c.etag, LastModified: c.modified, Digest: [16]byte{1}})
		tag, date := Validators(h)
		if tag != c.wantTag || date != c.wantDate {
			t.Errorf("Validators() of %.40q, %.40q = %q, %q; want %q, %q",
				c.etag, c.modified, tag, date, c.wantTag,
				c.wantDate)
		}
	}
}

// A History may come from another peer: its contents are validated again.
func TestValidatorsOfForeignHistory(t *testing.T) {
	t.Parallel()
	tag, date := Validators(History{Visits: 1, Fetched: 100, ETag: "x\r\ny: z", Modified: 1 << 60})
	if tag != "" || date != "" {
		t.Errorf("Validators() = %q, %q", tag, date)
	}
}

func TestValidatorsFollowContent(t *testing.T) {
	t.Parallel()
	var h History
	h.Observe(start, Observation{ETag: `"1"`, Digest: [16]byte{1}})
	h.Observe(start.Add(time.Hour), Observation{Outcome: Failed, ETag: `"2"`})
	h.Observe(start.Add(2*time.Hour), Observation{Outcome: NotModified})
	if tag, _ := Validators(h); tag != `"1"` {
		t.Errorf("after a failure and a 304: %q", tag)
	}
	h.Observe(start.Add(3*time.Hour), Observation{Outcome: NotModified, ETag: `W/"1"`})
	if tag, _ := Validators(h); tag != `W/"1"` {
		t.Errorf("after a 304 with another tag: %q", tag)
	}
	h.Observe(start.Add(4*time.Hour), Observation{Digest: [16]byte{2}})
	if tag, _ := Validators(h); tag != "" {
		t.Errorf("after content without tag: %q", tag)
	}
}

func TestFullVisits(t *testing.T) {
	t.Parallel()
	var h History
	full := 0
	for i := range 4 * fullVisitEvery {
		if tag, _ := Validators(h); tag == "" {
			full++
		}
		h.Observe(start.Add(time.Duration(i)*time.Hour),
			Observation{ETag: `"1"`, Digest: [16]byte{1}})
	}
	if full != 4 {
		t.Errorf("%d of %d visits without validators, want 4", full, 4*fullVisitEvery)
	}
}

func FuzzObserve(f *testing.F) {
	f.Add(`"a"`, "Sun, 22 Feb 2026 10:00:00 GMT", byte(0), int64(3600))
	f.Add(`W/"a"`, "x", byte(1), int64(-1))
	f.Fuzz(func(t *testing.T, etag, modified string, outcome byte, after int64) {
		var h History
		h.Observe(start, Observation{ETag: etag, LastModified: modified, Digest: [16]byte{1}})
		h.Observe(time.Unix(start.Unix()+after%1e10, 0), Observation{Outcome: Outcome(outcome % 4),
			ETag: etag, LastModified: modified, Digest: [16]byte{outcome}})
		tag, date := Validators(h)
		if len(tag) > maxETag || !utf8.ValidString(tag) ||
			strings.ContainsAny(tag+date, "\r\n\x00") {
			t.Fatalf("%q, %q", tag, date)
		}
		if _, err := http.ParseTime(date); date != "" && err != nil {
			t.Fatal(err)
		}
		at, ok := DefaultPolicy().Next(h, [16]byte{})
		last := time.Unix(h.lastVisit(), 0)
		if ok && (at.Before(last.Add(time.Hour)) || at.After(last.Add(60*24*time.Hour))) {
			t.Fatalf("next visit %v after the last", at.Sub(last))
		}
	})
}
