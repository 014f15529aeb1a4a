package fetch

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func TestRetryAfter(t *testing.T) {
	tests := []struct {
		value string
		want  time.Duration
	}{
		{"", 0},
		{"0", 0},
		{"120", 2 * time.Minute},
		{" 7 ", 7 * time.Second},
		{"86400", 24 * time.Hour},
		{"86401", 24 * time.Hour},
		{strings.Repeat("9", 400), 24 * time.Hour},
		{"-1", 0},
		{"+1", 0},
		{"1.5", 0},
		{"1e3", 0},
		{"soon", 0},
		{"٣", 0},
		{noon.Add(90 * time.Second).Format(http.TimeFormat), 90 * time.Second},
		{noon.Add(90 * time.Second).Format(time.RFC850), 90 * time.Second},
		{noon.Add(90 * time.Second).Format(time.ANSIC), 90 * time.Second},
		{noon.Add(-time.Hour).Format(http.TimeFormat), 0},
		{noon.Add(99 * time.Hour).Format(http.TimeFormat), 24 * time.Hour},
		{"Fri, 31 Dec 9999 23:59:59 GMT", 24 * time.Hour},
		{"Mon, 01 Jan 0001 00:00:00 GMT", 0},
	}
	for _, tt := range tests {
		if got := retryAfter(tt.value, noon); got != tt.want {
			t.Errorf("retryAfter(%q) = %v, want %v", tt.value, got, tt.want)
		}
	}
}

func TestKeepAlive(t *testing.T) {
	tests := []struct {
		value string
		want  time.Duration
		ok    bool
	}{
		{"", 0, false},
		{"timeout=5, max=100", 4 * time.Second, true},
		{"max=100,Timeout = 15", 14 * time.Second, true},
		{"timeout=1", 0, true},
		{"timeout=0", 0, true},
		{"timeout=", 0, false},
		{"timeout=-3", 0, false},
		{"timeout=99999999999999999999", time.Hour - time.Second, true},
		{"5", 0, false},
	}
	for _, tt := range tests {
		if got, ok := keepAlive(tt.value); got != tt.want || ok != tt.ok {
			t.Errorf("keepAlive(%q) = %v, %v, want %v, %v", tt.value, got, ok, tt.want, tt.ok)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"", "5", "-5", strings.Repeat("9", 40), noon.Format(http.TimeFormat),
		"Mon, 01 Jan 0001 00:00:00 GMT"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d := retryAfter(s, noon)
		if d < 0 || d > maxRetryAfter {
			t.Errorf("retryAfter(%q) = %v", s, d)
		}
		if padded := retryAfter(" "+s+"\t", noon); padded != d {
			t.Errorf("retryAfter(%q) = %v, with spaces %v", s, d, padded)
		}
	})
}

func FuzzKeepAlive(f *testing.F) {
	f.Add("timeout=5, max=100")
	f.Add("timeout=99999999999999999999")
	f.Fuzz(func(t *testing.T, s string) {
		if d, ok := keepAlive(s); d < 0 || d >= time.Hour || d > 0 && !ok {
			t.Errorf("keepAlive(%q) = %v, %v", s, d, ok)
		}
	})
}
