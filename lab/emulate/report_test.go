package emulate

import (
	"encoding/json"
	"math"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"peerd/lab/emulate/web"
)

const ms = time.Millisecond

// input returns a crawl of two peers: peer 0 is ten times faster at a.test, peer 1 is
// 5 % faster at b.test.
func input() Input {
	return Input{
		Strategy: "proxy", Seed: 7, Peers: 2,
		Audit: web.Audit{Sites: 2, PagesExpected: 5, PagesFetched: 4, Fetches: 5,
			BareConnections: 4, RobotsViolations: 2, Lost: 6,
			Politeness: web.Politeness{Violations: 1, ByHost: 1}},
		Downloads: []Download{
			{Peer: 0, URL: "http://a.test:80/1", Took: 30 * ms},
			{Peer: 1, URL: "http://a.test:80/2", Took: 300 * ms, Estimation: true},
			{Peer: 0, URL: "http://b.test/1", Took: 105 * ms, Reused: true},
			{Peer: 0, URL: "http://b.test/2", Took: 105 * ms, Reused: true},
		},
		Subnets: []Subnet{
			{Prefix: netip.MustParsePrefix("10.0.1.0/24"), Hosts: []string{"a.test"}, Owner: 0,
				Estimations: 1},
			{Prefix: netip.MustParsePrefix("10.0.2.0/24"), Hosts: []string{"b.test"}, Owner: 0},
		},
		Exchanged: 10, ControlBytes: 4000, Probes: 3, Wall: 1500 * ms,
		PageTime: func(peer int, url string, reused bool) time.Duration {
			d := []time.Duration{20 * ms, 200 * ms}[peer]
			if strings.Contains(url, "b.test") {
				d = []time.Duration{105 * ms, 100 * ms}[peer]
			}
			if !reused {
				d += 10 * ms
			}
			return d
		},
	}
}

func TestEvaluate(t *testing.T) {
	got := Evaluate(input())
	want := Report{
		Strategy: "proxy", Seed: 7, Peers: 2, Sites: 2, PagesExpected: 5, PagesFetched: 4,
		Coverage: 0.8, Overlap: 0.25, Balance: 1,
		Download:     Times{P50: 105, P90: 300, Mean: 135},
		Assigned:     Times{P50: 105, P90: 105, Mean: 80},
		Oracle:       Times{P50: 30, P90: 100, Mean: 65},
		Random:       Times{P50: 100, P90: 210, Mean: 111.25},
		OptimalShare: 0.5, NearOptimalShare: 1,
		EstimationsPerSubnet: 0.5, ProbesPerSubnet: 1.5, ExtraRequests: 4,
		URLsExchangedPerPage: 2.5, ControlBytesPerPage: 1000,
		PolitenessViolations: 1, RobotsViolations: 2, Unlogged: 6, WallSeconds: 1.5,
		Subnets: []Outcome{
			{Subnet: "10.0.1.0/24", Pages: 2, Estimations: 1, Owner: 0, OwnerMS: 20, Best: 0,
				BestMS: 20},
			{Subnet: "10.0.2.0/24", Pages: 2, Owner: 0, OwnerMS: 105, Best: 1, BestMS: 100},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestEvaluateOfNothing(t *testing.T) {
	r := Evaluate(Input{Subnets: []Subnet{{Owner: -1}}})
	if b, err := json.Marshal(r); err != nil || strings.Contains(string(b), "NaN") {
		t.Errorf("Marshal = %s, %v, want no NaN", b, err)
	}
}

func TestBalance(t *testing.T) {
	at := func(owners ...int) (s []Subnet) {
		for _, o := range owners {
			s = append(s, Subnet{Owner: o, Hosts: []string{"x"}})
		}
		return s
	}
	for _, c := range []struct {
		owners []int
		want   float64
	}{{[]int{0, 1, 2, 3}, 0}, {[]int{0, 0, 0}, math.Sqrt(3)}, {[]int{0, 0, 1, 1}, 1},
		{[]int{-1}, 0}} {
		if got := balance(4, at(c.owners...)); math.Abs(got-c.want) > 1e-4 {
			t.Errorf("balance of owners %v = %v, want %v", c.owners, got, c.want)
		}
	}
}

// The field names are a public format.
func TestJSONNames(t *testing.T) {
	b, err := json.Marshal(Evaluate(input()))
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(b, &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(`peers sites pages_expected pages_fetched coverage
		overlap balance download_ms assigned_ms
		oracle_ms random_ms optimal_share near_optimal_share
		estimations_per_subnet
		probes_per_subnet extra_requests
		urls_exchanged_per_page control_bytes_per_page politeness_violations wall_s`) {
		if fields[name] == nil {
			t.Errorf("field %s is missing in %s", name, b)
		}
	}
	if string(fields["oracle_ms"]) != `{"p50":30,"p90":100,"mean":65}` {
		t.Errorf("oracle_ms = %s", fields["oracle_ms"])
	}
}

func TestTable(t *testing.T) {
	text := Evaluate(input()).Table()
	for _, want := range []string{"4 of 5", "coverage 0.8", "overlap 0.25", "oracle",
		"50 % at the fastest", "1 of politeness", "1.5 s"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	lines := strings.Split(text, "\n")
	if i := slices.IndexFunc(lines, func(s string) bool {
		return len(s) > 110
	}); i >= 0 || !strings.HasSuffix(text, "\n") {
		t.Errorf("line longer than 110 or no newline at the end in\n%s", text)
	}
	t.Log("\n" + text)
}
