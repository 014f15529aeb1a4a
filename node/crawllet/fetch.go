package crawllet

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"peerd/crawl/crawllet"
	"peerd/crawl/crawllet/record"
	"peerd/internal/bounded"
	"peerd/node/config"
)

// maxModule is the maximum size of a module that is read, bytes.
const maxModule = 64 << 20

// FetchOptions are the options of Fetch.
type FetchOptions struct {
	URL    string
	Module string // file with the crawllet; "" means crawllet.wasm beside the program
	// Home has the key that identifies the crawler; nil means a new key.
	Home *config.Home
	// To is where the records are written.
	To        Target
	Summaries bool
	Since     time.Time
	Pages     int
	// Check is the number of pages that are also fetched and compared.
	Check   int
	Contact string // of the operator, in the User-Agent
}

// Target receives records.
type Target interface {
	Write(record.Record) error
}

// FetchResult is what a Fetch has done, also if it failed.
type FetchResult struct {
	Records  int // of them Pages with status 200
	Pages    int
	Bytes    int64 // of the pages
	Received int64 // from the site
	First    time.Duration
	Time     time.Duration
	Usage    crawllet.Usage // as the site reports it
	Checked  crawllet.Checked
}

// Fetch has a crawllet crawl the site of a URL from there, and writes the records.
func Fetch(ctx context.Context, o FetchOptions) (FetchResult, error) {
	var res FetchResult
	module, err := readModule(o.Module)
	if err != nil {
		return res, err
	}
	key, err := o.key()
	if err != nil {
		return res, err
	}
	web := crawllet.NewHTTPClient(&http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   30 * time.Second,
		ResponseHeaderTimeout: 2 * time.Minute, // compiling a module takes some seconds
		DisableCompression:    true,
		ForceAttemptHTTP2:     true,
	})
	defer web.CloseIdleConnections()
	c := &crawllet.Client{HTTP: web, Key: key, Agent: config.UserAgent(o.Contact)}
	start := time.Now()
	policy, err := c.Discover(ctx, o.URL)
	if err != nil {
		return res, err
	}
	if !strings.HasPrefix(o.URL, policy.Prefix) {
		return res, fmt.Errorf("%s is not below %s, which the site serves to crawllets", o.URL,
			policy.Prefix)
	}
	args := crawllet.Args{
		Prefix: policy.Prefix, Summaries: o.Summaries, Since: o.Since, Pages: o.Pages,
	}
	run, err := c.Run(ctx, policy,
		crawllet.Job{Module: module, Args: args.List(), Seeds: []string{o.URL}})
	if err != nil {
		return res, err
	}
	defer run.Close()
	sample := crawllet.NewSample(o.Check)
	err = res.read(run, o.To, sample, start)
	res.Time, res.Received = time.Since(start), run.Received()
	if end := run.End(); end != nil {
		res.Usage = end.Usage
	}
	if err != nil || o.Check == 0 {
		return res, err
	}
	res.Checked, err = sample.Check(ctx, fetcher(web, c.Agent))
	return res, err
}

// read reads the records of a run.
func (res *FetchResult) read(
	run *crawllet.Run, to Target, sample *crawllet.Sample, start time.Time,
) error {
	for {
		r, err := run.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if res.First == 0 {
			res.First = time.Since(start)
		}
		res.Records++
		if r.Status == http.StatusOK {
			res.Pages++
			res.Bytes += r.Size
		}
		sample.Add(r)
		if err := to.Write(r); err != nil {
			return err
		}
	}
}

// key returns the key of the home, or a new one.
func (o *FetchOptions) key() (ed25519.PrivateKey, error) {
	if o.Home == nil {
		_, key, err := ed25519.GenerateKey(nil)
		return key, err
	}
	key, err := o.Home.Key()
	if err != nil {
		return nil, err
	}
	return key.Raw()
}

// readModule returns the module in a file.
func readModule(name string) ([]byte, error) {
	if name == "" {
		program, err := os.Executable()
		if err != nil {
			return nil, err
		}
		name = filepath.Join(filepath.Dir(program), "crawllet.wasm")
	}
	b, err := bounded.ReadFile(name, maxModule)
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%w; build it with: make crawllet", err)
	}
	return b, err
}

// fetcher fetches pages as any client does.
func fetcher(c *http.Client, agent string) func(context.Context, string) (int, []byte, error) {
	return func(ctx context.Context, u string) (int, []byte, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
		if err != nil {
			return 0, nil, err
		}
		r.Header.Set("User-Agent", agent)
		res, err := c.Do(r)
		if err != nil {
			return 0, nil, err
		}
		defer res.Body.Close()
		body, err := io.ReadAll(io.LimitReader(res.Body, record.MaxBody+1))
		return res.StatusCode, body, err
	}
}
