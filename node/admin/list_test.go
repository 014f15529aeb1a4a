package admin

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"testing"
)

func TestSelectRows(t *testing.T) {
	rows := []Peer{
		{PeerID: "b", WaitMs: 3, Coordinate: &Coordinate{Error: .2}},
		{PeerID: "a", WaitMs: 1, Addrs: []string{"/dns/Here.example"}},
		{PeerID: "c", WaitMs: 2, Connected: true, Coordinate: &Coordinate{Error: .1}},
	}
	for _, tt := range []struct {
		query, want string
		total       int
	}{
		{"", "bac", 3}, {"limit=2", "ba", 3}, {"limit=2&offset=2", "c", 3}, {"offset=9", "", 3},
		{"sort=peer_id", "abc", 3}, {"sort=-wait_ms", "bca", 3}, {"sort=connected", "bac", 3},
		{"sort=coordinate.error", "cba", 3}, {"sort=-coordinate.error", "bca", 3},
		{"q=here.EXAMPLE", "a", 1}, {"q=zzz", "", 0}, {"q=a&limit=1", "a", 1},
	} {
		q, err := url.ParseQuery(tt.query)
		if err != nil {
			t.Fatal(err)
		}
		some, total, err := selectRows(rows, q)
		got := ""
		for _, p := range some {
			got += p.PeerID
		}
		if err != nil || got != tt.want || total != tt.total {
			t.Errorf("%q: %q of %d, %v, want %q of %d", tt.query, got, total, err, tt.want,
				tt.total)
		}
	}
	for _, bad := range []string{"limit=0", "limit=-1", "limit=100001", "limit=x", "offset=-1",
		"sort=nothing", "sort=coordinate", "sort=addrs", "sort=PeerID", "sort=coordinate.vec",
		"sort=peer_id.x", "q=" + string(make([]byte, maxSearch+1))} {
		q, _ := url.ParseQuery(bad)
		if _, _, err := selectRows(rows, q); !errors.Is(err, ErrBadRequest) {
			t.Errorf("%.30q: %v, want ErrBadRequest", bad, err)
		}
	}
}

// The client reads lists of any length, and others know how many rows there are.
func TestLongList(t *testing.T) {
	f := newFake()
	for i := range MaxRows + 5 {
		f.queue = append(f.queue, Host{Host: strconv.Itoa(i)})
	}
	file, _ := serve(t, f)
	all, err := dialed(t, file).Queue(t.Context())
	if err != nil || len(all) != len(f.queue) || all[MaxRows].Host != strconv.Itoa(MaxRows) {
		t.Errorf("%d hosts, %v, want %d", len(all), err, len(f.queue))
	}
	resp := request(t, file, http.MethodGet, pathQueue+"?limit=1", "", nil)
	if got := resp.Header.Get(totalHeader); got != strconv.Itoa(len(f.queue)) {
		t.Errorf("%s: %s, want %d", totalHeader, got, len(f.queue))
	}
}

func FuzzSelectRows(f *testing.F) {
	f.Add("limit=2&offset=1&sort=-coordinate.error&q=a")
	f.Fuzz(func(t *testing.T, text string) {
		q, err := url.ParseQuery(text)
		if err != nil {
			t.Skip()
		}
		rows := []Peer{{PeerID: "a"}, {PeerID: "b", Coordinate: &Coordinate{}}}
		some, total, err := selectRows(rows, q)
		if err == nil && (len(some) > total || total > 2) || err != nil && !errors.Is(err,
			ErrBadRequest) {
			t.Errorf("%q: %d of %d, %v", text, len(some), total, err)
		}
	})
}
