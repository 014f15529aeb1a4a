package attack

import (
	"reflect"
	"testing"
	"time"

	"peerd/node/admin"
)

// TestJudgeTrust verifies what the report says of honest peers that know a hostile one.
func TestJudgeTrust(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	check := func(after time.Duration, agrees bool) admin.ReportCheck {
		return admin.ReportCheck{At: begin.Add(after), Agrees: agrees}
	}
	c := &campaign{asked: map[askedBy]time.Time{
		{"a", "x"}: begin, {"b", "x"}: begin.Add(time.Minute), {"c", "x"}: begin,
	}}
	c.report.Asked, c.report.LiesFound, c.report.LiarsFound = []int{0}, []int{0}, []int{0}
	for honest, p := range map[string]admin.Peer{
		"a": {Trust: "liar", Checks: []admin.ReportCheck{check(time.Minute, true),
			check(2*time.Minute, false), check(5*time.Minute, false)}},
		"b": {Trust: "doubted", Checks: []admin.ReportCheck{check(2*time.Minute, false)}},
		"c": {Trust: "untested"}, // asked, and not answered
		"d": {},
	} {
		p.PeerID = "x"
		c.judgeTrust(honest, 0, p)
	}
	if r := c.report; r.Asked[0] != 3 || r.LiesFound[0] != 2 || r.LiarsFound[0] != 1 {
		t.Errorf("%v asked it, %v found a lie, %v the liar; want 3, 2 and 1", r.Asked,
			r.LiesFound, r.LiarsFound)
	}
	got := [2]Spread{spreadOf(c.doubted), spreadOf(c.found)}
	want := [2]Spread{{2 * time.Minute, 2 * time.Minute}, {5 * time.Minute, 5 * time.Minute}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("doubted and found after %v, want %v", got, want)
	}
}
