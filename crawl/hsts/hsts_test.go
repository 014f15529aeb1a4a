package hsts

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		field string
		age   time.Duration
		sub   bool
		ok    bool
	}{
		{"max-age=31536000", 31536000 * time.Second, false, true},
		{"max-age=15768000 ; includeSubDomains", 15768000 * time.Second, true, true},
		{`max-age="31536000"`, 31536000 * time.Second, false, true},
		{"MAX-AGE=0; INCLUDESUBDOMAINS", 0, true, true},
		{" ;; max-age = 10;preload; foo=\"bar\";", 10 * time.Second, false, true},
		{"max-age=99999999999999999999999", maxAge, false, true},
		{"max-age=9999999999", maxAge, false, true},
		{"max-age=10; max-age=20", 0, false, false},
		{"includeSubDomains; max-age=1; includesubdomains", 0, false, false},
		{"includeSubDomains", 0, false, false},
		{"max-age", 0, false, false},
		{"max-age=", 0, false, false},
		{"max-age=-1", 0, false, false},
		{"max-age=1.5", 0, false, false},
		{"", 0, false, false},
	} {
		p, ok := Parse(tt.field, now)
		if ok != tt.ok || ok && (p.Expires.Sub(now) != tt.age || p.SubDomains != tt.sub) {
			t.Errorf("Parse(%q) = %v, %v; want %v, %v, %v", tt.field, p, ok, tt.age, tt.sub, tt.ok)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`max-age="1"; includeSubDomains; x`)
	f.Fuzz(func(t *testing.T, field string) {
		p, ok := Parse(field, now)
		if ok && (p.Expires.Before(now) || p.Expires.Sub(now) > maxAge) {
			t.Errorf("%q: expires %v", field, p.Expires)
		}
	})
}

func TestSet(t *testing.T) {
	s := New(3)
	const day = 24 * time.Hour
	note := func(at time.Time, host, field string, want ...Change) {
		t.Helper()
		if got := s.Note(host, field, at); !slices.Equal(got, want) {
			t.Errorf("Note(%q, %q) = %v, want %v", host, field, got, want)
		}
	}
	plain := Policy{Expires: now.Add(10 * day)}
	note(now, "a.example", "max-age=864000", Change{Host: "a.example", Policy: plain})
	note(now.Add(time.Hour), "a.example", "max-age=864000") // little has changed
	later := Policy{Expires: now.Add(12 * day)}
	note(now.Add(2*day), "a.example", "max-age=864000", Change{Host: "a.example", Policy: later})
	below := Policy{Expires: now.Add(10 * day), SubDomains: true}
	note(now, "b.example", "max-age=864000; includeSubDomains",
		Change{Host: "b.example", Policy: below})
	note(now, "192.0.2.1", "max-age=864000")
	note(now, "2001:db8::1", "max-age=864000")
	note(now, "c.example", "max-age=0")
	note(now, "c.example", "nonsense")
	for host, want := range map[string]bool{
		"a.example": true, "www.a.example": false, "b.example": true, "www.b.example": true,
		"x.y.b.example": true, "bb.example": false, "example": false, "": false,
	} {
		if got := s.Applies(host, now); got != want {
			t.Errorf("Applies(%q) = %v, want %v", host, got, want)
		}
	}
	if s.Applies("b.example", now.Add(10*day)) {
		t.Error("a policy applies after its end")
	}
	// The fourth host replaces the one that was used least recently.
	note(now, "d.example", "max-age=864000", Change{Host: "d.example", Policy: plain})
	s.Applies("a.example", now)
	s.Applies("b.example", now)
	note(now, "e.example", "max-age=864000", Change{Host: "e.example", Policy: plain},
		Change{Host: "d.example", Delete: true})
	note(now, "a.example", "max-age=0", Change{Host: "a.example", Delete: true})
	if s.Applies("a.example", now) || s.Len() != 2 {
		t.Error("a policy applies after the host has withdrawn it")
	}
	if s.Load("f.example", Policy{Expires: now}, now) != "f.example" {
		t.Error("loaded a policy that has expired")
	}
	for i := range 5 {
		if s.Load(fmt.Sprint(i), plain, now) == fmt.Sprint(i) || s.Len() > 3 {
			t.Errorf("host %d was not loaded, or there are too many: %d", i, s.Len())
		}
	}
}
