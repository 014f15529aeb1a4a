package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
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
		Dropped: map[string]int64{"limit": 1}, Marked: map[string]int64{}, Archive: &Archive{Files: 1}, Blocked: []string{"full"}, Registries: []RegistryFile{{Registry: "arin", Day: "20260928", Blocks: 7}},
		PeerID: "p", Addrs: []string{"/ip4/127.0.0.1/tcp/1"}, Coordinate: Coordinate{Vec: []float64{1, 2}, Height: 3, Error: .5},
		Frontier: Frontier{1, 2, 3}, Batches: Batches{1, 2, 3, 4}}
	f.peers = []Peer{{PeerID: "q", Addrs: []string{}, Coordinate: &Coordinate{Vec: []float64{}}}}
	f.subnets = []Subnet{{Subnet: "192.0.2.0/24", Epoch: 2, State: SubnetOwned, Since: at, Proxy: &Proxy{At: Coordinate{Vec: []float64{1}}, Delay: 4}}}
	f.queue = []Host{{Host: "a.example", Role: HostOwn, NextAt: &at}}
	file, _ := serve(t, f)
	c, ctx := dialed(t, file), t.Context()

	check := func(name string, got, want any, err error) {
		t.Helper()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v; want %+v", name, got, err, want)
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

// Others read these names; see the help of the commands.
func TestNames(t *testing.T) {
	tests := []struct {
		v    any
		want string
	}{
		{Status{}.filled(), `{"peer_id":"","addrs":[],"network":"","strategy":"","uptime_s":0,` +
			`"coordinate":{"vec":[],"height":0,"error":0},"peers_connected":0,"directory":0,"subnets_owned":0,"hosts":0,` +
			`"frontier":{"pending":0,"in_flight":0,"nursery":0},"outbox_urls":0,"pages_fetched":0,"bytes_fetched":0,` +
			`"failed":0,"robots_denied":0,"urls_seen":0,"fetches":0,"dropped":{},"marked":{},` +
			`"revisits":{"done":0,"not_modified":0,"changed":0},"archive":null,"registries":[],"geo_db":"","blocked":[],"votes_from":null,"batches":{"sent":0,"received":0,"urls_sent":0,"urls_received":0},` +
			`"estimations":{"requested":0,"served":0,"scouts":0},"probes":{"made":0,"connects":0},"atlas":{"subnets":0,"sent":0,"received":0},"handovers":{"out":0,"in":0,"moves":0,"takeovers":0},"control_bytes":{"sent":0,"received":0}}`},
		{Peer{}.filled(), `{"peer_id":"","addrs":[],"connected":false,"coordinate":null,"rtt_ms":0,"wait_ms":0,"capacity":0,"version":"","last_seen_s":0,"distance_ms":0}`},
		{Subnet{}.filled(), `{"subnet":"","epoch":0,"hosts":0,"pending":0,"state":"","doubted":false,"proxy":null,"estimations":0,"since":"0001-01-01T00:00:00Z"}`},
		{Host{}, `{"host":"","subnet":"","role":"","pending":0,"in_flight":0,"next_at":null,"delay_ms":0,"owner":""}`},
		{Link{}.filled(), `{"url":"","status":0,"outcome":"","bytes":0,"fetched_at":"0001-01-01T00:00:00Z","outlinks":[],"estimation":false,"took_ms":0}`},
		{SeedResult{}.filled(), `{"accepted":0,"known":0,"out_of_scope":[],"invalid":[]}`},
	}
	for _, tt := range tests {
		if got, err := json.Marshal(tt.v); err != nil || string(got) != tt.want {
			t.Errorf("%T:\n got %s, %v\nwant %s", tt.v, got, err, tt.want)
		}
	}
}

func TestEmptyListsAreLists(t *testing.T) {
	file, _ := serve(t, newFake())
	for _, path := range []string{pathPeers, pathSubnets, pathQueue} {
		resp := request(t, file, http.MethodGet, path, "", nil)
		if body := readAll(t, resp); body != "[]\n" {
			t.Errorf("%s: %q", path, body)
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
		t.Errorf("sent in %d parts", len(f.seeded))
	}
	if res.Accepted != MaxSeedURLs-1 || len(res.Invalid) != 3 || res.OK() {
		t.Errorf("accepted %d, invalid %d", res.Accepted, len(res.Invalid))
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
		{"too large", `{"urls":["` + strings.Repeat("x", maxBodyBytes) + `"]}`, http.StatusRequestEntityTooLarge},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp := request(t, file, http.MethodPost, pathSeed, tt.body, nil)
			body := readAll(t, resp)
			if resp.StatusCode != tt.want || !strings.HasPrefix(body, `{"error":"`) {
				t.Errorf("got %d, %s; want %d", resp.StatusCode, body, tt.want)
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
		{"no token", func(r *http.Request) { r.Header.Del("Authorization") }, http.StatusUnauthorized},
		{"other token", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+newToken()) }, http.StatusUnauthorized},
		{"other scheme", func(r *http.Request) { r.Header.Set("Authorization", "Basic "+api.Token) }, http.StatusUnauthorized},
		{"foreign name", func(r *http.Request) { r.Host = "evil.example:" + port }, http.StatusForbidden},
		{"name like an address", func(r *http.Request) { r.Host = "127.0.0.1.evil.example" }, http.StatusForbidden},
		{"other path", func(r *http.Request) { r.URL.Path = "/" }, http.StatusNotFound},
		{"other method", func(r *http.Request) { r.Method = http.MethodDelete }, http.StatusMethodNotAllowed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if resp := request(t, file, http.MethodGet, pathStatus, "", tt.edit); resp.StatusCode != tt.want {
				t.Errorf("got %d, want %d", resp.StatusCode, tt.want)
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
		err := c.Links(t.Context(), func(l Link) error {
			if l.URL != fmt.Sprintf("http://a.example/%d?a&b", got) || l.Outlinks == nil {
				return fmt.Errorf("page %d is %+v", got, l)
			}
			got++
			return nil
		})
		if err != nil || got != n {
			t.Errorf("got %d of %d, %v", got, n, err)
		}
	}
	if err := c.Links(t.Context(), func(Link) error { return errTest }); !errors.Is(err, errTest) {
		t.Errorf("the reader's own error: %v", err)
	}
}

func TestLinksCutAreNotWhole(t *testing.T) {
	f := newFake()
	file, _ := serve(t, f)
	for _, n := range []int{0, 5000} { // before and after something went out
		f.links = func(ctx context.Context, yield func(Link) error) error {
			return errors.Join(someLinks(n)(ctx, yield), errTest)
		}
		got := 0
		err := dialed(t, file).Links(t.Context(), func(Link) error { got++; return nil })
		if err == nil || errors.Is(err, ErrNotRunning) {
			t.Errorf("%d of %d pages, then %v", got, n, err)
		}
	}
}

// A reader that leaves ends the walk through the store.
func TestLinksReaderLeaves(t *testing.T) {
	f, ended := newFake(), make(chan error, 1)
	f.links = func(ctx context.Context, yield func(Link) error) error {
		err := someLinks(math.MaxInt)(ctx, yield)
		ended <- err
		return err
	}
	file, _ := serve(t, f)
	if err := dialed(t, file).Links(t.Context(), func(Link) error { return errTest }); !errors.Is(err, errTest) {
		t.Errorf("got %v", err)
	}
	if err := <-ended; err == nil {
		t.Error("the walk ended by itself")
	}
}

func TestErrorsCrossTheWire(t *testing.T) {
	f := newFake()
	file, _ := serve(t, f)
	c := dialed(t, file)
	for planned, want := range map[error]error{
		fmt.Errorf("seed: %w", ErrStopping): ErrStopping,
		fmt.Errorf("%w: x", ErrBadRequest):  ErrBadRequest,
		context.DeadlineExceeded:            context.DeadlineExceeded,
		errTest:                             ErrInternal,
	} {
		f.seed = func(context.Context, []string) (SeedResult, error) { return SeedResult{}, planned }
		_, err := c.Seed(t.Context(), []string{"x"})
		if !errors.Is(err, want) || !strings.Contains(err.Error(), planned.Error()) {
			t.Errorf("sent %v, got %v", planned, err)
		}
	}
}

func TestPanicIsContained(t *testing.T) {
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
		t.Errorf("Seed: %v", err)
	}
	if err := c.Links(t.Context(), func(Link) error { return nil }); err == nil {
		t.Error("Links: a part passed for the whole")
	}
	if _, err := c.Status(t.Context()); err != nil {
		t.Errorf("after the panics: %v", err)
	}
}

func TestNotANumberIsAnError(t *testing.T) {
	f := newFake()
	f.status.Coordinate.Height = math.NaN()
	file, _ := serve(t, f)
	if _, err := dialed(t, file).Status(t.Context()); !errors.Is(err, ErrInternal) {
		t.Errorf("got %v", err)
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
		t.Error("the request did not fail")
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is still there: %v", err)
	}
	if err := c.Wait(t.Context()); err != nil {
		t.Errorf("Wait: %v", err)
	}
	if _, err := c.Status(t.Context()); !errors.Is(err, ErrNotRunning) {
		t.Errorf("Status: %v", err)
	}
}

func TestWaitIsPatient(t *testing.T) {
	file, stop := serve(t, newFake())
	c := dialed(t, file)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := c.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while the peer runs: %v", err)
	}
	waited := make(chan error, 1)
	go func() { waited <- c.Wait(context.Background()) }()
	stop()
	if err := <-waited; err != nil {
		t.Error(err)
	}
}

func TestNotRunning(t *testing.T) {
	dir := t.TempDir()
	if _, err := Dial(filepath.Join(dir, "missing")); !errors.Is(err, ErrNotRunning) {
		t.Errorf("no file: %v", err)
	}

	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := free.Addr().String()
	free.Close()
	alien := http.Server{Handler: http.NotFoundHandler()}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go alien.Serve(ln)
	defer alien.Close()
	other, _ := serve(t, newFake())
	api, err := readAPIFile(other)
	if err != nil {
		t.Fatal(err)
	}
	for name, addr := range map[string]string{"nobody": gone, "another program": ln.Addr().String(), "another peer": api.Addr} {
		stale := filepath.Join(dir, "api.json")
		if err := writeAPIFile(stale, apiFile{Addr: addr, Token: newToken()}); err != nil {
			t.Fatal(err)
		}
		c := dialed(t, stale)
		if _, err := c.Status(t.Context()); !errors.Is(err, ErrNotRunning) {
			t.Errorf("%s has the port: %v", name, err)
		}
		if err := c.Wait(t.Context()); err != nil {
			t.Errorf("%s has the port: Wait: %v", name, err)
		}
	}
}

func TestListenRefuses(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if _, err := Listen(Config{Addr: ln.Addr().String(), File: "x", Node: newFake()}); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("port in use: %v", err)
	}
	if _, err := Listen(Config{Addr: "127.0.0.1:0"}); err == nil {
		t.Error("no node: no error")
	}
}

func TestRunWithoutPlaceForItsFile(t *testing.T) {
	s, err := Listen(Config{Addr: "127.0.0.1:0", File: filepath.Join(t.TempDir(), "missing", "api.json"), Node: newFake()})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context()); err == nil {
		t.Error("no error")
	}
}

func TestAPIFileIsPrivate(t *testing.T) {
	file, _ := serve(t, newFake())
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func FuzzReadSeedRequest(f *testing.F) {
	f.Add(`{"urls":["http://a.example/"]}`)
	f.Fuzz(func(t *testing.T, body string) {
		req, err := readSeedRequest(strings.NewReader(body))
		if err != nil && !errors.Is(err, ErrBadRequest) && !errors.Is(err, ErrTooLarge) {
			t.Errorf("unexpected error %v", err)
		}
		if len(req.URLs) > MaxSeedURLs {
			t.Errorf("%d URLs", len(req.URLs))
		}
	})
}

func FuzzReadLeaveRequest(f *testing.F) {
	f.Add(`{"limit_s":1.5}`)
	f.Fuzz(func(t *testing.T, body string) {
		limit, err := readLeaveRequest(strings.NewReader(body))
		if err != nil && !errors.Is(err, ErrBadRequest) && !errors.Is(err, ErrTooLarge) {
			t.Errorf("unexpected error %v", err)
		}
		if err == nil && (limit <= 0 || limit > MaxLeave) {
			t.Errorf("limit %v", limit)
		}
	})
}

func TestLeave(t *testing.T) {
	f := newFake()
	file, _ := serve(t, f)
	var said []Drain
	if err := dialed(t, file).Leave(t.Context(), 1500*time.Millisecond, func(d Drain) { said = append(said, d) }); err != nil {
		t.Fatal(err)
	}
	want := []Drain{{Subnets: 2, Left: 2}, {Subnets: 2, Left: 1}, {Subnets: 2, Over: true}}
	if !slices.Equal(said, want) || f.limit != 1500*time.Millisecond {
		t.Errorf("said %+v for %v, want %+v for 1.5s", said, f.limit, want)
	}
	for _, limit := range []time.Duration{0, -1, MaxLeave + time.Second} {
		if err := dialed(t, file).Leave(t.Context(), limit, func(Drain) {}); !errors.Is(err, ErrBadRequest) {
			t.Errorf("limit %v: %v", limit, err)
		}
	}
}

// A peer that ends before it has said how it went is told from one that has.
func TestLeaveIsCut(t *testing.T) {
	f, begun := newFake(), make(chan struct{})
	f.leave = func(ctx context.Context) error { // after what the fake says, which is not over then
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
		t.Errorf("got %v", err)
	}
}

func FuzzParseAPIFile(f *testing.F) {
	f.Add([]byte(`{"addr":"127.0.0.1:1","token":"` + strings.Repeat("0", 64) + `"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if api, err := parseAPIFile("f", data); err == nil && len(api.Token) != 64 {
			t.Errorf("accepted %+v", api)
		}
	})
}

// request sends one request with the right token, edited by edit.
func request(t *testing.T, file, method, path, body string, edit func(*http.Request)) *http.Response {
	t.Helper()
	api, err := readAPIFile(file)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+api.Addr+path, strings.NewReader(body))
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
