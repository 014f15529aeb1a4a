package compare

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// nginx is an nginx process that serves one site per root, each at its own loopback address.
type nginx struct {
	cmd   *exec.Cmd
	log   accessLog
	seeds []string
	cert  certificate // of all sites, if they use TLS
}

// siteAddr returns the address of site i; each is in its own /24.
func siteAddr(i int) string { return fmt.Sprintf("127.91.%d.1", i) }

// startNginx serves the roots on a free port, with or without TLS. Configuration, log and
// certificate are in dir.
func startNginx(
	ctx context.Context, roots []string, secure bool, dir string, cpus []int,
) (*nginx, error) {
	binary, err := findNginx()
	if err != nil {
		return nil, err
	}
	if len(roots) > 250 {
		return nil, fmt.Errorf("%d roots: want at most 250", len(roots))
	}
	port, err := freePort(siteAddr(0))
	if err != nil {
		return nil, err
	}
	n := &nginx{log: accessLog{filepath.Join(dir, "access.log")}}
	scheme := "http"
	if secure {
		scheme = "https"
		if n.cert, err = newCertificate(len(roots), dir); err != nil {
			return nil, err
		}
	}
	conf, err := nginxConf(roots, n.cert, dir, port)
	if err != nil {
		return nil, err
	}
	for i := range roots {
		n.seeds = append(n.seeds, fmt.Sprintf("%s://%s:%d/", scheme, siteAddr(i), port))
	}
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		return nil, err
	}
	var errs bytes.Buffer
	n.cmd = exec.Command(binary, "-p", dir, "-c", file, "-e", filepath.Join(dir, "error.log"))
	n.cmd.Stderr = &errs
	if err := start(n.cmd, cpus); err != nil {
		return nil, fmt.Errorf("nginx: %w", err)
	}
	if err := n.await(ctx, fmt.Sprintf("%s:%d", siteAddr(0), port)); err != nil {
		n.stop()
		return nil, fmt.Errorf("nginx: %w: %s", err, errs.Bytes())
	}
	return n, nil
}

// findNginx returns the path of nginx, which is often not in a user's PATH.
func findNginx() (string, error) {
	for _, name := range []string{"nginx", "/usr/sbin/nginx", "/usr/local/sbin/nginx",
		"/opt/homebrew/bin/nginx"} {
		if p, err := exec.LookPath(name); err == nil {
			return p, nil
		}
	}
	return "",
		errors.New("--root needs nginx, which was not found; start another server and use --seed")
}

// freePort returns an unused port.
func freePort(addr string) (int, error) {
	ln, err := net.Listen("tcp", addr+":0")
	if err != nil {
		return 0, err
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port, nil
}

// nginxConf returns the configuration: one worker, persistent connections, no compression, an
// open file cache, and the log that accesslog.go reads.
func nginxConf(roots []string, cert certificate, dir string, port int) (string, error) {
	var b strings.Builder
	if os.Geteuid() == 0 { // the workers must be able to read the roots
		me, err := user.Current()
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "user %s;\n", me.Username)
	}
	fmt.Fprintf(&b, `daemon off; worker_processes 1; pid %[1]s/nginx.pid;
events { worker_connections 1024; }
http {
  types { text/html html htm; text/css css; application/javascript js;
    image/png png; image/svg+xml svg; }
  default_type application/octet-stream;
  client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s;
  uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
  sendfile on; tcp_nodelay on; keepalive_timeout 60; keepalive_requests 1000000; gzip off;
  open_file_cache max=4000 inactive=600s; open_file_cache_valid 600s; open_file_cache_errors on;
  log_format tab '$msec\t$host:$server_port\t$request_method\t$request_uri\t$status\t'
    '$body_bytes_sent\t$sent_http_content_type\t$connection\t$http_user_agent';
  access_log %[1]s/access.log tab buffer=64k flush=100ms;
`, dir)
	listen := ""
	if cert != (certificate{}) {
		listen = " ssl"
		fmt.Fprintf(&b, "  ssl_certificate \"%s\"; ssl_certificate_key \"%s\"; "+
			"ssl_protocols TLSv1.2 TLSv1.3;\n", cert.file, cert.key)
	}
	for i, r := range roots {
		abs, err := filepath.Abs(r)
		if err != nil {
			return "", err
		}
		if st, err := os.Stat(abs); err != nil || !st.IsDir() {
			return "", fmt.Errorf("--root %s: not a directory", r)
		}
		if strings.ContainsAny(abs, "\"\\$;{}\n") {
			return "", fmt.Errorf("--root %q: name not supported by nginx", r)
		}
		fmt.Fprintf(&b,
			"  server { listen %s:%d%s; root \"%s\"; index index.html index.htm; autoindex on; }\n",
			siteAddr(i), port, listen, abs)
	}
	b.WriteString("}\n")
	return b.String(), nil
}

// await waits until the server answers.
func (n *nginx) await(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err == nil {
			return c.Close()
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// stop stops the server.
func (n *nginx) stop() {
	if n.cmd.Process.Signal(syscall.SIGTERM) == nil {
		_ = n.cmd.Wait() // reports the signal
	}
}
