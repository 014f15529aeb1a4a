package crawllet

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"peerd/crawl/robots"
)

// Config is what a site allows. Root and Prefix are required.
type Config struct {
	// Root is the directory of the site, and Prefix the URL under which its files are served, such
	// as https://www.example.org/; it ends with a slash.
	Root, Prefix string
	// Cache is the directory for modules; "" means peerd-crawllet in the user's cache directory.
	Cache string
	// Limits are the largest that are granted; the zero value means DefaultLimits.
	Limits Limits
	// Types are the extensions of the files that crawllets read; nil means DefaultTypes.
	Types []string
	// Robots is the robots.txt that crawllets obey. "" means that in Root, if Prefix has no path.
	Robots string
	// Keys are the Ed25519 public keys of the crawlers that are accepted; nil means any.
	Keys []ed25519.PublicKey
	// Runs is how many crawllets run at the same time; 0 means 2.
	Runs int
	// CPUPerHour is the processor time of all crawllets, in seconds per hour; 0 means 600.
	CPUPerHour int
	// ModuleBytes is the maximum size of a module; 0 means 8 MiB.
	ModuleBytes int64
	// Logger receives one message for each run; nil means none.
	Logger *slog.Logger
}

// withDefaults returns c with its defaults filled in, or what is wrong with it.
func (c Config) withDefaults() (Config, error) {
	c.Limits = cmp.Or(c.Limits, DefaultLimits)
	if c.Types == nil {
		c.Types = DefaultTypes
	}
	c.Runs = cmp.Or(c.Runs, 2)
	c.CPUPerHour = cmp.Or(c.CPUPerHour, 600)
	c.ModuleBytes = cmp.Or(c.ModuleBytes, 8<<20)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Runs < 0 || c.CPUPerHour < 0 || c.ModuleBytes < 0 {
		return c, errors.New("crawllet: a number in the configuration is negative")
	}
	if err := cmp.Or(checkPrefix(c.Prefix), c.Limits.check(), checkTypes(c.Types)); err != nil {
		return c, err
	}
	if err := c.setPaths(); err != nil {
		return c, fmt.Errorf("crawllet: %w", err)
	}
	return c, nil
}

// setPaths makes the paths absolute and sets those that have defaults.
func (c *Config) setPaths() error {
	root, err := filepath.Abs(c.Root)
	if err != nil {
		return err
	}
	info, err := os.Stat(root)
	if err != nil {
		return err
	}
	if !info.IsDir() || c.Root == "" {
		return fmt.Errorf("%q is not a directory", c.Root)
	}
	c.Root = root
	if c.Cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return err
		}
		c.Cache = filepath.Join(dir, "peerd-crawllet")
	}
	if u, err := url.Parse(c.Prefix); c.Robots == "" && err == nil && u.Path == "/" {
		c.Robots = filepath.Join(root, "robots.txt")
	}
	return nil
}

// Handler serves crawllets at Path. It is safe for concurrent use.
type Handler struct {
	config  Config
	program string // this one
	modules *modules
	tickets *tickets
	slots   chan struct{} // one for each run
	bodies  chan struct{} // one for each large body that is received
	cpu     *rate.Limiter // of seconds
	mux     *http.ServeMux
}

var _ http.Handler = (*Handler)(nil)

// New returns a Handler. The program must call Main before anything else.
func New(c Config) (*Handler, error) {
	if supported != nil {
		return nil, supported
	}
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	m, err := openModules(c.Cache)
	if err != nil {
		return nil, err
	}
	h := &Handler{
		config: c, program: selfProgram, modules: m, tickets: newTickets(),
		slots: make(chan struct{}, c.Runs), bodies: make(chan struct{}, maxBodies),
		mux: http.NewServeMux(),
		cpu: rate.NewLimiter(rate.Limit(float64(c.CPUPerHour)/3600), c.CPUPerHour),
	}
	h.handle("GET "+Path, h.policy)
	h.handle("POST "+Path, h.offer)
	h.handle("PUT "+Path+"/{ticket}", h.upload)
	h.handle("POST "+Path+"/{ticket}", h.run)
	return h, nil
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// handle registers a function that replies unless it returns an error.
func (h *Handler) handle(pattern string, f func(http.ResponseWriter, *http.Request) error) {
	h.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		err := f(w, r)
		if err == nil {
			return
		}
		var failure *Failure
		if !errors.As(err, &failure) {
			h.config.Logger.Warn("failed to serve crawllet", "err", err)
			failure = fail(Internal, "")
		}
		if failure.Reason == Busy {
			w.Header().Set("Retry-After", "60")
		}
		reply(w, failure.Reason.status(), failure)
	})
}

// reply sends JSON.
func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client has gone otherwise
}

// readBody returns the body of a request of at most limit bytes.
func readBody(w http.ResponseWriter, r *http.Request, limit int64, tooLarge Reason) (
	[]byte, error,
) {
	deadline := http.NewResponseController(w)
	// Servers that cannot set it have deadlines of their own.
	_ = deadline.SetReadDeadline(time.Now().Add(bodyTime))
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, fail(tooLarge, fmt.Sprintf("more than %d bytes", limit))
	case err != nil:
		return nil, fail(BadRequest, "the body ended early")
	}
	_ = deadline.SetReadDeadline(time.Time{})
	return b, nil
}

// readLarge is readBody for bodies that take memory: only some are read at the same time.
func (h *Handler) readLarge(w http.ResponseWriter, r *http.Request, limit int64, tooLarge Reason) (
	[]byte, error,
) {
	select {
	case h.bodies <- struct{}{}:
		defer func() { <-h.bodies }()
		return readBody(w, r, limit, tooLarge)
	default:
		return nil, fail(Busy, "too many uploads")
	}
}

// policy serves GET Path.
func (h *Handler) policy(w http.ResponseWriter, _ *http.Request) error {
	reply(w, http.StatusOK, Policy{
		Version: Version, Runtime: Runtime, Prefix: h.config.Prefix, Limits: h.config.Limits,
		Module: h.config.ModuleBytes, Types: h.config.Types, Listed: h.config.Keys != nil,
	})
	return nil
}

// offer serves POST Path.
func (h *Handler) offer(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r, maxOffer, BadRequest)
	if err != nil {
		return err
	}
	o, err := openOffer(body)
	switch {
	case err != nil:
		return err
	case o.Prefix != h.config.Prefix:
		return fail(NotAllowed, "the offer is for another site")
	case !h.accepts(o.Key):
		return fail(NotAllowed, "the key is not listed")
	}
	name, k, err := h.tickets.add(o, h.config.Limits.grant(o.Wants), time.Now())
	if err != nil {
		return err
	}
	_, known := h.modules.get(o.Module)
	reply(w, http.StatusOK, Grant{
		Ticket: name, Limits: k.limits, Known: known, Expires: k.expires.Unix(),
	})
	return nil
}

// accepts reports whether crawlers with the key may run crawllets.
func (h *Handler) accepts(key ed25519.PublicKey) bool {
	return h.config.Keys == nil ||
		slices.ContainsFunc(h.config.Keys, func(k ed25519.PublicKey) bool { return k.Equal(key) })
}

// acquire takes a slot for a process, or fails if there is none or the time of the hour is used.
func (h *Handler) acquire() (release func(End), err error) {
	if h.cpu.Tokens() < 1 {
		return nil, fail(Busy, "the processor time of the hour is used")
	}
	select {
	case h.slots <- struct{}{}:
	default:
		return nil, fail(Busy, "too many crawllets run")
	}
	return func(e End) {
		<-h.slots
		seconds := int((e.Usage.CPU + 999) / 1000)
		h.cpu.ReserveN(time.Now(), min(seconds, h.config.CPUPerHour))
	}, nil
}

// upload serves PUT Path/TICKET.
func (h *Handler) upload(w http.ResponseWriter, r *http.Request) error {
	k, err := h.tickets.get(r.PathValue("ticket"), time.Now())
	if err != nil {
		return err
	}
	code, err := h.readLarge(w, r, h.config.ModuleBytes, ModuleSize)
	if err != nil {
		return err
	}
	err = h.modules.add(k.offer.Module, code, func(dir string) error {
		return h.compile(r.Context(), dir)
	})
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// compile compiles the module in a directory, in a process of its own.
func (h *Handler) compile(ctx context.Context, dir string) error {
	release, err := h.acquire()
	if err != nil {
		return err
	}
	end := End{}
	defer func() { release(end) }()
	end, err = compileModule(ctx, h.program, dir)
	return err
}

// run serves POST Path/TICKET.
func (h *Handler) run(w http.ResponseWriter, r *http.Request) error {
	now := time.Now()
	k, err := h.tickets.get(r.PathValue("ticket"), now)
	if err != nil {
		return err
	}
	dir, ok := h.modules.get(k.offer.Module)
	if !ok {
		return fail(NoModule, "")
	}
	input, err := h.readLarge(w, r, maxInput, BadRequest)
	if err != nil {
		return err
	}
	release, err := h.acquire()
	if err != nil {
		return err
	}
	end := End{}
	defer func() { release(end) }()
	if _, err := h.tickets.take(r.PathValue("ticket"), now); err != nil {
		return err
	}
	end, err = h.serveRun(w, r, k, job{
		Dir: dir, Run: true, Root: h.config.Root, Prefix: h.config.Prefix, Agent: k.offer.Agent,
		Types: h.config.Types, Robots: h.robots(), Limits: k.limits, Args: k.offer.Args,
	}, input)
	return err
}

// serveRun runs a job and sends its output.
func (h *Handler) serveRun(
	w http.ResponseWriter, r *http.Request, k *ticket, j job, input []byte,
) (End, error) {
	control := http.NewResponseController(w)
	wall := time.Duration(j.Limits.Wall) * time.Second
	_ = control.SetWriteDeadline(time.Now().Add(wall + 10*time.Second)) // as for reading
	defer func() { _ = control.SetWriteDeadline(time.Time{}) }()
	s, err := newStream(struct {
		io.Writer
		*http.ResponseController
	}{w, control})
	if err != nil {
		return End{}, err
	}
	w.Header().Set("Content-Type", OutputType)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // reverse proxies send at once
	end, err := execute(r.Context(), h.program, j, bytes.NewReader(input),
		func(out io.Reader, stop func()) (uint64, error) {
			return s.copy(out, j.Limits.Output, stop)
		})
	if err != nil {
		return end, err
	}
	h.config.Logger.Info("ran crawllet", "agent", k.offer.Agent,
		"key", fmt.Sprintf("%x", k.offer.Key), "reason", string(end.Reason),
		"cpu_ms", end.Usage.CPU, "wall_ms", end.Usage.Wall, "pages", end.Usage.Pages,
		"output", end.Usage.Output)
	if err := s.close(end); err != nil {
		h.config.Logger.Debug("lost client of crawllet", "err", err)
	}
	return end, nil
}

// robots returns the robots.txt of the site. A file that exists but cannot be read disallows
// everything (RFC 9309, section 2.3.1.4).
func (h *Handler) robots() []byte {
	if h.config.Robots == "" {
		return nil
	}
	f, err := os.Open(h.config.Robots)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var body []byte
	if err == nil {
		defer f.Close()
		body, err = io.ReadAll(io.LimitReader(f, robots.MaxBody))
	}
	if err != nil {
		h.config.Logger.Warn("failed to read robots.txt", "err", err)
		return []byte("User-agent: *\nDisallow: /\n")
	}
	return body
}
