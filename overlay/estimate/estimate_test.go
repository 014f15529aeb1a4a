package estimate

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"go.uber.org/goleak"

	"peerd/overlay/lease"
	"peerd/overlay/overlaytest"
	"peerd/overlay/wire"
	"peerd/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const proto = "/test/estimate/1"

var (
	subnet = netip.MustParsePrefix("192.0.2.0/24")
	good   = store.FetchRequest{URL: "http://a.test/page", Addr: subnet.Addr().Next(), Depth: 2}
)

// fetcher implements Fetcher.
type fetcher func(context.Context, store.FetchRequest) (store.FetchReport, error)

func (f fetcher) RemoteFetch(
	ctx context.Context, r store.FetchRequest, waits func() bool,
) (store.FetchReport, error) {
	if !waits() {
		return store.FetchReport{}, errLost
	}
	return f(ctx, r)
}

// leases uses the ID of the owner as a lease, with " of " and a byte for another subnet.
type leases struct {
	mu   sync.Mutex
	best *lease.Lease // better than any other
	// asked is how often Confirm was called.
	asked int
}

func (l *leases) Confirm(ctx context.Context, sealed []byte) (lease.Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asked++; ctx.Err() != nil {
		return lease.Lease{}, ctx.Err()
	}
	if l.best != nil {
		return *l.best, nil
	}
	if len(sealed) == 0 {
		return lease.Lease{}, errors.New("a bad lease")
	}
	if id, i, ok := strings.Cut(string(sealed), " of "); ok {
		return lease.Lease{Subnet: another(i[0]), Owner: peer.ID(id), Epoch: 3}, nil
	}
	return lease.Lease{Subnet: subnet, Owner: peer.ID(sealed), Epoch: 3}, nil
}

func (fetcher) Check(u store.URL) error { return check(u) }

func check(u store.URL) error {
	if strings.HasSuffix(string(u), "/bad") {
		return errors.New("a bad url")
	}
	return nil
}

type peers int

func (n peers) Len() int { return int(n) }

// two returns an owner and an estimator with the given fetcher.
func two(t *testing.T, fn fetcher) (owner, estimator *Service) {
	t.Helper()
	a, b := overlaytest.Host(t), overlaytest.Host(t)
	overlaytest.Introduce(a, b)
	owner = &Service{Host: a, Protocol: proto, Fetcher: fn, Timeout: 5 * time.Minute,
		Peers: peers(2)}
	estimator = &Service{Host: b, Protocol: proto, Fetcher: fn, Timeout: 5 * time.Minute,
		Peers: peers(2), Leases: &leases{}}
	s := estimator.Serve()
	t.Cleanup(s.Close)
	return owner, estimator
}

func sealedBy(s *Service) []byte { return []byte(s.Host.ID()) }

// another returns one of many subnets.
func another(i byte) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 51, i, 0}), 24)
}

// fetchOf has the owner of another subnet ask for a URL of it.
func fetchOf(
	t *testing.T, owner, est *Service, i byte, r store.FetchRequest,
) (store.FetchReport, error) {
	r.Addr = another(i).Addr().Next()
	sealed := append(sealedBy(owner), " of "+string([]byte{i})...)
	return owner.Fetch(t.Context(), est.Host.ID(), sealed, r)
}

func TestFetch(t *testing.T) {
	long := store.URL("http://a.test/" + strings.Repeat("x", maxURL))
	want := store.FetchReport{
		Outcome: store.OutcomeOK, Status: 200, Bytes: 1234, RetryAfter: 1000 * time.Hour,
		Timing: store.Timing{Connect: time.Millisecond, FirstByte: time.Second},
		Links: []store.URL{"http://a.test/1", "http://elsewhere.test/2", "http://a.test/bad", long,
			"http://a.test/3"},
	}
	got := make(chan store.FetchRequest, 1)
	owner, est := two(t, func(_ context.Context, r store.FetchRequest) (store.FetchReport, error) {
		got <- r
		return want, nil
	})
	rep, err := owner.Fetch(t.Context(), est.Host.ID(), sealedBy(owner), good)
	if err != nil {
		t.Fatal(err)
	}
	if r := <-got; r != good {
		t.Errorf("fetcher was asked for %+v, want the request", r)
	}
	if rep.Outcome != want.Outcome || rep.Status != 200 || rep.Bytes != 1234 ||
		rep.Timing != want.Timing {
		t.Errorf("report = %+v, want the fetcher's", rep)
	}
	if l := rep.Links; !slices.Equal(l, []store.URL{"http://a.test/1", "http://elsewhere.test/2",
		"http://a.test/3"}) {
		t.Errorf("links = %v, want only valid ones", l)
	}
	if rep.RetryAfter != maxRetryAfter {
		t.Errorf("RetryAfter = %v, want the maximum", rep.RetryAfter)
	}
}

func TestRefusals(t *testing.T) {
	owner, est := two(t, func(context.Context, store.FetchRequest) (store.FetchReport, error) {
		t.Error("fetched despite the refusal")
		return store.FetchReport{}, nil
	})
	mine := sealedBy(owner)
	for _, test := range []struct {
		name, why string
		lease     []byte
		change    func(*store.FetchRequest)
	}{
		{name: "no lease", why: "a bad lease"},
		{name: "another's lease", why: "owned by", lease: []byte(est.Host.ID())},
		{name: "address elsewhere", why: "address", lease: mine,
			change: func(r *store.FetchRequest) {
				r.Addr = netip.MustParseAddr("10.0.0.1")
			}},
		{name: "no address", why: "address", lease: mine, change: func(r *store.FetchRequest) {
			r.Addr = netip.Addr{}
		}},
		{name: "depth", why: "range", lease: mine, change: func(r *store.FetchRequest) {
			r.Depth = -1
		}},
		{name: "length", why: "range", lease: mine, change: func(r *store.FetchRequest) {
			r.URL = store.URL("http://a.test/" + strings.Repeat("x", maxURL))
		}},
		{name: "url", why: "a bad url", lease: mine, change: func(r *store.FetchRequest) {
			r.URL = "http://a.test/bad"
		}},
	} {
		r := good
		if test.change != nil {
			test.change(&r)
		}
		_, err := owner.Fetch(t.Context(), est.Host.ID(), test.lease, r)
		if !errors.Is(err, ErrNotSent) || !strings.Contains(err.Error(), test.why) {
			t.Errorf("Fetch with %s: %v, want ErrNotSent with %q", test.name, err, test.why)
		}
	}
	better := lease.Lease{Subnet: subnet, Owner: est.Host.ID(), Epoch: 4}
	est.Leases.(*leases).best = &better
	if _, err := owner.Fetch(t.Context(), est.Host.ID(), mine, good); !errors.Is(err, ErrNotSent) ||
		!strings.Contains(err.Error(), "epoch 4") {
		t.Errorf("Fetch with a beaten lease: %v, want ErrNotSent with the epoch", err)
	}
}

// A lease is looked up only for a request that can be accepted, not too often for one peer, and not
// longer than the request lasts. New peers do not keep those that are known from asking.
func TestLookupsAreLimited(t *testing.T) {
	l := &leases{}
	s := &Service{Leases: l, Fetcher: fetcher(nil), Timeout: time.Second, Peers: peers(2)}
	q := request{Lease: []byte("another"), Request: good}
	bad := q
	bad.Request.URL = "http://a.test/bad"
	if _, err := s.check(t.Context(), "me", true, bad); err == nil || l.asked > 0 {
		t.Errorf("%d leases looked up for a URL that is refused", l.asked)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := s.check(ended, "me", true, q); !errors.Is(err, context.Canceled) {
		t.Errorf("a request that has ended: %v", err)
	}
	most := lookupRate.Burst + 100 // some become free meanwhile
	l.asked = 0
	for i := range 2 * most {
		_, err := s.check(t.Context(), peer.ID(fmt.Sprint("new", i)), false, q)
		if err == nil {
			t.Fatal("accepted the lease of another peer")
		}
	}
	if l.asked > most {
		t.Errorf("%d leases looked up for new peers, want at most %d", l.asked, most)
	}
	l.asked = 0
	for range 2 * most {
		_, _ = s.check(t.Context(), "old", true, q) // of another owner
	}
	if l.asked < lookupRate.Burst || l.asked > most {
		t.Errorf("%d leases looked up for an old peer, want %d to %d", l.asked, lookupRate.Burst,
			most)
	}
}

// ErrNotSent is returned only if certainly no request was sent.
func TestWhatMayHaveBeenSent(t *testing.T) {
	fail := errors.New("the disk is full")
	for _, test := range []struct {
		name string
		fn   fetcher
		want error
	}{
		{"busy", func(context.Context, store.FetchRequest) (store.FetchReport, error) {
			return store.FetchReport{}, errors.Join(ErrNotSent, errors.New("busy"))
		}, ErrNotSent},
		{"failed after the fetch", func(context.Context, store.FetchRequest) (store.FetchReport,
			error) {
			return store.FetchReport{}, fail
		}, ErrNoReply},
		{"panic", func(context.Context, store.FetchRequest) (store.FetchReport, error) {
			panic("bug")
		}, ErrNoReply},
		{"nonsense", func(context.Context, store.FetchRequest) (store.FetchReport, error) {
			return store.FetchReport{}, nil
		}, ErrNoReply},
	} {
		owner, est := two(t, test.fn)
		_, err := owner.Fetch(t.Context(), est.Host.ID(), sealedBy(owner), good)
		if !errors.Is(err, test.want) || errors.Is(err, ErrNoReply) == errors.Is(err, ErrNotSent) {
			t.Errorf("Fetch, %s: %v, want %v", test.name, err, test.want)
		}
	}
}

func TestUnreachableEstimator(t *testing.T) {
	owner, est := two(t, nil)
	if err := est.Host.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := owner.Fetch(t.Context(), est.Host.ID(), sealedBy(owner), good)
	if !errors.Is(err, ErrNotSent) {
		t.Errorf("Fetch from a closed host: %v, want ErrNotSent", err)
	}
	_, id := overlaytest.Identity(1)
	if _, err := owner.Fetch(t.Context(), id, nil, good); !errors.Is(err, ErrNotSent) {
		t.Errorf("Fetch from an unknown peer: %v, want ErrNotSent", err)
	}
}

// A fetch ends at both sides when the owner gives up or the estimator stops.
func TestEnds(t *testing.T) {
	began := make(chan struct{})
	owner, est := two(t, func(ctx context.Context, _ store.FetchRequest) (store.FetchReport,
		error) {
		began <- struct{}{}
		<-ctx.Done()
		return store.FetchReport{}, ctx.Err()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-began; cancel() }()
	_, err := owner.Fetch(ctx, est.Host.ID(), sealedBy(owner), good)
	if !errors.Is(err, ErrNoReply) {
		t.Errorf("Fetch canceled by the owner: %v, want ErrNoReply", err)
	}
	s := est.Serve()
	go func() { <-began; s.Close() }()
	_, err = fetchOf(t, owner, est, 1, good)
	if !errors.Is(err, ErrNoReply) {
		t.Errorf("Fetch from a stopped estimator: %v, want ErrNoReply", err)
	}
}

func TestManyAtOnce(t *testing.T) {
	const n = 50
	all := make(chan struct{})
	var mu sync.Mutex
	running := 0
	owner, est := two(t, func(_ context.Context, r store.FetchRequest) (store.FetchReport, error) {
		mu.Lock()
		if running++; running == n {
			close(all)
		}
		mu.Unlock()
		<-all
		return store.FetchReport{Outcome: store.OutcomeOK, Bytes: int64(r.Depth)}, nil
	})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			r := good
			r.Depth = i
			rep, err := fetchOf(t, owner, est, byte(i), r)
			if err != nil || rep.Bytes != int64(i) {
				t.Errorf("Fetch %d = %+v, %v, want its own depth", i, rep, err)
			}
		})
	}
	wg.Wait()
}

// A stream that is refused because the estimator is busy means that nothing was sent.
func TestOverload(t *testing.T) {
	const places = 128 // of one peer at a wire.Server
	began, end := make(chan struct{}, places), make(chan struct{})
	owner, est := two(t, func(context.Context, store.FetchRequest) (store.FetchReport, error) {
		began <- struct{}{}
		<-end
		return store.FetchReport{Outcome: store.OutcomeOK}, nil
	})
	var wg sync.WaitGroup
	for i := range places {
		wg.Go(func() {
			if _, err := fetchOf(t, owner, est, byte(i), good); err != nil {
				t.Error(err)
			}
		})
	}
	for range places {
		<-began
	}
	_, err := owner.Fetch(t.Context(), est.Host.ID(), sealedBy(owner), good)
	if !errors.Is(err, ErrNotSent) {
		t.Errorf("Fetch from a busy estimator: %v, want ErrNotSent", err)
	}
	close(end)
	wg.Wait()
}

func TestPlausible(t *testing.T) {
	ok := store.FetchReport{Outcome: store.OutcomeOK, Status: 200}
	if err := plausible(ok, time.Minute); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*store.FetchReport){
		"none":    func(r *store.FetchReport) { r.Outcome = store.OutcomeNone },
		"unknown": func(r *store.FetchReport) { r.Outcome = 200 },
		"status":  func(r *store.FetchReport) { r.Status = -1 },
		"bytes":   func(r *store.FetchReport) { r.Bytes = -1 },
		"retry":   func(r *store.FetchReport) { r.RetryAfter = -1 },
		"early":   func(r *store.FetchReport) { r.Timing.Connect = -1 },
		"late":    func(r *store.FetchReport) { r.Timing.Body = time.Hour },
	} {
		r := ok
		change(&r)
		if plausible(r, time.Minute) == nil {
			t.Errorf("plausible with bad %s = nil, want an error", name)
		}
	}
}

// FuzzAsk passes requests to the estimator. It must not panic, and must fetch nothing outside
// of the subnet of the lease.
func FuzzAsk(f *testing.F) {
	raw, err := wire.Marshal(request{Lease: []byte("me"), Request: good})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	s := &Service{Leases: &leases{}, Fetcher: fetcher(nil), Timeout: time.Second,
		Peers: peers(2)}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var q request
		if wire.Unmarshal(raw, &q) != nil {
			return
		}
		if _, err := s.check(context.Background(), "me", true, q); err != nil {
			return
		}
		if string(q.Lease) != "me" || !subnet.Contains(q.Request.Addr.Unmap()) ||
			check(q.Request.URL) != nil {
			t.Errorf("check accepted %+v", q)
		}
	})
}

// The longest report of package crawl fits into one message.
func TestLongestReport(t *testing.T) {
	links := make([]store.URL, maxLinks)
	for i := range links { // 12 MiB
		noise := sha256.Sum256([]byte{byte(i), byte(i >> 8), byte(i >> 16)})
		links[i] = store.URL(fmt.Sprintf("http://a.test/%x%048d", noise, i))[:125]
	}
	owner, est := two(t, func(context.Context, store.FetchRequest) (store.FetchReport, error) {
		return store.FetchReport{Outcome: store.OutcomeOK, Links: links}, nil
	})
	rep, err := owner.Fetch(t.Context(), est.Host.ID(), sealedBy(owner), good)
	if err != nil || !slices.Equal(rep.Links, links) {
		t.Errorf("report has %d links, want %d: %v", len(rep.Links), len(links), err)
	}
	more := append(slices.Clone(links), "http://a.test/")
	if plausible(store.FetchReport{Outcome: store.OutcomeOK, Links: more}, time.Minute) == nil {
		t.Error("plausible with too many links = nil, want an error")
	}
}

// FuzzReport passes reports to the owner. Accepted ones have valid numbers and links.
func FuzzReport(f *testing.F) {
	raw, err := wire.Marshal(response{Report: store.FetchReport{Outcome: store.OutcomeOK,
		Status: 200}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	raw, err = wire.Marshal(response{Report: store.FetchReport{
		Outcome: store.OutcomeRedirect, Links: []store.URL{"http://b.test/", "http://b.test/bad",
			"", "x"},
	}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	s := &Service{Fetcher: fetcher(nil), Timeout: time.Minute}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var a response
		if wire.Unmarshal(raw, &a) != nil {
			return
		}
		rep, err := s.accept(a.Report)
		if err != nil {
			if !errors.Is(err, ErrNoReply) || rep.Outcome != store.OutcomeNone || rep.Links != nil {
				t.Errorf("accept failed with %v and report %+v, want ErrNoReply and "+
					"an empty report", err, rep)
			}
			return
		}
		if total := rep.Timing.Total(); total < 0 || total > 10*time.Minute {
			t.Errorf("accepted total time %v", total)
		}
		if len(rep.Links) > maxLinks {
			t.Errorf("accepted %d links", len(rep.Links))
		}
		for _, u := range rep.Links {
			if len(u) > maxURL || check(u) != nil {
				t.Errorf("accepted link %q", u)
			}
		}
	})
}
