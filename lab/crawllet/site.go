package crawllet

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"peerd/crawl/crawllet"
)

// siteName is the name, instead of a path, with which the process of a site is started.
const siteName = "crawllet-site"

// Main serves a site and exits if the program was started by StartSite, or runs a crawllet for
// one. Otherwise it returns at once.
func Main() {
	crawllet.Main()
	if len(os.Args) != 4 || os.Args[0] != siteName {
		return
	}
	if err := serveSite(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Handler serves the files of a directory, and crawllets within limits that no run of a lab
// reaches. The directory is served at prefix; cache is the directory of the modules.
func Handler(root, prefix, cache string) (http.Handler, error) {
	h, err := crawllet.New(crawllet.Config{Root: root, Prefix: prefix, Cache: cache,
		Limits: crawllet.Limits{CPU: 300, Memory: 512, Pages: 100_000, Output: 1 << 32, Wall: 900},
		// Nothing is refused because of the time that was used before.
		CPUPerHour: 100_000})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle(crawllet.Path, h)
	mux.Handle(crawllet.Path+"/", h)
	mux.Handle("/", http.FileServer(http.Dir(root)))
	return mux, nil
}

// serveSite serves until standard input ends. It writes its address to standard output.
func serveSite(root, prefix, cache string) error {
	h, err := Handler(root, prefix, cache)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		server.Close()
	}()
	fmt.Println(l.Addr())
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Site is a process that serves a directory.
type Site struct {
	Addr string
	cmd  *exec.Cmd
	stop io.Closer
}

// StartSite starts a process that serves a directory, as Handler does, until Stop or the end of
// ctx.
func StartSite(ctx context.Context, root, prefix, cache string) (*Site, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, exe)
	cmd.Args = []string{siteName, root, prefix, cache}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &Site{cmd: cmd, stop: in}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_, _ = s.Stop()
		return nil, fmt.Errorf("start site: %w", err)
	}
	s.Addr = strings.TrimSpace(line)
	return s, nil
}

// Stop ends the process. It returns the processor time of the process and its crawllets.
func (s *Site) Stop() (time.Duration, error) {
	s.stop.Close()
	if err := s.cmd.Wait(); err != nil {
		return 0, fmt.Errorf("site: %w", err)
	}
	return s.cmd.ProcessState.UserTime() + s.cmd.ProcessState.SystemTime(), nil
}

// Build builds the reference crawllet with the go command, which must find the module peerd from
// the working directory.
func Build(ctx context.Context, file string, env ...string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-p", "2", "-buildvcs=false", "-trimpath",
		"-ldflags=-s -w", "-o", file, "peerd/crawl/crawllet/agent")
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the crawllet: %w\n%s", err, out)
	}
	return nil
}

// WASI is the environment with which Build builds a module.
var WASI = []string{"GOOS=wasip1", "GOARCH=wasm"}
