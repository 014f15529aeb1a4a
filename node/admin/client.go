package admin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"syscall"
	"time"
)

const (
	// callTimeout bounds a whole call, streams apart.
	callTimeout = 60 * time.Second
	// maxReplyBytes bounds an answer, streams apart: a queue of a million hosts
	// fits.
	maxReplyBytes = 256 << 20
	// maxLineBytes bounds one line of a stream: a page with as many long links
	// as a page can have.
	maxLineBytes = 64 << 20
)

// Client talks to the server of a running peer. It is safe for concurrent use
// and holds no connection between calls.
type Client struct {
	file string
	api  apiFile
	http *http.Client
}

// Dial returns a client for the peer whose api.json is file. It sends nothing
// yet. Its errors, and those of all methods, match ErrNotRunning when the file
// is missing, or was left behind by a peer that is gone.
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
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Status returns the state of the peer.
func (c *Client) Status(ctx context.Context) (s Status, err error) {
	return s, c.call(ctx, http.MethodGet, pathStatus, nil, &s)
}

// Peers returns the other peers that it knows.
func (c *Client) Peers(ctx context.Context) (ps []Peer, err error) {
	return ps, c.call(ctx, http.MethodGet, pathPeers, nil, &ps)
}

// Subnets returns the subnets that it owns or is about to.
func (c *Client) Subnets(ctx context.Context) (ss []Subnet, err error) {
	return ss, c.call(ctx, http.MethodGet, pathSubnets, nil, &ss)
}

// Queue returns the hosts with URLs waiting at it.
func (c *Client) Queue(ctx context.Context) (hs []Host, err error) {
	return hs, c.call(ctx, http.MethodGet, pathQueue, nil, &hs)
}

// Seed puts URLs into the crawl, MaxSeedURLs a request. URLs longer than
// MaxURLBytes are not sent, but come back as invalid. On an error the result
// tells of the requests before it.
func (c *Client) Seed(ctx context.Context, urls []string) (SeedResult, error) {
	var total SeedResult
	for part := range slices.Chunk(urls, MaxSeedURLs) {
		req := SeedRequest{URLs: make([]string, 0, len(part))}
		for _, u := range part {
			if len(u) > MaxURLBytes {
				total.Invalid = append(total.Invalid, Rejected{URL: u[:MaxURLBytes], Reason: fmt.Sprintf("longer than %d bytes", MaxURLBytes)})
				continue
			}
			req.URLs = append(req.URLs, u)
		}
		var res SeedResult
		if err := c.call(ctx, http.MethodPost, pathSeed, req, &res); err != nil {
			return total, err
		}
		total.Add(res)
	}
	return total, nil
}

// Stop asks for a clean stop. It does not wait for it; Wait does.
func (c *Client) Stop(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, pathStop, nil, &struct{}{})
}

// Leave asks for a clean stop that hands everything over first, for at most
// limit, and calls tell with how far that is until it is over. It does not wait
// for the end of the peer; Wait does. A peer that is gone before it said so is
// io.ErrUnexpectedEOF.
func (c *Client) Leave(ctx context.Context, limit time.Duration, tell func(Drain)) error {
	resp, err := c.send(ctx, http.MethodPost, pathLeave, LeaveRequest{LimitS: limit.Seconds()})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		var d Drain
		if err := json.Unmarshal(lines.Bytes(), &d); err != nil {
			return fmt.Errorf("read progress: %w", err)
		}
		tell(d)
		if d.Over {
			return nil
		}
	}
	if err := lines.Err(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("read progress: %w", io.ErrUnexpectedEOF)
	}
	return errors.Join(ctx.Err(), fmt.Errorf("read progress: %w", io.ErrUnexpectedEOF))
}

// Wait returns when the peer is gone or was replaced by another one, or with
// the error of ctx.
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
		// A peer that was killed leaves its file behind.
		if err := c.call(ctx, http.MethodGet, pathAlive, nil, &struct{}{}); errors.Is(err, ErrNotRunning) {
			return nil
		}
	}
}

// Links calls yield for every page that the peer fetched. A stream that ends
// early is io.ErrUnexpectedEOF.
func (c *Client) Links(ctx context.Context, yield func(Link) error) error {
	resp, err := c.send(ctx, http.MethodGet, pathLinks, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 0, 64<<10), maxLineBytes)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			return nil
		}
		var l Link
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return fmt.Errorf("read links: %w", err)
		}
		if err := yield(l); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read links: %w", err)
	}
	return fmt.Errorf("read links: %w", io.ErrUnexpectedEOF)
}

// call sends in, when it is not nil, and reads the answer into out.
func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := c.send(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxReplyBytes)).Decode(out); err != nil {
		return fmt.Errorf("read answer of the peer: %w", err)
	}
	return nil
}

// send returns the answer when it is a peer's and 200.
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
		// Something else has the port now, so ours is gone: a running peer's
		// file always has its token.
		err = fmt.Errorf("%w (%s is stale)", ErrNotRunning, c.file)
	case resp.StatusCode != http.StatusOK:
		err = readFault(resp)
	default:
		return resp, nil
	}
	resp.Body.Close()
	return nil, err
}

// explain tells a peer that is gone from other reasons why nothing answered.
func (c *Client) explain(err error) error {
	gone := errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET)
	if _, statErr := os.Stat(c.file); errors.Is(statErr, os.ErrNotExist) {
		gone = true
	}
	if gone {
		return fmt.Errorf("%w (%s is stale)", ErrNotRunning, c.file)
	}
	return fmt.Errorf("ask the peer: %w", err)
}
