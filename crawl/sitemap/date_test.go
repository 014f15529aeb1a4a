package sitemap

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "peerd/internal/rapidtest"
)

func TestParseDate(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"1997", "1997-01-01T00:00:00Z"},
		{"1997-07", "1997-07-01T00:00:00Z"},
		{"1997-07-16", "1997-07-16T00:00:00Z"},
		{"1997-07-16T19:20+01:00", "1997-07-16T18:20:00Z"},
		{"1997-07-16T19:20:30+01:00", "1997-07-16T18:20:30Z"},
		{"1997-07-16T19:20:30.45+01:00", "1997-07-16T18:20:30.45Z"},
		{"1997-07-16T19:20:30,45Z", "1997-07-16T19:20:30.45Z"},
		{"1997-07-16t19:20:30z", "1997-07-16T19:20:30Z"},
		{"1997-07-16T19:20:30+0100", "1997-07-16T18:20:30Z"},
		{"1997-07-16T19:20:30", "1997-07-16T19:20:30Z"},
		{"1997-07-16 19:20:30", "1997-07-16T19:20:30Z"},
		{"1997-07-16 19:20:30 +0100", "1997-07-16T18:20:30Z"},
		{"1997-07-16 19:20:30 UTC", "1997-07-16T19:20:30Z"},
		{" 1997-07-16\n", "1997-07-16T00:00:00Z"},
		{"Wed, 16 Jul 1997 19:20:30 GMT", "1997-07-16T19:20:30Z"},
		{"Tue, 16 Jul 1997 19:20:30 +0200", "1997-07-16T17:20:30Z"}, // a Wednesday
		{"Wed, 16 Jul 97 19:20 EDT", "1997-07-16T23:20:00Z"},
		{"Wed, 6 jul 1997 19:20:30 PST", "1997-07-07T03:20:30Z"},
		{"6 Jul 1997 19:20:30 UT", "1997-07-06T19:20:30Z"},
		{"06 Jul 1997 19:20:30 -00:30 (x)", "1997-07-06T19:50:30Z"},
		{"Wed, 16 Jul 1997 19:20:30 A", "1997-07-16T19:20:30Z"},
		{"Wed, 16 Jul 1997 19:20:30", "1997-07-16T19:20:30Z"},
		{"", ""}, {"x", ""}, {"1997-13", ""}, {"1997-02-30", ""}, {"0001-01-01", ""},
		{"1969-12-31", ""},
		{"97-07-16", ""}, {"yesterday at noon", ""}, {"1721145600", ""},
		{strings.Repeat("1", 1000), ""},
	} {
		got, ok := parseDate(c.in)
		if s := got.Format(time.RFC3339Nano); ok != (c.want != "") || ok && s != c.want {
			t.Errorf("parseDate(%q) = %s, %v; want %q", c.in, s, ok, c.want)
		}
	}
}

func TestParseFormattedDate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		zone := time.FixedZone("", 60*rapid.IntRange(-12*60, 14*60).Draw(t, "zone"))
		want := time.Unix(rapid.Int64Range(86400, 4e9).Draw(t, "seconds"), 0).In(zone)
		layout := rapid.SampledFrom([]string{time.RFC3339, time.RFC1123Z,
			"2006-01-02T15:04:05-0700", "2 Jan 2006 15:04:05 -0700"}).Draw(t, "layout")
		if got, ok := parseDate(want.Format(layout)); !ok || !got.Equal(want) {
			t.Errorf("%s: %v, %v", want.Format(layout), got, ok)
		}
	})
}
