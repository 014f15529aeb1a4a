//go:build integration

package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// serveExtraBytes serves one page on each connection and sends bytes after the response.
func serveExtraBytes(t *testing.T) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.106.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			in := bufio.NewReader(c)
			for {
				if _, err := http.ReadRequest(in); err != nil {
					break
				}
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"+
					"Content-Length: 3\r\n\r\nhi!HTTP/1.1 200 foreign bytes\r\n\r\n")
			}
			c.Close()
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		<-done
	})
	return ln.Addr().String()
}

// The bytes that a server sends after a response are not logged.
func TestExtraBytesAreNotLogged(t *testing.T) {
	t.Parallel()
	stdout, stderr, code := tryPeerd(t, "crawl", "http://"+serveExtraBytes(t)+"/", "--home",
		filepath.Join(t.TempDir(), "h"),
		"--allow-net", "127.106.0.0/16", "--min-delay", "10ms", "--log-level", "info")
	if code != 0 || !strings.Contains(stdout, "pages") || strings.Contains(stderr, "Unsolicited") ||
		strings.Contains(stderr, "foreign") {
		t.Errorf("crawl: status %d, stdout %s\nstderr %s", code, stdout, stderr)
	}
}
