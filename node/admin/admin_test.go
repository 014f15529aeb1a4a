package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestViews(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f := newFake()
	f.status = Status{
		Dropped: map[string]int64{"limit": 1}, Marked: map[string]int64{},
		Archive: &Archive{Files: 1}, Blocked: []string{"full"},
		Bootstrap:  []BootstrapAddr{{Addr: "/ip4/127.0.0.1/tcp/2", NextAttempt: &at}},
		Registries: []RegistryFile{{Registry: "arin", Day: "20260928", Blocks: 7}},
		PeerID:     "p", Addrs: []string{"/ip4/127.0.0.1/tcp/1"},
		Coordinate: Coordinate{Vec: []float64{1, 2}, Height: 3, Error: .5},
		Frontier:   Frontier{1, 2, 3}, Batches: Batches{1, 2, 3, 4}}
	f.peers = []Peer{{PeerID: "q", Addrs: []string{}, Coordinate: &Coordinate{Vec: []float64{}}}}
	f.subnets = []Subnet{{Subnet: "192.0.2.0/24", Epoch: 2, State: SubnetOwned, Since: at,
		Proxy: &Proxy{At: Coordinate{Vec: []float64{1}}, Delay: 4}}}
	f.queue = []Host{{Host: "a.example", Role: HostOwn, NextAt: &at}}
	file, _ := serve(t, f)
	c, ctx := dialed(t, file), t.Context()

	check := func(name string, got, want any, err error) {
		t.Helper()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s() = %+v, %v, want %+v", name, got, err, want)
		}
	}
	status, err := c.Status(ctx)
	check("Status", status, f.status, err)
	peers, err := c.Peers(ctx)
	check("Peers", peers, f.peers, err)
	subnets, err := c.Subnets(ctx)
	check("Subnets", subnets, f.subnets, err)
	queue, err := c.Queue(ctx)
	check("Queue", queue, f.queue, err)
	check("Stop", c.Stop(ctx), nil, nil)
	<-f.stopped
}

// The names of JSON fields are part of the interface for programs.
func TestJSONNames(t *testing.T) {
	tests := []struct {
		v    any
		want string
	}{
		{filled(Status{}), `{
			"peer_id":"", "health":{"state":"", "why":"", "do":""}, "addrs":[], "network":"",
"strategy":"", "uptime_s":0,
			"coordinate":{"vec":[], "height":0, "error":0}, "peers_connected":0, "directory":0,
			"bootstrap":[], "subnets_owned":0,"subnets_silent":0, "hosts":0,
			"frontier":{"pending":0, "in_flight":0, "unclaimed":0}, "outbox_urls":0,
			"pages_fetched":0, "bytes_fetched":0, "failed":0, "robots_denied":0, "urls_seen":0,
			"fetches":0, "dropped":{}, "marked":{},
			"revisits":{"done":0, "not_modified":0, "changed":0}, "archive":null, "replay":"",
			"registries":[], "geo_db":"", "offline":null, "clock":null,
			"reachability":"", "blocked":[], "votes_from":null,
			"batches":{"sent":0, "received":0, "urls_sent":0, "urls_received":0},
			"estimations":{"requested":0, "served":0, "scouts":0},
			"probes":{"made":0, "connects":0},
			"owner_map":{"subnets":0, "sent":0, "received":0},
			"handovers":{"out":0, "in":0, "moves":0, "takeovers":0},
			"control_bytes":{"sent":0, "received":0}}`},
		{BootstrapAddr{}, `{"addr":"", "connected":false, "last_error":"", "next_attempt":null}`},
		{filled(Peer{}), `{
			"peer_id":"", "addrs":[], "connected":false, "relayed":false, "coordinate":null,
			"rtt_ms":0, "wait_ms":0, "capacity":0, "version":"", "last_seen_s":0, "distance_ms":0,
			"earth":null}`},
		{filled(Subnet{}), `{
			"subnet":"", "epoch":0, "hosts":0, "pending":0, "state":"", "unverified":false,
			"proxy":null, "estimations":0, "since":"0001-01-01T00:00:00Z", "predicted_ms":0,
			"measured_ms":0, "measured":0, "why":""}`},
		{Host{}, `{
			"host":"", "subnet":"", "role":"", "pending":0, "in_flight":0, "next_at":null,
			"delay_ms":0, "owner":""}`},
		{filled(Link{}), `{
			"url":"", "status":0, "outcome":"", "bytes":0, "fetched_at":"0001-01-01T00:00:00Z",
			"outlinks":[], "estimation":false, "took_ms":0}`},
		{Clock{}, `{"ahead_s":0, "peers":0, "wrong":false}`},
		{Offline{}, `{"since":"0001-01-01T00:00:00Z", "reason":""}`},
		{GivenUp{}, `{
			"url":"", "outcome":"", "status":0, "error":"", "at":"0001-01-01T00:00:00Z",
			"first":"0001-01-01T00:00:00Z", "tries":0, "depth":0, "connectivity":false}`},
		{RetryRequest{URL: "u"}, `{"url":"u"}`},
		{RetryResult{}, `{"queued":0}`},
		{Drain{}, `{
			"subnets":0, "remaining":0, "urls":0, "handing_over":"", "done":false, "reason":""}`},
		{RobotsFile{}, `{
			"origin":"", "state":"", "status":0, "bytes":0, "fetched":"0001-01-01T00:00:00Z",
			"expires":"0001-01-01T00:00:00Z", "unreachable_since":null}`},
		{filled(SeedResult{}), `{"accepted":0, "known":0, "out_of_scope":[], "invalid":[]}`},
	}
	for _, tt := range tests {
		var want bytes.Buffer
		if err := json.Compact(&want, []byte(tt.want)); err != nil {
			t.Fatal(err)
		}
		if got, err := json.Marshal(tt.v); err != nil || string(got) != want.String() {
			t.Errorf("JSON of %T = %s, %v\nwant %s", tt.v, got, err, want.String())
		}
	}
}

func TestEmptyListsAreLists(t *testing.T) {
	file, _ := serve(t, newFake())
	for _, path := range []string{pathPeers, pathSubnets, pathQueue} {
		resp := request(t, file, http.MethodGet, path, "", nil)
		if body := readAll(t, resp); body != "[]\n" {
			t.Errorf("GET %s = %q, want []", path, body)
		}
	}
}

func TestPauseAndReload(t *testing.T) {
	f := newFake()
	file, _ := serve(t, f)
	c, ctx := dialed(t, file), t.Context()
	if err := errors.Join(c.Pause(ctx, time.Hour), c.Pause(ctx, 0), c.Resume(ctx)); err != nil {
		t.Fatal(err)
	}
	if want := []time.Duration{time.Hour, 0, -1}; !slices.Equal(f.paused, want) {
		t.Errorf("the node got %v, want %v", f.paused, want)
	}
	for _, d := range []time.Duration{-time.Second, MaxPause + time.Second} {
		if err := c.Pause(ctx, d); err == nil {
			t.Errorf("Pause(%v) = nil", d)
		}
	}
	r, err := c.Reload(ctx)
	if err != nil || len(r.Applied) != 1 || r.Restart == nil {
		t.Errorf("Reload() = %+v, %v", r, err)
	}
	f.seed = func(context.Context, []string) (SeedResult, error) { return SeedResult{}, nil }
	if _, err := c.Reload(ctx); err == nil || !strings.Contains(err.Error(), errTest.Error()) {
		t.Errorf("Reload() = %v, want the node's error", err)
	}
}

func TestGivenUp(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f := newFake()
	f.givenUp = []GivenUp{
		{URL: "http://a.example/", Outcome: "timeout", Error: "a\nb", At: at, First: at, Tries: 3},
		{URL: "http://b.example/", Outcome: "http_error", Status: 404},
	}
	file, _ := serve(t, f)
	c := dialed(t, file)
	for host, want := range map[string][]GivenUp{
		"": f.givenUp, "b.example": f.givenUp[1:], "c.example?&x": nil,
	} {
		var got []GivenUp
		err := c.GivenUp(t.Context(), host, func(g GivenUp) error {
			got = append(got, g)
			return nil
		})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("GivenUp(%q) = %+v, %v, want %+v", host, got, err, want)
		}
	}
	for _, r := range []RetryRequest{
		{Host: "a.example"}, {URL: "http://a.example/"}, {All: true},
	} {
		res, err := c.Retry(t.Context(), r)
		if err != nil || res.Queued != 2 || f.retried[len(f.retried)-1] != r {
			t.Errorf("Retry(%+v) = %+v, %v; asked for %+v", r, res, err, f.retried)
		}
	}
	for _, r := range []RetryRequest{
		{}, {Host: "a", All: true}, {Host: "a", URL: "b"},
		{URL: strings.Repeat("x", MaxURLBytes+1)},
	} {
		if _, err := c.Retry(t.Context(), r); err == nil {
			t.Errorf("Retry(%.40v) = nil, want an error", r)
		}
	}
}

func TestSeed(t *testing.T) {
	f := newFake()
	f.seed = func(_ context.Context, urls []string) (SeedResult, error) {
		return SeedResult{Accepted: len(urls) - 1, Invalid: []Rejected{{urls[0], "bad"}}}, nil
	}
	file, _ := serve(t, f)
	urls := make([]string, MaxSeedURLs+2)
	for i := range urls {
		urls[i] = fmt.Sprintf("http://a.example/%d", i)
	}
	urls[1] = strings.Repeat("x", MaxURLBytes+1)
	res, err := dialed(t, file).Seed(t.Context(), urls)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.seeded) != 2 || len(f.seeded[0]) != MaxSeedURLs-1 || len(f.seeded[1]) != 2 {
		t.Errorf("Seed() sent %d parts", len(f.seeded))
	}
	if res.Accepted != MaxSeedURLs-1 || len(res.Invalid) != 3 || res.OK() {
		t.Errorf("Seed() = %d accepted, %d invalid", res.Accepted, len(res.Invalid))
	}
}

func TestRobots(t *testing.T) {
	f := newFake()
	want := []RobotsFile{{Origin: "http://a.example", State: RobotsAbsent, Status: 404}}
	f.robots = func(host string, refresh bool) ([]RobotsFile, error) {
		if host != "a.example" || !refresh {
			return nil, fmt.Errorf("%w: not ours", ErrBadRequest)
		}
		return want, nil
	}
	file, _ := serve(t, f)
	c := dialed(t, file)
	if got, err := c.Robots(t.Context(), "a.example", true); err != nil ||
		!reflect.DeepEqual(got, want) {
		t.Errorf("Robots(a.example) = %+v, %v, want %+v", got, err, want)
	}
	if _, err := c.Robots(t.Context(), "b.example", true); !errors.Is(err, ErrBadRequest) {
		t.Errorf("Robots(b.example): error %v, want ErrBadRequest", err)
	}
	long := strings.Repeat("x", MaxURLBytes+1)
	if _, err := c.Robots(t.Context(), long, true); !errors.Is(err, ErrTooLarge) {
		t.Errorf("Robots() of a long name: error %v, want ErrTooLarge", err)
	}
	f.robots = nil
	resp := request(t, file, http.MethodPost, pathRobots, `{"host":"x"}`, nil)
	if body := readAll(t, resp); body != "[]\n" {
		t.Errorf("no files: %q, want []", body)
	}
}

func TestSeedRefuses(t *testing.T) {
	file, _ := serve(t, newFake())
	many, err := json.Marshal(SeedRequest{URLs: make([]string, MaxSeedURLs+1)})
	if err != nil {
		t.Fatal(err)
	}
	long, err := json.Marshal(SeedRequest{URLs: []string{strings.Repeat("x", MaxURLBytes+1)}})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, body string
		want       int
	}{
		{"empty", ``, http.StatusBadRequest},
		{"garbage", `nonsense`, http.StatusBadRequest},
		{"other type", `{"urls":"x"}`, http.StatusBadRequest},
		{"unknown field", `{"urls":[],"x":1}`, http.StatusBadRequest},
		{"two values", `{"urls":[]}{"urls":[]}`, http.StatusBadRequest},
		{"too many", string(many), http.StatusRequestEntityTooLarge},
		{"too long", string(long), http.StatusRequestEntityTooLarge},
		{"too large", `{"urls":["` + strings.Repeat("x", maxBodyBytes) + `"]}`,
			http.StatusRequestEntityTooLarge},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp := request(t, file, http.MethodPost, pathSeed, tt.body, nil)
			body := readAll(t, resp)
			if resp.StatusCode != tt.want || !strings.HasPrefix(body, `{"error":"`) {
				t.Errorf("status %d, %s, want %d", resp.StatusCode, body, tt.want)
			}
		})
	}
}

func TestGuard(t *testing.T) {
	file, _ := serve(t, newFake())
	api, err := readAPIFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(api.Addr)
	tests := []struct {
		name string
		edit func(*http.Request)
		want int
	}{
		{"right", func(*http.Request) {}, http.StatusOK},
		{"localhost", func(r *http.Request) { r.Host = "LOCALHOST:" + port }, http.StatusOK},
		{"IPv6", func(r *http.Request) { r.Host = "[::1]" }, http.StatusOK},
		{"no token", func(r *http.Request) {
			r.Header.Del("Authorization")
		}, http.StatusUnauthorized},
		{"other token", func(r *http.Request) {
			r.Header.Set("Authorization", "Bearer "+newToken())
		}, http.StatusUnauthorized},
		{"other scheme", func(r *http.Request) {
			r.Header.Set("Authorization", "Basic "+api.Token)
		}, http.StatusUnauthorized},
		{"foreign name", func(r *http.Request) {
			r.Host = "evil.example:" + port
		}, http.StatusForbidden},
		{"name like an address", func(r *http.Request) {
			r.Host = "127.0.0.1.evil.example"
		}, http.StatusForbidden},
		{"other path", func(r *http.Request) { r.URL.Path = "/" }, http.StatusNotFound},
		{"other method", func(r *http.Request) {
			r.Method = http.MethodDelete
		}, http.StatusMethodNotAllowed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if resp := request(t, file, http.MethodGet, pathStatus, "",
				tt.edit); resp.StatusCode != tt.want {
				t.Errorf("status %d, want %d", resp.StatusCode, tt.want)
			}
		})
	}
}

func TestLinks(t *testing.T) {
	f := newFake()
	file, _ := serve(t, f)
	c := dialed(t, file)
	for _, n := range []int{0, 1, 5000} {
		f.links = someLinks(n)
		got := 0
		err := c.Links(t.Context(), "", func(l Link) error {
			if l.URL != fmt.Sprintf("http://a.example/%d?a&b", got) || l.Outlinks == nil {
				return fmt.Errorf("page %d = %+v", got, l)
			}
			got++
			return nil
		})
		if err != nil || got != n {
			t.Errorf("Links() yielded %d of %d pages, %v", got, n, err)
		}
	}
	err := c.Links(t.Context(), "", func(Link) error { return errTest })
	if !errors.Is(err, errTest) {
		t.Errorf("Links() = %v, want the error of yield", err)
	}
}

func TestIncompleteLinks(t *testing.T) {
	f := newFake()
	file, _ := serve(t, f)
	for _, n := range []int{0, 5000} { // before and after a part of the response was sent
		f.links = func(ctx context.Context, yield func(Link) error) error {
			return errors.Join(someLinks(n)(ctx, yield), errTest)
		}
		got := 0
		err := dialed(t, file).Links(t.Context(), "", func(Link) error { got++; return nil })
		if err == nil || errors.Is(err, ErrNotRunning) {
			t.Errorf("Links() yielded %d of %d pages, %v, want an error", got, n, err)
		}
	}
}

// A client that leaves ends the iteration over the store.
func TestLinksReaderLeaves(t *testing.T) {
	f, ended := newFake(), make(chan error, 1)
	f.links = func(ctx context.Context, yield func(Link) error) error {
		err := someLinks(math.MaxInt)(ctx, yield)
		ended <- err
		return err
	}
	file, _ := serve(t, f)
	if err := dialed(t, file).Links(t.Context(), "", func(Link) error {
		return errTest
	}); !errors.Is(err, errTest) {
		t.Errorf("Links() = %v, want the error of yield", err)
	}
	if err := <-ended; err == nil {
		t.Error("Node.Links() returned no error")
	}
}

func TestErrors(t *testing.T) {
	f := newFake()
	file, _ := serve(t, f)
	c := dialed(t, file)
	for planned, want := range map[error]error{
		fmt.Errorf("seed: %w", ErrStopping): ErrStopping,
		fmt.Errorf("%w: x", ErrBadRequest):  ErrBadRequest,
		context.DeadlineExceeded:            context.DeadlineExceeded,
		errTest:                             ErrInternal,
	} {
		f.seed = func(context.Context, []string) (SeedResult, error) {
			return SeedResult{}, planned
		}
		_, err := c.Seed(t.Context(), []string{"x"})
		if !errors.Is(err, want) || !strings.Contains(err.Error(), planned.Error()) {
			t.Errorf("Node.Seed() = %v, Client.Seed() = %v", planned, err)
		}
	}
}

func TestPanic(t *testing.T) {
	f := newFake()
	f.seed = func(context.Context, []string) (SeedResult, error) { panic("planned by the test") }
	f.links = func(ctx context.Context, yield func(Link) error) error {
		if err := someLinks(5000)(ctx, yield); err != nil {
			return err
		}
		panic("planned by the test")
	}
	file, _ := serve(t, f)
	c := dialed(t, file)
	if _, err := c.Seed(t.Context(), []string{"x"}); !errors.Is(err, ErrInternal) {
		t.Errorf("Seed() = %v, want ErrInternal", err)
	}
	if err := c.Links(t.Context(), "", func(Link) error { return nil }); err == nil {
		t.Error("Links() of an incomplete stream returned no error")
	}
	if _, err := c.Status(t.Context()); err != nil {
		t.Errorf("Status() after the panics: %v", err)
	}
}

func TestNaN(t *testing.T) {
	f := newFake()
	f.status.Coordinate.Height = math.NaN()
	file, _ := serve(t, f)
	if _, err := dialed(t, file).Status(t.Context()); !errors.Is(err, ErrInternal) {
		t.Errorf("Status() with a NaN = %v, want ErrInternal", err)
	}
}

func TestStopEndsRequests(t *testing.T) {
	f, begun := newFake(), make(chan struct{})
	f.seed = func(ctx context.Context, _ []string) (SeedResult, error) {
		close(begun)
		<-ctx.Done()
		return SeedResult{}, ctx.Err()
	}
	file, stop := serve(t, f)
	c, failed := dialed(t, file), make(chan error, 1)
	go func() {
		_, err := c.Seed(context.Background(), []string{"x"})
		failed <- err
	}()
	<-begun
	stop()
	if err := <-failed; err == nil {
		t.Error("Seed() returned no error after the stop")
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file exists after the stop: %v", err)
	}
	if err := c.Wait(t.Context()); err != nil {
		t.Errorf("Wait() = %v", err)
	}
	if _, err := c.Status(t.Context()); !errors.Is(err, ErrNotRunning) {
		t.Errorf("Status() after the stop = %v, want ErrNotRunning", err)
	}
}

func TestWait(t *testing.T) {
	file, stop := serve(t, newFake())
	c := dialed(t, file)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := c.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Wait() while the peer runs = %v, want DeadlineExceeded", err)
	}
	waited := make(chan error, 1)
	go func() { waited <- c.Wait(context.Background()) }()
	stop()
	if err := <-waited; err != nil {
		t.Error(err)
	}
}

func FuzzReadSeedRequest(f *testing.F) {
	f.Add(`{"urls":["http://a.example/"]}`)
	f.Fuzz(func(t *testing.T, body string) {
		req, err := readRequest[SeedRequest](strings.NewReader(body))
		if err != nil && !errors.Is(err, ErrBadRequest) && !errors.Is(err, ErrTooLarge) {
			t.Errorf("unexpected error %v", err)
		}
		if len(req.URLs) > MaxSeedURLs {
			t.Errorf("readRequest() returned %d URLs", len(req.URLs))
		}
	})
}

func FuzzReadRetryRequest(f *testing.F) {
	f.Add(`{"host":"a.example"}`)
	f.Add(`{"all":true}`)
	f.Add(`{"url":"http://a.example/","all":false}`)
	f.Fuzz(func(t *testing.T, body string) {
		req, err := readRequest[RetryRequest](strings.NewReader(body))
		set := 0
		for _, on := range []bool{req.Host != "", req.URL != "", req.All} {
			if on {
				set++
			}
		}
		if (err == nil) != (set == 1) {
			t.Errorf("readRequest(%q) = %+v, %v", body, req, err)
		}
	})
}

func FuzzReadLeaveRequest(f *testing.F) {
	f.Add(`{"limit_s":1.5}`)
	f.Fuzz(func(t *testing.T, body string) {
		req, err := readRequest[LeaveRequest](strings.NewReader(body))
		if err != nil && !errors.Is(err, ErrBadRequest) && !errors.Is(err, ErrTooLarge) {
			t.Errorf("unexpected error %v", err)
		}
		if limit := req.limit(); err == nil && (limit <= 0 || limit > MaxLeave) {
			t.Errorf("readRequest() = %v", limit)
		}
	})
}

func TestLeave(t *testing.T) {
	f := newFake()
	file, _ := serve(t, f)
	var reports []Drain
	if err := dialed(t, file).Leave(t.Context(), 1500*time.Millisecond, func(d Drain) {
		reports = append(reports, d)
	}); err != nil {
		t.Fatal(err)
	}
	want := []Drain{{Subnets: 2, Remaining: 2}, {Subnets: 2, Remaining: 1},
		{Subnets: 2, Done: true}}
	if !slices.Equal(reports, want) || f.limit != 1500*time.Millisecond {
		t.Errorf("Leave() reported %+v with limit %v, want %+v with 1.5s", reports, f.limit, want)
	}
	for _, limit := range []time.Duration{0, -1, MaxLeave + time.Second} {
		if err := dialed(t, file).Leave(t.Context(), limit, func(Drain) {}); !errors.Is(err,
			ErrBadRequest) {
			t.Errorf("Leave() with limit %v = %v, want ErrBadRequest", limit, err)
		}
	}
}

// The client distinguishes a peer that ended early from one that reported the result.
func TestLeaveIsCut(t *testing.T) {
	f, begun := newFake(), make(chan struct{})
	f.leave = func(ctx context.Context) error { // instead of the last report of the fake
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	}
	file, stop := serve(t, f)
	c, failed := dialed(t, file), make(chan error, 1)
	go func() { failed <- c.Leave(context.Background(), time.Second, func(Drain) {}) }()
	<-begun
	stop()
	if err := <-failed; !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("Leave() = %v, want ErrUnexpectedEOF", err)
	}
}

// request sends one request with the right token, changed by edit.
func request(
	t *testing.T, file, method, path, body string, edit func(*http.Request),
) *http.Response {
	t.Helper()
	api, err := readAPIFile(file)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+api.Addr+path,
		strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+api.Token)
	if edit != nil {
		edit(req)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func readAll(t *testing.T, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
