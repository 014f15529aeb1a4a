package crawllet

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"peerd/crawl/crawllet/record"
)

// Client runs crawllets at sites. It is safe for concurrent use.
type Client struct {
	// HTTP sends the requests. It must not follow redirects: see NewHTTPClient.
	HTTP *http.Client
	// Key identifies the crawler.
	Key ed25519.PrivateKey
	// Agent is a product token and the address of the operator, as in User-Agent.
	Agent string
}

// NewHTTPClient returns a client that suits Client. A nil transport means the default one.
func NewHTTPClient(t http.RoundTripper) *http.Client {
	return &http.Client{
		Transport: t,
		// A signed request is for one site.
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
}

// Job is what to run.
type Job struct {
	Module []byte
	Args   []string
	// Seeds are the URLs to begin with, and Known those that have been crawled.
	Seeds, Known []string
	Limits       Limits // 0 asks for as much as the site allows
}

// Args are the arguments of the reference crawllet.
type Args struct {
	Prefix    string
	Summaries bool
	Since     time.Time // zero for all pages
	Pages     int       // 0 for all
}

// List returns the arguments as a Job has them.
func (a Args) List() []string {
	list := []string{"-prefix", a.Prefix}
	if a.Summaries {
		list = append(list, "-summaries")
	}
	if !a.Since.IsZero() {
		list = append(list, "-since", fmt.Sprint(a.Since.Unix()))
	}
	if a.Pages > 0 {
		list = append(list, "-pages", fmt.Sprint(a.Pages))
	}
	return list
}

// Discover asks the site of a URL for its policy. The error is Unsupported if it has none.
func (c *Client) Discover(ctx context.Context, site string) (Policy, error) {
	var p Policy
	u, err := url.Parse(site)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return p, fmt.Errorf("%q is not the URL of a site", site)
	}
	origin := u.Scheme + "://" + u.Host
	res, err := c.send(ctx, http.MethodGet, origin+Path, nil)
	if err != nil {
		return p, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return p, fail(Unsupported, fmt.Sprintf("%s%s answers %d", origin, Path, res.StatusCode))
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxReply))
	if err != nil {
		return p, fail(CutOff, err.Error())
	}
	if err := parsePolicy(body, origin, &p); err != nil {
		return p, err
	}
	return p, nil
}

// parsePolicy parses the policy of an origin. Sites that answer everything with a page have none.
func parsePolicy(body []byte, origin string, p *Policy) error {
	if err := json.Unmarshal(body, p); err != nil {
		return fail(Unsupported, "the answer is not a policy")
	}
	if err := p.check(); err != nil {
		return err
	}
	if !strings.HasPrefix(p.Prefix, origin+"/") {
		return fail(BadReply, "the policy is for another site")
	}
	return nil
}

// Run runs a job at the site of a policy, and uploads the module if the site does not have it. The
// caller reads the records of the Run and closes it.
func (c *Client) Run(ctx context.Context, p Policy, j Job) (*Run, error) {
	digest := sha256.Sum256(j.Module)
	offer, err := Offer{
		Prefix: p.Prefix, Agent: c.Agent, Module: digest[:], Args: j.Args, Wants: j.Limits,
	}.sign(c.Key, time.Now())
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(p.Prefix)
	if err != nil {
		return nil, err
	}
	endpoint := u.Scheme + "://" + u.Host + Path
	g, err := c.offer(ctx, endpoint, offer)
	if err != nil {
		return nil, err
	}
	if !g.Known {
		res, err := c.send(ctx, http.MethodPut, endpoint+"/"+g.Ticket, j.Module)
		if err != nil {
			return nil, err
		}
		res.Body.Close()
		if res.StatusCode != http.StatusNoContent {
			return nil, fail(BadReply, fmt.Sprintf("upload: status %d", res.StatusCode))
		}
	}
	limits := g.Limits.grant(j.Limits) // the grant may exceed what was wanted
	// The site ends the run at its limit; this is for a site that does not.
	ctx, cancel := context.WithTimeout(ctx, time.Duration(limits.Wall)*time.Second+time.Minute)
	res, err := c.send(ctx, http.MethodPost, endpoint+"/"+g.Ticket, input(j.Seeds, j.Known))
	if err != nil {
		cancel()
		return nil, err
	}
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != OutputType {
		res.Body.Close()
		cancel()
		return nil, fail(BadReply, fmt.Sprintf("run: status %d", res.StatusCode))
	}
	return newRun(res.Body, p.Prefix, limits, cancel)
}

// input returns the lists of URLs as the reference crawllet reads them.
func input(seeds, known []string) []byte {
	var b bytes.Buffer
	for _, u := range seeds {
		b.WriteString(u + "\n")
	}
	b.WriteString("\n")
	for _, u := range known {
		b.WriteString(u + "\n")
	}
	return b.Bytes()
}

// offer sends a signed offer.
func (c *Client) offer(ctx context.Context, endpoint string, offer []byte) (*Grant, error) {
	res, err := c.send(ctx, http.MethodPost, endpoint, offer)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxReply))
	if err != nil {
		return nil, fail(CutOff, err.Error())
	}
	return parseGrant(body)
}

// parseGrant parses a grant.
func parseGrant(body []byte) (*Grant, error) {
	g := new(Grant)
	if json.Unmarshal(body, g) != nil || g.Ticket == "" || len(g.Ticket) > 128 ||
		url.PathEscape(g.Ticket) != g.Ticket || g.Limits.check() != nil {
		return nil, fail(BadReply, "the answer is not a grant")
	}
	return g, nil
}

// send sends a request. If the answer is a Failure, it is the error.
func (c *Client) send(ctx context.Context, method, u string, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, u, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", c.Agent)
	if body != nil {
		r.Header.Set("Content-Type", "application/octet-stream")
	}
	res, err := c.HTTP.Do(r)
	if err != nil || res.StatusCode < 400 {
		return res, err
	}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
		text, readErr := io.ReadAll(io.LimitReader(res.Body, maxReply))
		if f := parseFailure(text); readErr == nil && f != nil {
			res.Body.Close()
			return nil, f
		}
	}
	return res, err
}

// parseFailure returns the failure that a site reports, or nil if it is none.
func parseFailure(body []byte) *Failure {
	f := new(Failure)
	err := json.Unmarshal(body, f)
	if valid := err == nil && f.Reason != "" && len(f.Reason) <= 64; !valid {
		return nil
	}
	f.Detail = f.Detail[:min(len(f.Detail), maxDetail)]
	return f
}

// Run is a run at a site. It is used by one goroutine.
type Run struct {
	prefix string
	body   io.Closer
	cancel context.CancelFunc

	received counter
	frames   *frameReader
	zstd     *zstd.Decoder
	records  *record.Reader
}

// counter counts the bytes that are read.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// receivedSlack is how much a reply may have beyond twice the output: frames and blocks with little
// in them, bytes.
const receivedSlack = 16 << 20

func newRun(body io.ReadCloser, prefix string, l Limits, cancel context.CancelFunc) (*Run, error) {
	most := int64(min(l.Output, maxLimits.Output))
	r := &Run{prefix: prefix, body: body, cancel: cancel,
		received: counter{r: io.LimitReader(body, 2*most+receivedSlack)}}
	r.frames = &frameReader{r: &r.received}
	dec, err := zstd.NewReader(r.frames, zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderMaxWindow(8<<20), zstd.WithDecoderLowmem(true))
	if err != nil {
		r.Close()
		return nil, err
	}
	r.zstd = dec
	// One byte more, so that the last frame is read if the output is as long as it may be.
	r.records = record.NewReader(io.LimitReader(dec, most+1))
	return r, nil
}

// Received returns the number of bytes of the reply so far.
func (r *Run) Received() int64 { return r.received.n }

// End returns what the site says about the end of the run, after Next has returned an error; nil
// if the reply ended without it.
func (r *Run) End() *End { return r.frames.end }

// Next returns the next record. Its URL is below the prefix of the site, and its digest that of its
// body, if it has one. The error is io.EOF after a successful run, otherwise a Failure; the
// records before it are valid.
func (r *Run) Next() (record.Record, error) {
	rec, err := r.records.Read()
	if err != nil {
		return rec, r.failure(err)
	}
	if !strings.HasPrefix(rec.URL, r.prefix) {
		return rec, fail(BadReply, "a record of another site")
	}
	if len(rec.Body) > 0 {
		rec.Digest = record.Digest(rec.Body)
	}
	return rec, nil
}

// failure returns the error of a run of which reading ended with err.
func (r *Run) failure(err error) error {
	end, frames := r.frames.end, r.frames.err
	switch {
	case frames != nil && !errors.Is(frames, io.EOF):
		return frames
	case end != nil && end.Reason != "":
		return end.err()
	case end != nil && errors.Is(err, io.EOF):
		return io.EOF
	}
	return fail(BadReply, err.Error())
}

// Close ends the run, also before its end.
func (r *Run) Close() error {
	r.cancel()
	if r.zstd != nil {
		r.zstd.Close()
	}
	return r.body.Close()
}
