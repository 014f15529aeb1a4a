// Command colly is the driver of Colly v2 (https://go-colly.org) for "peerd-lab compare". It is
// a module of its own, so that peerd does not depend on Colly. Its argument is the options as
// JSON; it prints a tally as JSON.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gocolly/colly/v2"
)

// options are driverOptions of package lab/compare.
type options struct {
	Seeds    []string
	Parallel int // requests at once
	Agent    string
	MaxBody  int      // bytes read of one answer
	Skip     []string // file extensions that are not followed
}

// tally is the result of the crawl.
type tally struct {
	Pages  int64 `json:"pages"` // 200 text/html
	Failed int64 `json:"failed"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "colly:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("want one argument, options as JSON")
	}
	var o options
	if err := json.Unmarshal([]byte(args[0]), &o); err != nil {
		return err
	}
	t, err := crawl(ctx, o)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(t)
}

// crawl crawls with Colly. Its settings are Colly's defaults, with two exceptions that speed it
// up: it keeps as many idle connections as there are parallel requests, and drops links that
// are not followed before Colly sees them, which is cheaper than Colly's own filters.
func crawl(ctx context.Context, o options) (tally, error) {
	r, err := newRule(o)
	if err != nil {
		return tally{}, err
	}
	n := o.Parallel
	c := colly.NewCollector(colly.Async(true), colly.UserAgent(o.Agent),
		colly.MaxBodySize(o.MaxBody), colly.StdlibContext(ctx))
	c.WithTransport(&http.Transport{MaxIdleConnsPerHost: n, MaxIdleConns: 4 * n,
		DisableCompression: true, ReadBufferSize: 64 << 10})
	c.SetRequestTimeout(30 * time.Second)
	if err := c.Limit(&colly.LimitRule{DomainGlob: "*", Parallelism: n}); err != nil {
		return tally{}, err
	}
	var pages, failed atomic.Int64
	c.OnHTML("a[href], area[href], link[href]", visit(r, "href"))
	c.OnHTML("frame[src], iframe[src]", visit(r, "src"))
	c.OnResponse(func(res *colly.Response) {
		if strings.HasPrefix(res.Headers.Get("Content-Type"), "text/html") {
			pages.Add(1)
		}
	})
	c.OnError(func(res *colly.Response, _ error) {
		if res.StatusCode == 0 { // otherwise the server has answered
			failed.Add(1)
		}
	})
	for _, s := range o.Seeds {
		if err := c.Visit(s); err != nil {
			return tally{}, err
		}
	}
	c.Wait()
	return tally{Pages: pages.Load(), Failed: failed.Load()}, ctx.Err()
}

// visit follows the link in attr of an element.
func visit(r rule, attr string) colly.HTMLCallback {
	return func(e *colly.HTMLElement) {
		s := e.Request.AbsoluteURL(e.Attr(attr))
		if s == "" {
			return
		}
		s, _, _ = strings.Cut(s, "#")
		if u, err := url.Parse(s); err == nil && r.follows(u) {
			_ = e.Request.Visit(s) // fails for URLs seen before; OnError counts other errors
		}
	}
}

// rule decides which links are followed: those to the hosts of the seeds, unless their file
// extension is skipped.
type rule struct{ hosts, skip map[string]bool }

func newRule(o options) (rule, error) {
	r := rule{hosts: map[string]bool{}, skip: map[string]bool{}}
	for _, ext := range o.Skip {
		r.skip[ext] = true
	}
	for _, s := range o.Seeds {
		u, err := url.Parse(s)
		if err != nil {
			return r, err
		}
		r.hosts[strings.ToLower(u.Hostname())] = true
	}
	return r, nil
}

// follows reports whether u is followed.
func (r rule) follows(u *url.URL) bool {
	if u.Scheme != "http" && u.Scheme != "https" || !r.hosts[strings.ToLower(u.Hostname())] {
		return false
	}
	name := u.Path[strings.LastIndexByte(u.Path, '/')+1:]
	dot := strings.LastIndexByte(name, '.')
	return dot < 0 || !r.skip[strings.ToLower(name[dot+1:])]
}
