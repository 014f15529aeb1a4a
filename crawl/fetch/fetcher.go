package fetch

import (
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
	"time"

	"peerd/store"
)

// Request says what to get, and from where.
type Request struct {
	URL     store.URL
	Addr    netip.Addr // dialled, and nothing else; required
	MaxBody int64      // longest body in bytes; 0 means Config.MaxBody
	// DNS is how long it took to resolve Addr, for Timing.DNS; 0 if the answer
	// was remembered.
	DNS time.Duration
	// IfNoneMatch and IfModifiedSince are sent as they stand (an entity tag
	// with its quotes, an HTTP date), if they are not empty: then a 304 is
	// OutcomeNotModified. Longer than 1 KiB or with control characters, they
	// are left out.
	IfNoneMatch, IfModifiedSince string
	// Keep asks for what an archive wants: Result.RequestHead, ResponseHead
	// and Raw. Of answers whose body is not taken, at most 64 KiB are kept.
	Keep bool
	// Accept says whether the body of a 2xx answer with this Content-Type
	// field (at most 256 bytes of it, "" if there is none) is wanted. If not,
	// the outcome is OutcomeNotHTML. Nil takes every type.
	Accept func(contentType string) bool
}

// Result says what came of a Request.
type Result struct {
	// Outcome is OutcomeNone if and only if the caller cancelled its context
	// first; then nothing is known about the URL, though the server may have
	// seen a request. A context's deadline that passes is OutcomeTimeout.
	Outcome     store.Outcome
	Status      int           // of the answer; 0 if there was none
	ContentType string        // as sent, at most 256 bytes
	Body        []byte        // decoded; only for OutcomeOK and OutcomeTooLarge; see Release
	Bytes       int64         // body bytes that came over the wire, taken or not
	Location    string        // as sent; only for OutcomeRedirect
	RetryAfter  time.Duration // what the server asked for, at most 24 h; 0 = nothing
	Header      http.Header   // of the answer; nil if there was none
	Timing      store.Timing  // DNS is the Request's; the other phases are those of the last attempt
	Started     time.Time
	Err         error // nil if the server's answer is complete, or cut at the limit

	Remote netip.AddrPort // of the server that answered; invalid if there was no answer
	Proto  string         // "http/1.0", "http/1.1" or "h2"; "" if there was no answer
	TLS    *TLSInfo       // nil without TLS or answer

	// With Request.Keep, and if there was an answer: its head and that of the
	// request, as HTTP/1 text with the empty line. They say the same as what
	// was sent, but the answer's fields are in another order and spelling,
	// and over HTTP/2 both are a translation.
	RequestHead, ResponseHead []byte
	// Raw is the body as it came, without chunking but in its content coding;
	// if that is none, it is Body itself and not a copy. It is nil if Err is
	// not. RawCut says that there was, or may have been, more of it.
	Raw    []byte
	RawCut bool

	lent *lent
}

// Release gives the memory of Body and Raw back for the next fetch. Nobody may
// look at them any more, in copies of the Result either. To call it is a favour
// and no duty; a second call does nothing.
func (r *Result) Release() {
	if r.lent != nil {
		r.lent.release()
	}
	r.Body, r.Raw, r.lent = nil, nil, nil
}

// Fetcher gets URLs. Its methods may be called by any number of goroutines at
// once. It starts none of its own; each open connection has the two of
// net/http until it is closed.
type Fetcher struct {
	cfg       Config
	transport *http.Transport
	pool      *pool
	dial      dialFunc
	tls       *tls.Config // the base; nil means the defaults
	header    http.Header // shared by all requests, never changed
}

// New returns a Fetcher, or all that is wrong with cfg.
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
		dial: cfg.Dial,
		header: http.Header{
			"User-Agent":      {cfg.UserAgent},
			"Accept":          {"text/html,application/xhtml+xml,*/*;q=0.5"},
			"Accept-Encoding": {acceptEncoding},
		},
	}
	if cfg.Proxy != "" {
		u, err := parseProxy(cfg.Proxy)
		if err != nil {
			return nil, err
		}
		if f.dial, err = through(u, cfg.Dial); err != nil {
			return nil, err
		}
	}
	f.transport = f.newTransport()
	return f, nil
}

// newTransport returns the maker of connections.
func (f *Fetcher) newTransport() *http.Transport {
	cfg := f.cfg
	f.tls = cfg.TLS.Clone()
	if f.tls == nil && cfg.AcceptInvalidTLS {
		f.tls = new(tls.Config)
	}
	if f.tls != nil {
		f.tls.ServerName = "" // net/http puts the host's
		f.tls.InsecureSkipVerify = f.tls.InsecureSkipVerify || cfg.AcceptInvalidTLS
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(!cfg.HTTP1Only)
	return &http.Transport{
		Proxy:                  nil, // ours is below: this one would be told names
		DialContext:            f.dialContext,
		TLSClientConfig:        f.tls,
		TLSHandshakeTimeout:    cfg.TLSTimeout,
		ResponseHeaderTimeout:  cfg.HeadTimeout,
		MaxResponseHeaderBytes: cfg.MaxHead,
		DisableCompression:     true,
		Protocols:              protocols,
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerConnection: 1 << 20,
			MaxReceiveBufferPerStream:     1 << 20,
			WriteByteTimeout:              cfg.HeadTimeout,
		},
	}
}

// Close closes the idle connections. Those in use are closed when their
// request is done; requests that begin later get a connection of their own.
func (f *Fetcher) Close() { f.pool.close() }

// Do gets req.URL from req.Addr with one GET request, which goes out at most
// once (see the package comment). It follows no redirect. It takes at most
// Config.TotalTimeout, and ends early with ctx: OutcomeNone if ctx was
// cancelled, OutcomeTimeout if its deadline passed.
func (f *Fetcher) Do(ctx context.Context, req Request) Result {
	res := Result{Started: time.Now()}
	total, cancel := context.WithTimeout(ctx, f.cfg.TotalTimeout)
	defer cancel()

	t, err := parseTarget(req.URL)
	if err == nil {
		err = errors.Join(checkPort(t.port), f.cfg.Guard.Check(req.Addr))
	}
	if err != nil {
		res.Outcome, res.Err = classify(err, stageDial, false), err
		return res
	}

	watch, reused, err := f.exchange(total, cancel, t, req, &res)
	res.Timing = watch.timing(reused)
	res.Timing.DNS = max(req.DNS, 0)
	if err == nil {
		return res
	}
	res.Err = err
	if errors.Is(ctx.Err(), context.Canceled) {
		res.Outcome, res.Err = store.OutcomeNone, fmt.Errorf("%w: %w", context.Canceled, err)
		return res
	}
	st, h2, _ := watch.reached()
	res.Outcome = classify(err, st, h2)
	return res
}

// exchange sends the request over an idle or a new connection and reads the
// answer into res. It returns the watch of the attempt that counts.
func (f *Fetcher) exchange(ctx context.Context, cancel context.CancelFunc, t target, req Request, res *Result) (watch *stopwatch, reused bool, err error) {
	hr := f.newRequest(t, req)
	c, resp, watch, reused, err := f.send(ctx, t, hr, req.Addr.Unmap())
	if err != nil {
		return watch, reused, err
	}
	if req.Keep {
		res.RequestHead, res.ResponseHead = requestHead(hr), responseHead(resp)
	}
	err = f.read(cancel, c, resp, req, res)
	watch.stop()
	resp.Body.Close()
	if err != nil {
		c.close()
	} else {
		f.pool.put(c)
	}
	return watch, reused, err
}

// newRequest returns what net/http sends for req.
func (f *Fetcher) newRequest(t target, req Request) *http.Request {
	header := f.header
	for _, c := range [...]struct{ name, value string }{
		{"If-None-Match", condition(req.IfNoneMatch)}, {"If-Modified-Since", condition(req.IfModifiedSince)},
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

// send gets the head of the answer. An idle connection that breaks before any
// of the request was written is replaced by a new one, once; that is the only
// case in which there is a second attempt.
func (f *Fetcher) send(ctx context.Context, t target, hr *http.Request, addr netip.Addr) (c *conn, resp *http.Response, watch *stopwatch, reused bool, err error) {
	key := connKey{scheme: t.url.Scheme, host: t.addr, addr: addr}
	if c := f.pool.take(key); c != nil {
		watch = c.watch
		watch.restart()
		resp, unsent, err := f.roundTrip(ctx, c, hr, watch)
		if err == nil || !unsent || ctx.Err() != nil {
			return c, resp, watch, true, err
		}
	}
	watch = newStopwatch()
	c, err = f.connect(ctx, t, key, watch)
	if err != nil {
		return nil, nil, watch, false, err
	}
	resp, _, err = f.roundTrip(ctx, c, hr, watch)
	return c, resp, watch, false, err
}

// roundTrip sends the request over c and waits for the head of the answer. If
// it fails, c is closed; unsent says that then nothing of the request left.
func (f *Fetcher) roundTrip(ctx context.Context, c *conn, hr *http.Request, watch *stopwatch) (resp *http.Response, unsent bool, err error) {
	before := c.wire.written.Load()
	watch.sending(c.h2)
	resp, err = c.cc.RoundTrip(hr.WithContext(httptrace.WithClientTrace(ctx, &watch.trace)))
	if err == nil {
		return resp, false, nil
	}
	_, _, headersUp := watch.reached()
	unsent = c.wire.written.Load() == before || !headersUp && !c.h2
	if c.wire.ended.Load() {
		// net/http calls half a head malformed, not cut short.
		err = fmt.Errorf("%w: %w", io.ErrUnexpectedEOF, err)
	}
	c.close()
	return nil, unsent, err
}
