package admin

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// callTimeout bounds a call, except streams.
	callTimeout = 60 * time.Second
	// maxReplyBytes bounds a response, except streams: a queue of a million hosts fits.
	maxReplyBytes = 256 << 20
	// maxLineBytes bounds one line of a stream: a page with the maximum number of long links
	// fits.
	maxLineBytes = 64 << 20
)

// Client is a client of the server of a running peer. It is safe for concurrent use and keeps no
// connection between calls.
type Client struct {
	file string
	api  apiFile
	http *http.Client
}

// Dial returns a client for the peer that wrote the given api.json. It sends nothing yet. Its
// errors, and those of all methods, match ErrNotRunning if the file is missing or belongs to a
// peer that has ended.
func Dial(file string) (*Client, error) {
	api, err := readAPIFile(file)
	if err != nil {
		return nil, err
	}
	return &Client{file: file, api: api, http: &http.Client{
		Transport: &http.Transport{
			DisableKeepAlives:      true,
			ResponseHeaderTimeout:  callTimeout,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}}, nil
}

// Status returns the state of the peer.
func (c *Client) Status(ctx context.Context) (s Status, err error) {
	return s, c.call(ctx, http.MethodGet, pathStatus, nil, &s)
}

// Peers returns the other peers that it knows.
func (c *Client) Peers(ctx context.Context) ([]Peer, error) {
	return list[Peer](ctx, c, pathPeers)
}

// Subnets returns the subnets that it owns.
func (c *Client) Subnets(ctx context.Context) ([]Subnet, error) {
	return list[Subnet](ctx, c, pathSubnets)
}

// Queue returns the hosts that have URLs waiting at it.
func (c *Client) Queue(ctx context.Context) ([]Host, error) {
	return list[Host](ctx, c, pathQueue)
}

// A Selection is a part of a list: Limit rows from Offset on, sorted by a field, in descending
// order with - before its name.
type Selection struct {
	Sort          string
	Offset, Limit int
}

// SomePeers returns a part of the other peers that it knows, and the number of all.
func (c *Client) SomePeers(ctx context.Context, s Selection) ([]Peer, int, error) {
	return some[Peer](ctx, c, pathPeers, s)
}

// SomeSubnets returns a part of the subnets that it owns, and the number of all.
func (c *Client) SomeSubnets(ctx context.Context, s Selection) ([]Subnet, int, error) {
	return some[Subnet](ctx, c, pathSubnets, s)
}

// SomeHosts returns a part of the hosts that have URLs waiting at it, and the number of all.
func (c *Client) SomeHosts(ctx context.Context, s Selection) ([]Host, int, error) {
	return some[Host](ctx, c, pathQueue, s)
}

func some[T any](
	ctx context.Context, c *Client, path string, s Selection,
) (rows []T, total int, err error) {
	q := url.Values{"limit": {strconv.Itoa(s.Limit)}, "offset": {strconv.Itoa(s.Offset)},
		"sort": {s.Sort}}
	head, err := c.exchange(ctx, http.MethodGet, path+"?"+q.Encode(), nil, &rows)
	if err == nil {
		total, err = strconv.Atoi(head.Get(totalHeader))
	}
	return rows, total, err
}

func list[T any](ctx context.Context, c *Client, path string) ([]T, error) {
	all := []T{}
	for {
		var part []T
		head, err := c.exchange(ctx, http.MethodGet,
			fmt.Sprintf("%s?limit=%d&offset=%d", path, MaxRows, len(all)), nil, &part)
		if err != nil {
			return all, err
		}
		all = append(all, part...)
		total, _ := strconv.Atoi(head.Get(totalHeader)) // 0: there is no more
		if len(part) == 0 || len(all) >= total {
			return all, nil
		}
	}
}

// DashboardURL returns a URL with which one browser can open the dashboard, once.
func (c *Client) DashboardURL(ctx context.Context) (string, error) {
	var code LoginCode
	err := c.call(ctx, http.MethodPost, pathCodes, nil, &code)
	return "http://" + c.api.Addr + pathDashboard + "#code=" + code.Code, err
}

// Robots returns what it knows of the robots.txt of each origin of a host. With refresh, it
// requests each again before the next URL of its origin.
func (c *Client) Robots(
	ctx context.Context, host string, refresh bool,
) (fs []RobotsFile, err error) {
	return fs, c.call(ctx, http.MethodPost, pathRobots, RobotsRequest{host, refresh}, &fs)
}

// Seed adds URLs to the crawl, MaxSeedURLs in a request. It does not send URLs longer than
// MaxURLBytes and returns them as invalid. After an error, the result covers the requests before
// it.
func (c *Client) Seed(ctx context.Context, urls []string) (SeedResult, error) {
	return c.addURLs(ctx, pathSeed, urls)
}

// Changed announces that pages have changed. It is like Seed otherwise.
func (c *Client) Changed(ctx context.Context, urls []string) (SeedResult, error) {
	return c.addURLs(ctx, pathChanged, urls)
}

func (c *Client) addURLs(ctx context.Context, path string, urls []string) (SeedResult, error) {
	var total SeedResult
	for part := range slices.Chunk(urls, MaxSeedURLs) {
		req := SeedRequest{URLs: make([]string, 0, len(part))}
		for _, u := range part {
			if len(u) > MaxURLBytes {
				total.Invalid = append(total.Invalid, Rejected{URL: u[:MaxURLBytes],
					Reason: fmt.Sprintf("longer than %d bytes", MaxURLBytes)})
				continue
			}
			req.URLs = append(req.URLs, u)
		}
		var res SeedResult
		if err := c.call(ctx, http.MethodPost, path, req, &res); err != nil {
			return total, err
		}
		total.Add(res)
	}
	return total, nil
}

// Stop requests a clean stop. It does not wait for the end; Wait does.
func (c *Client) Stop(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, pathStop, nil, &struct{}{})
}

// Pause stops fetching for a time, at most MaxPause, or until Resume if that is 0.
func (c *Client) Pause(ctx context.Context, d time.Duration) error {
	return c.call(ctx, http.MethodPost, pathPause, PauseRequest{ForS: d.Seconds()}, &struct{}{})
}

// Resume ends a pause.
func (c *Client) Resume(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, pathPause, PauseRequest{Resume: true}, &struct{}{})
}

// Reload has the peer read config.toml again.
func (c *Client) Reload(ctx context.Context) (r Reloaded, err error) {
	return r, c.call(ctx, http.MethodPost, pathReload, nil, &r)
}

// Leave requests a clean stop that first hands everything over, for at most limit, and calls
// report with the progress until the handover is done. It does not wait for the end of the peer;
// Wait does. The error is io.ErrUnexpectedEOF if the peer ended before it reported the end of
// the handover.
func (c *Client) Leave(ctx context.Context, limit time.Duration, report func(Drain)) error {
	in := LeaveRequest{LimitS: limit.Seconds()}
	return c.lines(ctx, http.MethodPost, pathLeave, in, func(line []byte) (done bool, err error) {
		var d Drain
		if err := json.Unmarshal(line, &d); err != nil {
			return false, unreadable(err)
		}
		report(d)
		return d.Done, nil
	})
}

// Wait returns nil when the peer has ended or was replaced by another one, or the error of ctx.
func (c *Client) Wait(ctx context.Context) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		now, err := readAPIFile(c.file)
		if errors.Is(err, ErrNotRunning) || err == nil && now != c.api {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		// A killed peer leaves its file behind.
		if err := c.call(ctx, http.MethodGet, pathAlive, nil, &struct{}{}); errors.Is(err,
			ErrNotRunning) {
			return nil
		}
	}
}

// Links calls yield for every page that the peer fetched, or for those behind the page of the URL
// after. The error is io.ErrUnexpectedEOF if the stream ended early.
func (c *Client) Links(ctx context.Context, after string, yield func(Link) error) error {
	return stream(ctx, c, pathLinks+"?after="+url.QueryEscape(after), yield)
}

// GivenUp calls yield for every URL that the peer no longer tries to fetch, or those of one host.
// Its errors are those of Links.
func (c *Client) GivenUp(ctx context.Context, host string, yield func(GivenUp) error) error {
	path := pathGivenUp
	if host != "" {
		path += "?host=" + url.QueryEscape(host)
	}
	return stream(ctx, c, path, yield)
}

// Retry queues URLs again that the peer has given up.
func (c *Client) Retry(ctx context.Context, r RetryRequest) (res RetryResult, err error) {
	return res, c.call(ctx, http.MethodPost, pathRetry, r, &res)
}

// stream calls yield for every line of a response. An empty line ends it.
func stream[T any](ctx context.Context, c *Client, path string, yield func(T) error) error {
	return c.lines(ctx, http.MethodGet, path, nil, func(line []byte) (done bool, err error) {
		if len(line) == 0 {
			return true, nil
		}
		var v T
		if err := json.Unmarshal(line, &v); err != nil {
			return false, unreadable(err)
		}
		return false, yield(v)
	})
}

// lines calls fn for every line of a response until it returns true or an error. The error is
// io.ErrUnexpectedEOF if the response ends before.
func (c *Client) lines(
	ctx context.Context, method, path string, in any, fn func(line []byte) (done bool, err error),
) error {
	resp, err := c.send(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	all := bufio.NewScanner(resp.Body)
	all.Buffer(make([]byte, 0, 64<<10), maxLineBytes)
	for all.Scan() {
		if done, err := fn(all.Bytes()); done || err != nil {
			return err
		}
	}
	if err := cmp.Or(ctx.Err(), all.Err()); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return unreadable(fmt.Errorf("%w: %w", io.ErrUnexpectedEOF, err))
	}
	return unreadable(io.ErrUnexpectedEOF)
}

func unreadable(err error) error { return fmt.Errorf("read response of the peer: %w", err) }

// call sends in, unless it is nil, and decodes the response into out.
func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	_, err := c.exchange(ctx, method, path, in, out)
	return err
}

// exchange is call. It returns the header of the response.
func (c *Client) exchange(
	ctx context.Context, method, path string, in, out any,
) (http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := c.send(ctx, method, path, in)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxReplyBytes)).Decode(out); err != nil {
		return nil, unreadable(err)
	}
	return resp.Header, nil
}

// send returns the response if it comes from a peer and has status 200.
func (c *Client) send(ctx context.Context, method, path string, in any) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+c.api.Addr+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.api.Token)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.explain(err)
	}
	switch {
	case resp.Header.Get("Server") != serverName, resp.StatusCode == http.StatusUnauthorized:
		// Another program uses the port now, so the peer has ended: the file of a running peer
		// always has its token.
		err = c.stale()
	case resp.StatusCode != http.StatusOK:
		err = readError(resp)
	default:
		return resp, nil
	}
	resp.Body.Close()
	return nil, err
}

// explain distinguishes a peer that has ended from other reasons for a failed request.
func (c *Client) explain(err error) error {
	if _, statErr := os.Stat(c.file); errors.Is(statErr, os.ErrNotExist) {
		return ErrNotRunning
	}
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) ||
		strings.Contains(err.Error(), "malformed HTTP") { // net/http exports no such error
		return c.stale()
	}
	return fmt.Errorf("ask the peer: %w", err)
}

// stale returns the error for a file that a killed peer left behind.
func (c *Client) stale() error {
	return fmt.Errorf("%w: %s was left behind by a peer that was killed", ErrNotRunning, c.file)
}
