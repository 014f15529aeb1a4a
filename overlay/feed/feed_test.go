package feed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"pgregory.net/rapid"

	_ "peerd/internal/rapidtest"
	"peerd/overlay/overlaytest"
	"peerd/overlay/wire"
	"peerd/store"
	"peerd/store/index"
	"peerd/store/warc"
)

// sink keeps what is collected in memory. With fail set, it fails after it has stored exchanges.
type sink struct {
	mu   sync.Mutex
	at   map[string]int64
	urls []string
	from map[string]bool
	fail bool
	last map[string]warc.Exchange
	// swept has the numbers of peers that were known at each Sweep.
	swept []int
}

func (s *sink) Position(peer.ID) (map[string]int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.at), nil
}

func (s *sink) Save(_ peer.ID, at map[string]int64, all []warc.Exchange) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail {
		s.fail = false
		return fmt.Errorf("the disk is full")
	}
	for _, x := range all {
		s.urls = append(s.urls, x.URL)
		s.from[x.From] = true
		if s.last != nil {
			s.last[x.URL] = x
		}
	}
	maps.Copy(s.at, at)
	return nil
}

func (s *sink) Version(_ peer.ID, url string, at time.Time) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, ok := s.last[url]
	return x.Body, ok && x.Time.Equal(at)
}

func (s *sink) Sweep(known []peer.AddrInfo) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.swept = append(s.swept, len(known))
	return nil
}

func (s *sink) got() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.urls)
}

// free is memory without a limit.
func free(int) error { return nil }

// A collector gets every page of the hosts that it wants, once and in order, from where it was,
// although its disk fails; and none that was collected.
func TestCollect(t *testing.T) {
	a, err := warc.Open(t.TempDir(), warc.Options{MinFree: -1, MaxFile: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	var want []string
	add := func(host string, i int, from string) {
		t.Helper()
		x := warc.Exchange{URL: fmt.Sprintf("http://%s/%d", host, i), Time: time.Now(), From: from,
			Response: []byte("HTTP/1.1 200 OK\r\n\r\n"),
			Body:     bytes.Repeat([]byte(fmt.Sprint(i)), 4000)}
		if _, err := a.Append(x); err != nil {
			t.Fatal(err)
		}
		if host == "a.example" && from == "" {
			want = append(want, x.URL)
		}
	}
	from, to := overlaytest.Host(t), overlaytest.Host(t)
	overlaytest.Introduce(from, to)
	log := slog.New(slog.DiscardHandler)
	server := &Server{Host: from, Protocol: "/feed", Archive: a, Upload: 1 << 30, Logger: log}
	defer server.Serve().Close()
	s := &sink{at: map[string]int64{}, from: map[string]bool{}, fail: true}
	run := func(until func() bool) {
		t.Helper()
		c := &Collector{Host: to, Protocol: "/feed", Sink: s, Hosts: []string{"a.example"},
			Look: time.Millisecond, Retry: 10 * time.Millisecond, Logger: log,
			Peers: overlaytest.PeersFunc(func() []peer.AddrInfo {
				return []peer.AddrInfo{{ID: from.ID(), Addrs: from.Addrs()}}
			})}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		overlaytest.Until(t, "the pages are collected", until)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	all := func() bool { return len(s.got()) >= len(want) }
	for i := range 400 {
		add("a.example", i, "")
		add("b.example", i, "")
		add("a.example", 1000+i, "12D3KooWother")
	}
	run(all)
	for i := range 5 {
		add("a.example", 2000+i, "")
	}
	run(all)
	if got := s.got(); !slices.Equal(got, want) {
		t.Errorf("collected %d pages, want %d", len(got), len(want))
	}
	if !s.from[from.ID().String()] || len(s.from) != 1 {
		t.Errorf("collected from %v, want %s", s.from, from.ID())
	}
}

// A peer that has no archive, or has enough collectors, says so.
func TestRefused(t *testing.T) {
	from, to := overlaytest.Host(t), overlaytest.Host(t)
	overlaytest.Introduce(from, to)
	log := slog.New(slog.DiscardHandler)
	defer (&Server{Host: from, Protocol: "/feed", Upload: 1, Logger: log}).Serve().Close()
	c := &Collector{Host: to, Protocol: "/feed", Sink: &sink{}, Logger: log}
	_, err := c.converse(t.Context(), peer.AddrInfo{ID: from.ID(), Addrs: from.Addrs()})
	if err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("error %v, want a refusal", err)
	}
}

// A packet counts when it is sent, whether the collector acknowledges it or not.
func TestChargedWhenSent(t *testing.T) {
	a, err := warc.Open(t.TempDir(), warc.Options{MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if _, err := a.Append(warc.Exchange{URL: "http://a.example/", Time: time.Now(),
		Response: []byte("HTTP/1.1 200 OK\r\n\r\n"), Body: make([]byte, 100_000)}); err != nil {
		t.Fatal(err)
	}
	from, to := overlaytest.Host(t), overlaytest.Host(t)
	overlaytest.Introduce(from, to)
	server := &Server{Host: from, Protocol: "/feed", Archive: a, Upload: 1,
		Logger: slog.New(slog.DiscardHandler)}
	defer server.Serve().Close()
	for i := range 3 {
		conn, err := wire.Dial(t.Context(), to, from.ID(), wire.Limits{MaxMsg: maxPacket,
			Timeout: time.Minute}, "/feed")
		if err != nil {
			t.Fatal(err)
		}
		var p packet
		if err := errors.Join(conn.Send(request{}), conn.RecvZ(&p)); err != nil {
			t.Fatal(err)
		}
		conn.Reset()
		most := float64(maxPacket - (i+1)*100_000)
		if left := server.budget.Tokens(); len(p.Items) != 1 || left > most {
			t.Errorf("%d pages received, %.0f bytes left to send, want at most %.0f", len(p.Items),
				left, most)
		}
	}
}

// What is to be sent waits for the budget, and counts no more if the conversation ends before.
func TestChargeWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Upload: 1000}
		s.start()
		charge := func(ctx context.Context, bytes int, wait time.Duration, want error) {
			t.Helper()
			begin := time.Now()
			err := s.charge(ctx, nil, bytes)
			if took := time.Since(begin); !errors.Is(err, want) || took != wait {
				t.Errorf("%d bytes: %v after %v, want %v after %v", bytes, err, took, want, wait)
			}
		}
		charge(t.Context(), maxPacket, 0, nil)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		charge(short, 5000, time.Second, context.DeadlineExceeded)
		charge(t.Context(), 5000, 4*time.Second, nil) // one second has passed
	})
}

// What is sent is what is received.
func TestItems(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[a-z0-9/.-]{1,20}`)
		data := rapid.SliceOfN(rapid.Byte(), 1, 50)
		x := warc.Exchange{
			URL: text.Draw(t, "url"), Truncated: text.Draw(t, "truncated"),
			Time:    time.Unix(rapid.Int64Range(1e9, 4e9).Draw(t, "time"), 5).UTC(),
			Request: data.Draw(t, "request"), Response: data.Draw(t, "response"),
			Body: data.Draw(t, "body"), Protocols: []string{text.Draw(t, "protocol")},
			CipherSuite: text.Draw(t, "cipher"), From: "p",
			Metadata: []warc.Field{{Name: text.Draw(t, "name"), Value: text.Draw(t, "value")}},
		}
		if rapid.Bool().Draw(t, "revisit") {
			x.Revisit = &warc.Revisit{Profile: warc.NotModified, Digest: text.Draw(t, "digest"),
				Time: x.Time.Add(-time.Hour)}
		}
		p := packet{At: map[string]int64{"a": 1}, Items: []item{{Exchange: x}}}
		raw, err := wire.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var got packet
		if err := wire.Unmarshal(raw, &got); err != nil {
			t.Fatal(err)
		}
		if err := got.check(); err != nil {
			t.Fatal(err)
		}
		y := got.Items[0].Exchange
		if y.From = "p"; !reflect.DeepEqual(x, y) {
			t.Fatalf("got %+v, want %+v", y, x)
		}
	})
}

// FuzzPacket reads packets: what passes the checks can be turned into exchanges.
func FuzzPacket(f *testing.F) {
	for _, p := range []packet{{}, {Refused: "no"}, {At: map[string]int64{"a": 1},
		Items: []item{{Exchange: warc.Exchange{URL: "http://a.example/", Time: time.Unix(1e9, 0),
			Response: []byte("HTTP/1.1 200 OK"), Addr: netip.MustParseAddr("192.0.2.1"),
			Metadata: []warc.Field{{Name: "a", Value: "b"}},
			Revisit:  &warc.Revisit{Profile: "p", Time: time.Unix(5, 0)}}}}}} {
		raw, err := wire.Marshal(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var p packet
		if wire.Unmarshal(raw, &p) != nil || p.check() != nil {
			return
		}
		for _, i := range p.Items {
			if x := i.Exchange; x.From != "" || x.Time.Year() < 1990 || len(x.Response) == 0 {
				t.Errorf("exchange %+v", x)
			}
		}
	})
}

// FuzzRequest reads requests.
func FuzzRequest(f *testing.F) {
	raw, err := wire.Marshal(request{Hosts: []string{"a.example"}, At: map[string]int64{"a": 1}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Fuzz(func(t *testing.T, raw []byte) {
		var r request
		if wire.Unmarshal(raw, &r) != nil || r.check() != nil {
			return
		}
		for name, at := range r.At {
			if at < 0 || strings.Contains(name, "/") {
				t.Errorf("position %d in %q", at, name)
			}
		}
	})
}

// A collector with topics gets the pages that match one of them, and those of its hosts; the sender
// sends nothing else.
func TestTopics(t *testing.T) {
	a, err := warc.Open(t.TempDir(), warc.Options{MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	add := func(url, text string) {
		t.Helper()
		if _, err := a.Append(warc.Exchange{URL: url, Time: time.Now(), Body: []byte(text),
			Response: []byte("HTTP/1.1 200 OK\r\n\r\n")}); err != nil {
			t.Fatal(err)
		}
	}
	read := func(x *warc.Exchange) (index.Document, bool) {
		return index.Document{URL: store.URL(x.URL), Text: string(x.Body), Type: "html"},
			len(x.Body) > 0
	}
	from := overlaytest.Host(t)
	log := slog.New(slog.DiscardHandler)
	server := &Server{Host: from, Protocol: "/feed", Archive: a, Upload: 1 << 30, Read: read,
		Logger: log}
	defer server.Serve().Close()
	add("http://a.example/1", "apple tart")
	add("http://a.example/2", "apple pie")
	add("http://b.example/1", "nothing")
	add("http://a.example/3", "")
	add("http://c.example/1", "pear tart")
	for i := range 3 * maxItems / 2 { // more than a packet may have
		add(fmt.Sprintf("http://a.example/x%d", i), "plum")
	}
	add("http://a.example/4", "another apple")
	add("http://d.example/1", "pear pie")
	for _, tt := range []struct{ hosts, topics, want []string }{
		{nil, []string{"apple -pie", "pear site:c.example"}, []string{"http://a.example/1",
			"http://c.example/1", "http://a.example/4"}},
		{[]string{"b.example"}, []string{"pie"}, []string{"http://a.example/2",
			"http://b.example/1", "http://d.example/1"}},
	} {
		to := overlaytest.Host(t)
		overlaytest.Introduce(from, to)
		conn, err := wire.Dial(t.Context(), to, from.ID(), wire.Limits{MaxMsg: maxPacket,
			Timeout: time.Minute}, "/feed")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Reset()
		if err := conn.Send(request{Hosts: tt.hosts, Topics: tt.topics}); err != nil {
			t.Fatal(err)
		}
		var got []string
		for len(got) < len(tt.want) {
			var p packet
			if err := errors.Join(conn.RecvZ(&p), conn.Send(ack{Stored: true})); err != nil {
				t.Fatal(err)
			}
			for _, i := range p.Items {
				got = append(got, i.URL)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("hosts %q, topics %q: received %q, want %q", tt.hosts, tt.topics, got, tt.want)
		}
	}
	c := &Collector{Sink: &sink{at: map[string]int64{}, from: map[string]bool{}}}
	f, err := newFilter(nil, []string{"apple"}, read)
	if err != nil {
		t.Fatal(err)
	}
	err = c.store(from.ID(), &packet{At: map[string]int64{"f.warc.gz": 1}, Items: []item{
		{Exchange: warc.Exchange{URL: "http://a.example/1", Time: time.Now(),
			Response: []byte("x"), Body: []byte("plum")}}}}, f, map[string]int64{}, free)
	if got := c.Sink.(*sink).got(); err != nil || len(got) > 0 {
		t.Errorf("stored %q, %v, which the topic does not match", got, err)
	}
	if _, err := newFilter(nil, []string{"date:x"}, read); err == nil {
		t.Error("a topic that is no query is accepted")
	}
	if _, err := newFilter(nil, []string{"apple"}, nil); err == nil {
		t.Error("topics are accepted that no function reads")
	}
}

// A page that has changed a little comes as a difference, also if it changes again, and as a whole
// if the collector has lost the last version.
func TestDeltas(t *testing.T) {
	a, err := warc.Open(t.TempDir(), warc.Options{MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	r := rand.New(rand.NewPCG(1, 2))
	page := make([]byte, 20_000) // cannot be compressed
	for i := range page {
		page[i] = byte(r.Uint32())
	}
	begin := time.Now().Truncate(time.Microsecond)
	versions := 0
	add := func() []byte {
		t.Helper()
		versions++
		body := append(fmt.Appendf(nil, "version %d ", versions), page...)
		if _, err := a.Append(warc.Exchange{URL: "http://a.example/", Body: body,
			Time:     begin.Add(time.Duration(versions) * time.Second),
			Response: []byte("HTTP/1.1 200 OK\r\n\r\n")}); err != nil {
			t.Fatal(err)
		}
		return body
	}
	from, to := overlaytest.Host(t), overlaytest.Host(t)
	overlaytest.Introduce(from, to)
	server := &Server{Host: from, Protocol: "/feed", Archive: a, Upload: 1 << 30,
		Logger: slog.New(slog.DiscardHandler)}
	defer server.Serve().Close()
	s := &sink{at: map[string]int64{}, from: map[string]bool{}, last: map[string]warc.Exchange{}}
	c := &Collector{Sink: s}
	conn, err := wire.Dial(t.Context(), to, from.ID(), wire.Limits{MaxMsg: maxPacket,
		Timeout: time.Minute}, "/feed")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Reset()
	if err := conn.Send(request{}); err != nil {
		t.Fatal(err)
	}
	f, err := newFilter(nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	next := func() (bytes int, stored error) {
		t.Helper()
		for {
			var p packet
			if err := conn.RecvZ(&p); err != nil {
				t.Fatal(err)
			}
			err := c.store(from.ID(), &p, f, map[string]int64{}, free)
			if err := conn.Send(ack{Stored: err == nil, Plain: err != nil}); err != nil {
				t.Fatal(err)
			}
			if len(p.Items) > 0 {
				return len(p.Items[0].Body), err
			}
		}
	}
	for i, lost := range []bool{false, false, false, true, false} {
		want := add()
		if lost {
			clear(s.last)
		}
		n, err := next()
		if small := n < 1000; small != (i > 0) || (err != nil) != lost {
			t.Errorf("version %d: %d bytes, %v", i, n, err)
		}
		if lost {
			if n, err = next(); n < len(page) || err != nil {
				t.Errorf("version %d again: %d bytes, %v", i, n, err)
			}
		}
		if got := s.last["http://a.example/"].Body; !bytes.Equal(got, want) {
			t.Fatalf("version %d is stored as %d bytes %.20q, want %d", i, len(got), got, len(want))
		}
	}
	// Versions that another collector has are of no use to one that begins.
	second := overlaytest.Host(t)
	overlaytest.Introduce(from, second)
	if conn, err = wire.Dial(t.Context(), second, from.ID(), wire.Limits{MaxMsg: maxPacket,
		Timeout: time.Minute}, "/feed"); err != nil {
		t.Fatal(err)
	}
	defer conn.Reset()
	if err := conn.Send(request{}); err != nil {
		t.Fatal(err)
	}
	clear(s.last)
	if n, err := next(); n < len(page) || err != nil {
		t.Errorf("the first packet of a collector: %d bytes, %v, want a whole page", n, err)
	}
	if _, err := patch(page, []byte("nonsense"), free); !errors.Is(err, ErrPacket) {
		t.Errorf("nonsense: %v", err)
	}
	if bomb, err := diff(nil, make([]byte, MaxDelta+1)); err != nil {
		t.Error(err)
	} else if _, err := patch(nil, bomb, free); !errors.Is(err, ErrPacket) {
		t.Errorf("a difference that becomes larger than allowed: %v", err)
	}
}

// A packet of small differences that lead to large pages is wanted without them, and an honest
// sender sends none.
func TestLargeWhole(t *testing.T) {
	body := make([]byte, MaxDelta)
	d, err := diff(body, body)
	if err != nil {
		t.Fatal(err)
	}
	f, err := newFilter(nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	last := warc.Exchange{URL: "http://a.example/", Time: time.Unix(1e9, 0), Body: body}
	s := &sink{at: map[string]int64{}, from: map[string]bool{},
		last: map[string]warc.Exchange{last.URL: last}}
	p := packet{At: map[string]int64{"a": 1}}
	for n := range maxWhole / MaxDelta {
		p.Items = append(p.Items, item{Exchange: warc.Exchange{URL: last.URL,
			Time: last.Time.Add(time.Duration(n+1) * time.Second), Body: d,
			Response: []byte("HTTP/1.1 200 OK\r\n\r\n")}, Base: last.Time.UnixNano()})
	}
	err = (&Collector{Sink: s}).store("p", &p, f, map[string]int64{}, free)
	if !errors.Is(err, errPlain) || len(s.got()) > 0 {
		t.Errorf("store() = %v, with %d pages, want %v", err, len(s.got()), errPlain)
	}

	a, err := warc.Open(t.TempDir(), warc.Options{MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	server := &Server{Archive: a, Upload: 1 << 30, Logger: slog.New(slog.DiscardHandler)}
	server.start()
	at := map[string]int64{}
	for version := range 2 {
		for n := range maxWhole / MaxDelta {
			if _, err := a.Append(warc.Exchange{URL: fmt.Sprintf("http://a.example/%d", n),
				Time: last.Time.Add(time.Duration(version) * time.Hour), Body: body,
				Response: []byte("HTTP/1.1 200 OK\r\n\r\n")}); err != nil {
				t.Fatal(err)
			}
		}
		for packets := 0; ; packets++ {
			p, versions, _, err := server.gather(t.Context(), at, f, true)
			if err != nil {
				t.Fatal(err)
			}
			if server.sent(versions); len(p.Items) == 0 {
				break
			}
			whole := len(p.Items) * 2 * MaxDelta // with the last versions
			if version == 1 && (p.Items[0].Base == 0 || whole > maxWhole+2*MaxDelta) {
				t.Errorf("packet %d: %d pages of %d bytes", packets, len(p.Items), whole)
			}
		}
	}
}

// A sender that names more files than an archive may have fills no disk.
func TestManyFiles(t *testing.T) {
	f, err := newFilter(nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &sink{at: map[string]int64{}}
	at := map[string]int64{}
	for n := range 3 {
		p := packet{At: map[string]int64{}}
		for i := range warc.MaxFiles / 2 {
			p.At[fmt.Sprint(n, i)] = 1
		}
		err := (&Collector{Sink: s}).store("p", &p, f, at, free)
		if want := n == 2; errors.Is(err, ErrPacket) != want {
			t.Errorf("packet %d: %v", n, err)
		}
	}
	if len(s.at) > warc.MaxFiles {
		t.Errorf("%d files are stored, want at most %d", len(s.at), warc.MaxFiles)
	}
}
