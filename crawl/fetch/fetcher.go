package fetch

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"sync/atomic"
	"time"

	"peerd/crawl/deny"
	"peerd/store"
)

// ErrOtherAddr means that another address than Request.Addr has answered first: Result.Addr. No
// request was sent; a connection to it is kept for a Request with that address.
var ErrOtherAddr = errors.New("another address of the host answered")

// Request is a request for a URL at an address.
type Request struct {
	URL     store.URL
	Addr    netip.Addr // the only address to which the request is sent; required
	MaxBody int64      // in bytes; 0 means Config.MaxBody
	// More looks up further addresses of the host. It is asked, once, if a new connection is
	// needed and Addr does not answer within 250 ms, has refused, or is known to be dead. If one of
	// them answers first, Result.Err is ErrOtherAddr. Nil means that there are none.
	More Addrs
	// IfNoneMatch and IfModifiedSince are sent unchanged (an entity tag with its quotes, an HTTP
	// date), unless they are empty; a 304 is then OutcomeNotModified. They are omitted if they are
	// longer than 1 KiB or contain control characters.
	IfNoneMatch, IfModifiedSince string
	// KeepRaw requests what an archive needs: Result.RequestHead, ResponseHead and Raw. Of a body
	// that is not wanted, as much is kept as Config.MaxRaw allows.
	KeepRaw bool
	// HTML says that the body of a 2xx response is wanted only if it is a page, by its Content-Type
	// field (extract.IsHTML) and by its first bytes. If it is not, the outcome is OutcomeNotHTML.
	HTML bool
	// Timeout replaces Config.TotalTimeout unless it is 0.
	Timeout time.Duration
}

// Addrs looks up addresses of a host, in order of preference.
type Addrs func(ctx context.Context) []netip.Addr

// conditional reports whether the request has a validator that can be sent.
func (r Request) conditional() bool {
	return validator(r.IfNoneMatch) != "" || validator(r.IfModifiedSince) != ""
}

// Result is the result of a Request.
type Result struct {
	// Outcome is OutcomeNone if and only if Err is ErrOtherAddr or the caller cancelled the context
	// first; the server may then have received a request or not. If the deadline of the context
	// passed, it is OutcomeTimeout.
	Outcome     store.Outcome
	Status      int           // of the response; 0 if there was none
	ContentType string        // as sent, at most 256 bytes
	Body        []byte        // decoded; only for OutcomeOK and OutcomeTooLarge; see Release
	Bytes       int64         // bytes of the body received, also if it is not in Body
	Location    string        // as sent; only for OutcomeRedirect
	RetryAfter  time.Duration // requested by the server, at most 24 h; 0 if none
	Header      http.Header   // of the response; nil if there was none
	// Timing.DNS is from Config.Lookups; the other phases are those of the last attempt.
	Timing  store.Timing
	Started time.Time
	Err     error // nil if the response is complete, or cut at the limit

	// Addr is the address that was connected to, or Request.Addr if none was.
	Addr   netip.Addr
	Remote netip.AddrPort // of the server; invalid if there was no response
	Proto  string         // "http/1.0", "http/1.1" or "h2"; "" if there was no response
	TLS    *TLSInfo       // nil without TLS or a response

	// RequestHead and ResponseHead are set with Request.KeepRaw if there was a response: both heads
	// as HTTP/1 text with the empty line. The fields of the response are in a different order and
	// in canonical case; over HTTP/2, both heads are a translation.
	RequestHead, ResponseHead []byte
	// Raw is the body as received, without chunking but in its content coding. Without a coding it
	// is the same slice as Body. It is nil if Err is not. RawCut says why Raw is incomplete, as in
	// the WARC-Truncated field: "length", "time" or "disconnect"; "" if it is complete.
	Raw    []byte
	RawCut string

	pooled *pooledBuffers
}

// Release returns the memory of Body and Raw for reuse. They must not be used afterwards, also not
// through copies of the Result. Without Release, bodies of more than 256 KiB count towards
// Config.BodyMemory for ever. A second call does nothing.
func (r *Result) Release() {
	if r.pooled != nil {
		r.pooled.release()
	}
	r.Body, r.Raw, r.pooled = nil, nil, nil
}

// Fetcher fetches URLs. Its methods are safe for concurrent use. It starts no goroutines of its
// own; each open connection has the two goroutines of net/http until it is closed.
type Fetcher struct {
	cfg       Config
	transport *http.Transport
	pool      *pool
	memory    *memory
	decoders  *memory // of those for short bodies
	partials  *partials
	addrs     *addrTable
	dial      dialFunc
	tls       *tls.Config // base configuration
	header    http.Header // shared by all requests, never changed
	rates     atomic.Pointer[rates]
	active    atomic.Int64 // calls of Do in progress
}

// New returns a Fetcher, or all errors in cfg.
func New(cfg Config) (*Fetcher, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Guard == nil {
		cfg.Guard = NewGuard(nil)
	}
	if cfg.Dial == nil {
		cfg.Dial = new(net.Dialer).DialContext
	}
	f := &Fetcher{
		cfg:  cfg,
		pool: newPool(cfg.MaxIdle, cfg.MaxIdlePerHost),
		dial: cfg.Dial, memory: newMemory(cfg.BodyMemory), partials: newPartials(cfg.MaxPartial),
		addrs: newAddrTable(), decoders: newMemory(cfg.BodyMemory / 3),
		header: http.Header{
			"User-Agent":      {cfg.UserAgent},
			"Accept":          {"text/html,application/xhtml+xml,*/*;q=0.5"},
			"Accept-Encoding": {acceptEncoding},
		},
	}
	f.SetRates(cfg.MinRate, cfg.SteadyRate)
	if cfg.Proxy != "" {
		u, err := parseProxy(cfg.Proxy)
		if err != nil {
			return nil, err
		}
		if f.dial, err = proxyDialer(u, cfg.Dial); err != nil {
			return nil, err
		}
	}
	f.transport = f.newTransport()
	return f, nil
}

// headerTable is the size of the tables in which HTTP/2 keeps the header fields of a connection, in
// bytes, for each direction. The usual 4096 would take a tenth of an idle connection's memory.
const headerTable = 512

// writeBuffer is the size of a connection's buffer for requests, which are short. The head of a
// longer one is written in several parts.
const writeBuffer = 1 << 10

// newTransport returns the transport that creates the connections.
func (f *Fetcher) newTransport() *http.Transport {
	cfg := f.cfg
	f.tls = cfg.TLS.Clone()
	if f.tls == nil {
		f.tls = new(tls.Config)
	}
	f.tls.ServerName = "" // net/http sets the host
	f.tls.InsecureSkipVerify = f.tls.InsecureSkipVerify || cfg.AcceptInvalidTLS
	if cfg.MaxSessions > 0 {
		f.tls.ClientSessionCache = tls.NewLRUClientSessionCache(cfg.MaxSessions)
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(cfg.HTTP2)
	return &http.Transport{
		Proxy:                  nil, // DialContext uses the proxy, without names
		DialContext:            f.dialContext,
		TLSClientConfig:        f.tls,
		TLSHandshakeTimeout:    tlsTimeout,
		ResponseHeaderTimeout:  cfg.HeadTimeout,
		MaxResponseHeaderBytes: cfg.MaxHead,
		WriteBufferSize:        writeBuffer,
		DisableCompression:     true,
		Protocols:              protocols,
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerConnection: 256 << 10,
			MaxReceiveBufferPerStream:     256 << 10,
			MaxDecoderHeaderTableSize:     headerTable,
			MaxEncoderHeaderTableSize:     headerTable,
			WriteByteTimeout:              cfg.HeadTimeout,
		},
	}
}

// Close closes the idle connections. Connections in use are closed at the end of their request;
// later requests use a new connection each.
func (f *Fetcher) Close() { f.pool.close() }

// Active returns the number of calls of Do in progress.
func (f *Fetcher) Active() int { return int(f.active.Load()) }

// MaxIdle returns how many idle connections are kept.
func (f *Fetcher) MaxIdle() int { return f.cfg.MaxIdle }

// OptOuts returns what web sites have asked for; nil: it is not known.
func (f *Fetcher) OptOuts() *deny.OptOuts {
	if f.cfg.Deny == nil {
		return nil
	}
	return f.cfg.Deny.OptOuts
}

// Leave reports that nothing more is wanted of a host (store.URL.Host) for now. Its idle
// connections are closed before those of other hosts if there are too many.
func (f *Fetcher) Leave(host string) { f.pool.leave(host) }

// exchange is one call of Do.
type exchange struct {
	ctx      context.Context // of the request
	cancel   context.CancelFunc
	req      Request
	progress *progress
	partial  *partial // of which the rest is requested, or nil
	cut      *partial // what was received before an error, or nil
}

// Do fetches req.URL from req.Addr with one GET request, which is written to the network at most
// once. It follows no redirects. The head of the response must arrive within Config.TotalTimeout,
// and the body at the rates of Config. Do returns early when ctx ends: with OutcomeNone if ctx was
// cancelled, with OutcomeTimeout if its deadline passed.
//
// If the body of a response was cut by an error, the beginning is kept for a while, and the next
// call for the URL without KeepRaw and validators asks for the rest (RFC 9110, section 14). Its
// Result is that of a response with the whole body; only Bytes counts the rest.
func (f *Fetcher) Do(ctx context.Context, req Request) Result {
	f.active.Add(1)
	defer f.active.Add(-1)
	res := Result{Started: time.Now(), Addr: req.Addr.Unmap()}
	t, err := parseTarget(req.URL)
	if err == nil {
		err = errors.Join(checkPort(t.port), f.mayDial(req.URL, req.Addr))
	}
	if err != nil {
		res.Outcome, res.Err = classify(err, stageDial, false), err
		return res
	}

	timeout := cmp.Or(req.Timeout, f.cfg.TotalTimeout)
	total, cancel := context.WithCancel(ctx)
	defer cancel()
	x := &exchange{ctx: total, cancel: cancel, req: req, progress: f.newProgress(timeout, cancel)}
	if !req.KeepRaw && !req.conditional() {
		x.partial = f.partials.take(req.URL)
	}
	watch, reused, err := f.exchange(x, t, &res)
	late := x.progress.stop()
	res.Timing = watch.timing(reused)
	if f.cfg.Lookups != nil {
		res.Timing.DNS = f.cfg.Lookups.TakeDuration(req.URL.Host())
	}
	at := netip.AddrPortFrom(res.Addr, t.port)
	if err == nil {
		f.addrs.answered(at)
		return res
	}
	if late != nil {
		err = fmt.Errorf("%w: %w", late, err)
	}
	if res.Status == 0 && !errors.Is(err, errRange) {
		x.cut = x.partial // still of use
	}
	f.partials.put(req.URL, x.cut)
	res.Err = err
	if errors.Is(err, ErrOtherAddr) {
		return res
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		res.Outcome, res.Err = store.OutcomeNone, fmt.Errorf("%w: %w", context.Canceled, err)
		return res
	}
	st, h2, _ := watch.reached()
	res.Outcome = classify(err, st, h2)
	if st == stageTLS && t.url.Scheme == "https" {
		res.Err = describeTLS(err, t.url.Hostname())
	}
	if isSilent(res.Outcome, st) && !reused {
		f.addrs.failed(at) // its connections lead nowhere
	}
	return res
}

// isSilent reports whether a connection was opened and the server then said nothing.
func isSilent(o store.Outcome, st stage) bool {
	return (o == store.OutcomeTimeout || o == store.OutcomeReset) &&
		(st == stageTLS || st == stageSend)
}

// exchange sends the request over an idle or a new connection and reads the response into res. It
// returns the stopwatch of the last attempt.
func (f *Fetcher) exchange(
	x *exchange, t target, res *Result,
) (watch *stopwatch, reused bool, err error) {
	hr := f.newRequest(t, x)
	c, resp, watch, reused, err := f.send(x.ctx, t, hr, x.req, res)
	if err != nil {
		return watch, reused, err
	}
	if x.req.KeepRaw {
		res.RequestHead, res.ResponseHead = requestHead(hr), responseHead(resp)
	}
	err = f.read(x, c, resp, res)
	watch.stop()
	resp.Body.Close()
	if err != nil {
		c.close()
	} else {
		c.wire.due.Store(false)
		f.pool.put(c)
	}
	return watch, reused, err
}

// newRequest returns the request for net/http.
func (f *Fetcher) newRequest(t target, x *exchange) *http.Request {
	header := f.header
	if x.partial != nil {
		header = maps.Clone(header)
		x.partial.request(header)
	}
	for _, c := range [...]struct{ name, value string }{
		{"If-None-Match", validator(x.req.IfNoneMatch)},
		{"If-Modified-Since", validator(x.req.IfModifiedSince)},
	} {
		if c.value != "" {
			if len(header) == len(f.header) {
				header = maps.Clone(header)
			}
			header[c.name] = []string{c.value}
		}
	}
	return &http.Request{
		Method: http.MethodGet, URL: t.url, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
}

// send returns the head of the response. If an idle connection fails before any part of the request
// was written, it is replaced by a new one. Only then is there a second attempt. It sets res.Addr.
func (f *Fetcher) send(
	ctx context.Context, t target, hr *http.Request, req Request, res *Result,
) (c *conn, resp *http.Response, watch *stopwatch, reused bool, err error) {
	key := connKey{scheme: t.url.Scheme, host: t.addr, addr: req.Addr.Unmap()}
	if c := f.pool.get(key); c != nil {
		watch, reused = c.watch, !c.fresh
		if c.fresh = false; reused {
			watch.restart()
		}
		resp, unsent, err := f.roundTrip(ctx, c, hr, watch)
		if err == nil || !unsent || ctx.Err() != nil {
			return c, resp, watch, reused, err
		}
	}
	watch = newStopwatch()
	c, addr, err := f.connect(ctx, t, key, req.More, watch)
	res.Addr = addr
	if err != nil {
		return nil, nil, watch, false, err
	}
	if addr != key.addr {
		f.pool.put(c)
		return nil, nil, watch, false, fmt.Errorf("%w: %v", ErrOtherAddr, addr)
	}
	c.fresh = false
	resp, _, err = f.roundTrip(ctx, c, hr, watch)
	return c, resp, watch, false, err
}

// roundTrip sends the request over c and waits for the head of the response. If it fails, it closes
// c; unsent means that the server has received nothing of the request.
func (f *Fetcher) roundTrip(
	ctx context.Context, c *conn, hr *http.Request, watch *stopwatch,
) (resp *http.Response, unsent bool, err error) {
	before := c.wire.written.Load()
	watch.sending(c.h2)
	c.wire.due.Store(true)
	resp, err = c.cc.RoundTrip(hr.WithContext(httptrace.WithClientTrace(ctx, &watch.trace)))
	if err == nil {
		return resp, false, nil
	}
	_, _, headersUp := watch.reached()
	n := c.wire.written.Load() - before
	// An alert of TLS is shorter than a record with the first part of a long head.
	unsent = n == 0 || c.key.scheme == "https" && !c.h2 && !headersUp && n < writeBuffer
	if c.wire.ended.Load() {
		// net/http reports a head that was cut as malformed.
		err = fmt.Errorf("%w: %w", io.ErrUnexpectedEOF, err)
	}
	c.close()
	return nil, unsent, err
}
