package main

import (
	"testing"
	"time"
)

func TestExportFilter(t *testing.T) {
	noon := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		since, host, page string
		want              bool
	}{
		{"", "", "http://a.example/", true},
		{"2026-01-31", "", "http://a.example/", true},
		{"2026-02-01", "", "http://a.example/", false},
		{"2026-01-31T12:00:00Z", "", "http://a.example/", true},
		{"2026-01-31T12:00:01Z", "", "http://a.example/", false},
		{"2026-01-31T12:30:00+01:00", "", "http://a.example/", true},
		{"", "A.example", "https://a.example:8443/x", true},
		{"", "a.example", "http://b.a.example/", false},
		{"2026-02-01", "a.example", "http://a.example/", false},
	} {
		since, err := parseSince(c.since)
		if err != nil {
			t.Errorf("parseSince(%q) = %v, want no error", c.since, err)
		}
		f := exportFilter{host: c.host, since: since}
		if got := f.has(c.page, noon); got != c.want {
			t.Errorf("%+v has %s of noon: %v, want %v", f, c.page, got, c.want)
		}
	}
	if _, err := parseSince("yesterday"); err == nil {
		t.Error("parseSince(yesterday) = nil, want an error")
	}
}
