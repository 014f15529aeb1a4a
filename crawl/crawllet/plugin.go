package crawllet

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"peerd/crawl/crawllet/page"
)

const (
	// A process of a plug-in ends after pluginPages, after pluginIdle without a page, and with the
	// first page that comes pluginAge after its start.
	pluginPages = 500
	pluginIdle  = 30 * time.Second
	pluginAge   = 30 * time.Minute
	// maxAnswer bounds the answer for a page, in bytes.
	maxAnswer = 256 << 10
)

// pluginLimits are those of a process. Wall is more than pluginAge and a page.
var pluginLimits = Limits{CPU: 60, Memory: 64, Wall: 3600}

// ErrOff is returned for pages after a plug-in has ended.
var ErrOff = errors.New("crawllet: the plug-in does not run")

// Plugin is a module that processes pages that this program has fetched. It runs as a crawllet
// does, without files, and in one process for many pages. Process may be called concurrently; the
// plug-in has one page at a time.
type Plugin struct {
	// PageTime bounds the time for a page.
	PageTime time.Duration

	modules *modules
	dir     string // of the module
	calls   chan *pluginCall
	ended   chan struct{} // closed by Run
}

// pluginCall is a page and the place for its result. reply is never waited for by the sender.
type pluginCall struct {
	page  page.Page
	reply chan page.Result
}

// OpenPlugin compiles a module in a process of its own, unless the cache directory has it, and
// returns it as a Plugin. Run must be called.
func OpenPlugin(ctx context.Context, cache string, code []byte) (*Plugin, error) {
	if supported != nil {
		return nil, supported
	}
	m, err := openModules(cache)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(code)
	err = m.add(digest[:], code, func(dir string) error {
		_, err := compileModule(ctx, selfProgram, dir)
		return err
	})
	if err != nil {
		return nil, err
	}
	dir, ok := m.get(digest[:])
	if !ok {
		return nil, fail(NoModule, "")
	}
	return &Plugin{PageTime: 30 * time.Second, modules: m, dir: dir,
		calls: make(chan *pluginCall), ended: make(chan struct{})}, nil
}

// Run serves Process until ctx ends, or the plug-in fails: the error is then a Failure that says
// how. It must be called once.
func (p *Plugin) Run(ctx context.Context) error {
	defer close(p.ended)
	for {
		select {
		case <-ctx.Done():
			return nil
		case c := <-p.calls:
			if err := p.process(ctx, c); ctx.Err() == nil && err != nil {
				return err
			}
		}
	}
}

// Process returns what the plug-in finds in a page. It blocks while the plug-in has other pages.
// The error is ErrOff: Run says why.
func (p *Plugin) Process(pg page.Page) (page.Result, error) {
	c := &pluginCall{page: pg, reply: make(chan page.Result, 1)}
	select {
	case p.calls <- c:
	case <-p.ended:
		return page.Result{}, ErrOff
	}
	select {
	case r := <-c.reply:
		return r, nil
	case <-p.ended:
		return page.Result{}, ErrOff
	}
}

// process runs a process of the plug-in for a page and those that follow.
func (p *Plugin) process(ctx context.Context, first *pluginCall) error {
	in, pages := io.Pipe()
	s := pluginSession{plugin: p, pages: pages}
	var own *Failure
	defer context.AfterFunc(ctx, func() { in.Close() })()
	end, err := execute(ctx, selfProgram, job{Dir: p.dir, Run: true, Limits: pluginLimits}, in,
		func(out io.Reader, stop func()) (uint64, error) {
			s.out = bufio.NewReader(out)
			s.timer = time.AfterFunc(p.PageTime, func() {
				s.late.Store(true)
				in.Close()
				stop()
			})
			if s.err = s.serve(ctx, first); errors.As(s.err, &own) {
				stop()
			}
			in.Close() // so that no write waits for a page to be read
			return 0, nil
		})
	if s.timer != nil {
		s.timer.Stop()
	}
	switch {
	case err != nil:
		return err
	case s.late.Load():
		return fail(Deadline, fmt.Sprintf("%v for a page", p.PageTime))
	case errors.As(s.err, &own) || s.err == nil:
		return s.err
	case end.Reason == "":
		return fail(Crashed, "it ended before it had answered")
	}
	return end.err()
}

// pluginSession is a process of a plug-in, seen from the host.
type pluginSession struct {
	plugin *Plugin
	pages  *io.PipeWriter
	out    *bufio.Reader
	timer  *time.Timer // of the current page: stops the process
	late   atomic.Bool
	err    error
}

// serve exchanges pages for answers until it is time for another process, or for a reason that is
// the error. After a Failure the process must be stopped; after another error it is about to end,
// or is stopped when the time for the page is over.
func (s *pluginSession) serve(ctx context.Context, c *pluginCall) error {
	began := time.Now()
	idle := time.NewTimer(pluginIdle)
	defer idle.Stop()
	for n := 1; ; n++ {
		r, err := s.exchange(c)
		if err != nil {
			return err
		}
		c.reply <- r
		if n == pluginPages || time.Since(began) > pluginAge {
			return s.finish()
		}
		idle.Reset(pluginIdle)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-idle.C:
			return s.finish()
		case c = <-s.plugin.calls:
		}
	}
}

// finish has the process end as it likes.
func (s *pluginSession) finish() error {
	s.timer.Reset(s.plugin.PageTime)
	s.pages.Close()
	_, err := s.out.ReadByte()
	if !errors.Is(err, io.EOF) {
		return fail(BadReply, "it wrote more than one line for a page")
	}
	return nil
}

// exchange sends a page and receives the result.
func (s *pluginSession) exchange(c *pluginCall) (page.Result, error) {
	var r page.Result
	s.timer.Reset(s.plugin.PageTime)
	sent := make(chan error, 1)
	go func() { sent <- writePage(s.pages, c.page) }()
	line, err := readLine(s.out)
	if err != nil {
		return r, err
	}
	if err := <-sent; err != nil {
		return r, err
	}
	s.timer.Stop()
	if err := json.Unmarshal(line, &r); err != nil {
		return r, fail(BadReply, err.Error())
	}
	return r, nil
}

// writePage sends a page as package page reads it.
func writePage(w io.Writer, p page.Page) error {
	p.Size = len(p.Body)
	head, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if _, err := w.Write(append(head, '\n')); err != nil {
		return err
	}
	_, err = w.Write(p.Body)
	return err
}

// readLine reads a line of at most maxAnswer bytes.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if line = append(line, part...); len(line) > maxAnswer {
			return nil, fail(OutputLimit, fmt.Sprintf("%d bytes for a page", maxAnswer))
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimSpace(line), err
		}
	}
}
