package crawllet

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"peerd/crawl/crawllet/record"
)

func newKey(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func someOffer() Offer {
	return Offer{Prefix: "http://a.example/", Agent: "test", Module: make([]byte, 32),
		Args: []string{"-x"}, Wants: Limits{CPU: 3}}
}

// A signed offer is opened unchanged, and none that was changed anywhere.
func TestSign(t *testing.T) {
	key, now := newKey(t), time.Unix(1_700_000_000, 0)
	b, err := someOffer().sign(key, now)
	if err != nil {
		t.Fatal(err)
	}
	o, err := openOffer(b)
	if err != nil {
		t.Fatal(err)
	}
	if o.Prefix != "http://a.example/" || o.Created != now.Unix() || o.Wants.CPU != 3 ||
		!bytes.Equal(o.Key, key.Public().(ed25519.PublicKey)) || len(o.Nonce) != 16 {
		t.Errorf("openOffer() = %+v", o)
	}
	for i := range b {
		changed := bytes.Clone(b)
		changed[i] ^= 1
		if _, err := openOffer(changed); err == nil {
			t.Fatalf("an offer with byte %d changed was accepted", i)
		}
	}
	if _, err := openOffer(append(b, 0)); err == nil {
		t.Error("an offer with a byte more was accepted")
	}
	again, err := someOffer().sign(key, now)
	if err != nil || bytes.Equal(b, again) {
		t.Errorf("two offers are equal, %v", err)
	}
}

// Offers that are out of bounds cannot be signed.
func TestOfferCheck(t *testing.T) {
	for name, change := range map[string]func(*Offer){
		"agent":      func(o *Offer) { o.Agent = "" },
		"long agent": func(o *Offer) { o.Agent = strings.Repeat("a", maxAgent+1) },
		"module":     func(o *Offer) { o.Module = nil },
		"prefix":     func(o *Offer) { o.Prefix = strings.Repeat("a", maxPrefix+1) },
		"arguments":  func(o *Offer) { o.Args = make([]string, maxArgs+1) },
		"argument":   func(o *Offer) { o.Args = []string{strings.Repeat("a", maxArg+1)} },
		"zero byte":  func(o *Offer) { o.Args = []string{"a\x00b"} },
	} {
		o := someOffer()
		change(&o)
		if _, err := o.sign(newKey(t), time.Now()); !errors.Is(err, BadRequest) {
			t.Errorf("%s: sign() = %v, want %v", name, err, BadRequest)
		}
	}
}

// What is granted is neither more than the site allows nor more than the crawler wants.
func TestGrantLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string, least uint32) Limits {
			n := func(what string) uint32 { return rapid.Uint32Min(least).Draw(t, name+what) }
			return Limits{CPU: n("cpu"), Memory: n("memory"), Pages: n("pages"),
				Output: uint64(n("output")), Wall: n("wall"), Scratch: uint64(n("scratch"))}
		}
		site, want := draw("site", 1), draw("want", 0)
		got := site.grant(want)
		for what, l := range map[string][3]uint64{
			"cpu":    {uint64(site.CPU), uint64(want.CPU), uint64(got.CPU)},
			"memory": {uint64(site.Memory), uint64(want.Memory), uint64(got.Memory)},
			"pages":  {uint64(site.Pages), uint64(want.Pages), uint64(got.Pages)},
			"output": {site.Output, want.Output, got.Output},
			"wall":   {uint64(site.Wall), uint64(want.Wall), uint64(got.Wall)},
		} {
			if l[2] == 0 || l[2] > l[0] || l[1] > 0 && l[2] > l[1] {
				t.Fatalf("%s: the site allows %d, the crawler wants %d, granted %d", what, l[0],
					l[1], l[2])
			}
		}
		if got.Scratch != 0 {
			t.Fatalf("granted %d bytes of scratch space", got.Scratch)
		}
	})
}

// A ticket is for one offer, once, and expires. Offers are not accepted twice, late, or early.
func TestTickets(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	offer := func(nonce byte, created time.Time) *Offer {
		return &Offer{Key: make([]byte, 32), Nonce: []byte{nonce}, Created: created.Unix()}
	}
	ts := newTickets()
	name, _, err := ts.add(offer(1, now), Limits{}, now)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		offer *Offer
		at    time.Time
		want  error
	}{
		{"again", offer(1, now), now, Replayed},
		{"again at its end", offer(1, now), now.Add(lifetime), Replayed},
		{"too late", offer(1, now), now.Add(lifetime + time.Second), Expired},
		{"from the future", offer(2, now.Add(skew+time.Second)), now, Expired},
		{"from the near future", offer(3, now.Add(skew)), now, nil},
	} {
		if _, _, err := ts.add(tt.offer, Limits{}, tt.at); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
	for _, at := range []time.Time{now.Add(lifetime + time.Second)} {
		if _, err := ts.get(name, at); !errors.Is(err, NoTicket) {
			t.Errorf("an expired ticket: %v", err)
		}
	}
	name, _, err = ts.add(offer(4, now), Limits{}, now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ts.take(name, now); err != nil {
		t.Errorf("take() = %v", err)
	}
	if _, err := ts.take(name, now); !errors.Is(err, NoTicket) {
		t.Errorf("take() again = %v, want %v", err, NoTicket)
	}
	ts = newTickets()
	for i := range maxTickets + 1 {
		o := offer(0, now)
		o.Nonce = fmt.Append(nil, i)
		if _, _, err := ts.add(o, Limits{}, now); (err != nil) != (i == maxTickets) {
			t.Fatalf("offer %d: %v", i, err)
		}
	}
	late := now.Add(2 * lifetime)
	if _, _, err := ts.add(offer(9, late), Limits{}, late); err != nil ||
		len(ts.nonces) != 1 || len(ts.open) != 1 {
		t.Errorf("later: %v, %d nonces and %d tickets are kept", err, len(ts.nonces), len(ts.open))
	}
}

// replyOf returns the frames of a run that writes parts and ends with end.
func replyOf(t testing.TB, end End, parts ...[]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	s, err := newStream(bufio.NewWriter(&b))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		if _, err := s.enc.Write(p); err != nil {
			t.Fatal(err)
		}
		if err := s.sendPending(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.close(end); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// encoded returns a record in bytes.
func encoded(t testing.TB, url string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := record.Write(&b, &record.Record{URL: url, Status: 404}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func openRun(t testing.TB, b []byte, output uint64) *Run {
	t.Helper()
	r, err := newRun(io.NopCloser(bytes.NewReader(b)), "http://a.example/", Limits{Output: output},
		func() {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// readRun returns the number of records and the error after them.
func readRun(r *Run) (n int, err error) {
	for {
		if _, err := r.Next(); err != nil {
			return n, err
		}
		n++
	}
}

// A reply that is cut anywhere gives a beginning of the records, and is known to be cut.
func TestRunCutOff(t *testing.T) {
	var parts [][]byte
	for i := range 5 {
		parts = append(parts, encoded(t, fmt.Sprintf("http://a.example/%d", i)))
	}
	b := replyOf(t, End{}, parts...)
	most := 0
	for i := range b {
		n, err := readRun(openRun(t, b[:i], 1<<20))
		if !errors.Is(err, CutOff) || n < most {
			t.Fatalf("%d of %d bytes: %d records, then %v", i, len(b), n, err)
		}
		most = n
	}
	if n, err := readRun(openRun(t, b, 1<<20)); n != 5 || !errors.Is(err, io.EOF) || most != 5 {
		t.Errorf("%d records, then %v; %d of a part", n, err, most)
	}
}

// What a site sends is checked.
func TestRunReply(t *testing.T) {
	one := encoded(t, "http://a.example/1")
	frame := func(kind byte, payload []byte) []byte {
		var b bytes.Buffer
		if err := writeFrame(&b, kind, payload); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	for _, tt := range []struct {
		name    string
		b       []byte
		output  uint64
		records int
		want    error
	}{
		{"nothing was written", replyOf(t, End{}), 100, 0, io.EOF},
		{"the output is as long as it may be", replyOf(t, End{}, one), uint64(len(one)), 1, io.EOF},
		{"more output than granted", replyOf(t, End{}, one, one), uint64(len(one)), 1, BadReply},
		{"a limit", replyOf(t, End{Reason: CPULimit}, one), 100, 1, CPULimit},
		{"a limit within a record", replyOf(t, End{Reason: OutputLimit}, one, one[:5]), 100, 1,
			OutputLimit},
		{"an end within a record", replyOf(t, End{}, one, one[:5]), 100, 1, BadReply},
		{"another site", replyOf(t, End{}, encoded(t, "http://b.example/")), 100, 0, BadReply},
		{"no zstd", append(frame(frameData, []byte("hello, world")), frame(frameEnd, nil)...),
			100, 0, BadReply},
		{"unknown frame", frame('x', nil), 100, 0, BadReply},
		{"large frame", []byte{'d', 0xff, 0, 0, 0}, 100, 0, BadReply},
		{"a last frame that is none", frame(frameEnd, []byte("x")), 100, 0, BadReply},
	} {
		n, err := readRun(openRun(t, tt.b, tt.output))
		if n != tt.records || !errors.Is(err, tt.want) {
			t.Errorf("%s: %d records, then %v, want %d, %v", tt.name, n, err, tt.records, tt.want)
		}
	}
}

// The digest of a body is that of the body, whatever the site says.
func TestRunDigest(t *testing.T) {
	var b bytes.Buffer
	if err := record.Write(&b, &record.Record{URL: "http://a.example/", Status: 200,
		Digest: make([]byte, 32), Body: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	rec, err := openRun(t, replyOf(t, End{}, b.Bytes()), 1000).Next()
	if err != nil || !bytes.Equal(rec.Digest, record.Digest([]byte("x"))) {
		t.Errorf("digest %x, %v", rec.Digest, err)
	}
}

// A small reply that unpacks to much is not unpacked.
func TestRunBomb(t *testing.T) {
	b := replyOf(t, End{}, make([]byte, 50<<20))
	if len(b) > 100_000 {
		t.Fatalf("%d bytes", len(b))
	}
	r := openRun(t, b, 1000)
	if n, err := io.Copy(io.Discard, io.LimitReader(r.zstd, 2000)); err != nil || n != 2000 {
		t.Fatalf("%d, %v", n, err)
	}
	if n, err := readRun(openRun(t, b, 1000)); n != 0 || !errors.Is(err, BadReply) {
		t.Errorf("%d records, then %v", n, err)
	}
}

// endless repeats some bytes.
type endless struct {
	part []byte
	n    int
}

func (e *endless) Read(p []byte) (int, error) {
	if e.n > 1<<30 {
		return 0, errors.New("too much was read")
	}
	for i := range p {
		p[i] = e.part[(e.n+i)%len(e.part)]
	}
	e.n += len(p)
	return len(p), nil
}

// A reply that never ends and has no output is not read to its end.
func TestRunEndless(t *testing.T) {
	body := &endless{part: []byte{frameData, 0, 0, 0, 0}}
	r, err := newRun(io.NopCloser(bufio.NewReader(body)), "http://a.example/",
		Limits{Output: 1000}, func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if n, err := readRun(r); n > 0 || !errors.Is(err, CutOff) || r.Received() > 2*receivedSlack {
		t.Errorf("%d records of %d bytes, then %v, want %v", n, r.Received(), err, CutOff)
	}
}

// What a site says about the end is not repeated at any length.
func TestRunDetail(t *testing.T) {
	r := openRun(t, replyOf(t, End{Reason: Crashed, Detail: strings.Repeat("x", 1<<19)}), 100)
	if _, err := readRun(r); !errors.Is(err, Crashed) || len(err.Error()) > 2*maxDetail {
		t.Errorf("an error of %d bytes: %.50v, want %v", len(err.Error()), err, Crashed)
	}
}

// A site that grants more than was wanted may not send it.
func TestLargeGrant(t *testing.T) {
	one := encoded(t, "http://a.example/1")
	site := http.NewServeMux()
	site.HandleFunc("POST "+Path, func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, Grant{Ticket: "t", Limits: maxLimits, Known: true})
	})
	site.HandleFunc("POST "+Path+"/t", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", OutputType)
		_, _ = w.Write(replyOf(t, End{}, one, one, one))
	})
	server := httptest.NewServer(site)
	defer server.Close()
	c := Client{HTTP: NewHTTPClient(nil), Key: newKey(t), Agent: "peerd"}
	p := Policy{Prefix: server.URL + "/"}
	r, err := c.Run(t.Context(), p, Job{Limits: Limits{Output: uint64(len(one))}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.prefix = "http://a.example/"
	if n, err := readRun(r); n != 1 || !errors.Is(err, BadReply) {
		t.Errorf("%d records, then %v, want 1, %v", n, err, BadReply)
	}
}

// The output is cut exactly at the limit, and sent soon if it is little.
func TestStreamLimit(t *testing.T) {
	for _, size := range []int{0, 1, 999, 1000, 1001, chunk, 3 * chunk} {
		var b bytes.Buffer
		s, err := newStream(bufio.NewWriter(&b))
		if err != nil {
			t.Fatal(err)
		}
		stopped := false
		n, err := s.copy(bytes.NewReader(make([]byte, size)), 1000, func() { stopped = true })
		over := size > 1000
		if n != uint64(min(size, 1000)) || errors.Is(err, OutputLimit) != over || stopped != over {
			t.Errorf("%d bytes: %d sent, %v, stopped %v", size, n, err, stopped)
		}
		if err := s.close(End{}); err != nil {
			t.Fatal(err)
		}
		dec, err := zstd.NewReader(&frameReader{r: &b}, zstd.WithDecoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		if out, err := io.ReadAll(dec); err != nil || uint64(len(out)) != n {
			t.Errorf("%d bytes: %d received, %v", size, len(out), err)
		}
		dec.Close()
	}
}

// broken fails after some bytes.
type broken struct{ left int }

func (b *broken) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

// If the client has gone, the output is stopped.
func TestStreamBroken(t *testing.T) {
	s, err := newStream(bufio.NewWriter(&broken{10}))
	if err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	go func() {
		for {
			if _, err := w.Write(make([]byte, chunk)); err != nil {
				return
			}
		}
	}()
	_, err = s.copy(r, 1<<40, func() { r.Close() })
	if !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("copy() = %v", err)
	}
}

func TestPolicyCheck(t *testing.T) {
	good := Policy{Version: Version, Runtime: Runtime, Prefix: "http://a.example/",
		Limits: DefaultLimits}
	for _, tt := range []struct {
		name   string
		change func(*Policy)
		want   error
	}{
		{"good", func(*Policy) {}, nil},
		{"below", func(p *Policy) { p.Prefix = "http://a.example/docs/" }, nil},
		{"version", func(p *Policy) { p.Version = 2 }, Unsupported},
		{"runtime", func(p *Policy) { p.Runtime = "x86" }, Unsupported},
		{"other site", func(p *Policy) { p.Prefix = "http://b.example/" }, BadReply},
		{"similar site", func(p *Policy) { p.Prefix = "http://a.example.org/" }, BadReply},
		{"other port", func(p *Policy) { p.Prefix = "http://a.example:81/" }, BadReply},
		{"other scheme", func(p *Policy) { p.Prefix = "https://a.example/" }, BadReply},
		{"no slash", func(p *Policy) { p.Prefix = "http://a.example/docs" }, BadReply},
		{"query", func(p *Policy) { p.Prefix = "http://a.example/?a=/" }, BadReply},
		{"user", func(p *Policy) { p.Prefix = "http://u@a.example/" }, BadReply},
		{"no limit", func(p *Policy) { p.Limits.CPU = 0 }, BadReply},
		{"large limit", func(p *Policy) { p.Limits.Memory = 5000 }, BadReply},
		{"types", func(p *Policy) { p.Types = make([]string, maxTypes) }, nil},
		{"many types", func(p *Policy) { p.Types = make([]string, maxTypes+1) }, BadReply},
		{"long type", func(p *Policy) { p.Types = []string{strings.Repeat("x", 33)} }, BadReply},
	} {
		p := good
		tt.change(&p)
		b, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if err := parsePolicy(b, "http://a.example", new(Policy)); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
	if err := parsePolicy([]byte("<html>"), "http://a.example", new(Policy)); !errors.Is(err,
		Unsupported) {
		t.Errorf("a page: %v", err)
	}
}
