package node

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"peerd/store"
)

// When the store closes no request reads it, even if its client has stopped reading.
func TestStopDuringExport(t *testing.T) {
	n := newNode(t, options(t))
	links := make([]store.URL, 100)
	for i := range links {
		links[i] = store.URL(fmt.Sprintf("http://b.example/%d/%s", i, strings.Repeat("x", 1000)))
	}
	if err := n.db.Update(func(tx *store.Tx) error {
		for i := range 200 {
			if err := tx.PutPage(store.Page{
				URL: store.URL(fmt.Sprintf("http://a.example/%d", i)), FetchedAt: time.Now(),
				Outcome: store.OutcomeOK, Status: http.StatusOK, Links: links,
			}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	exporting := func() bool { return strings.Contains(stacks(), "node.(*Node).Links") }
	n.onClose = func() error {
		if exporting() {
			t.Error("a request reads the store when it is closed")
		}
		return nil
	}
	ended := make(chan error, 1)
	go func() { ended <- n.Run(context.Background()) }()

	until(t, time.Minute, "the API serves", func() bool {
		_, err := os.Stat(n.opts.Home.APIFile())
		return err == nil
	})
	token, err := os.ReadFile(n.opts.Home.ReadTokenFile())
	if err != nil {
		t.Fatal(err)
	}
	client, err := net.Dial("tcp", n.api.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	fmt.Fprintf(client, "GET /v1/links HTTP/1.1\r\nHost: localhost\r\n"+
		"Authorization: Bearer %s\r\n\r\n", strings.TrimSpace(string(token)))
	until(t, time.Minute, "the export has begun", exporting)
	n.Stop()
	if err := <-ended; err != nil {
		t.Errorf("Run() = %v", err)
	}
}

// stacks returns those of all goroutines.
func stacks() string {
	b := make([]byte, 8<<20)
	return string(b[:runtime.Stack(b, true)])
}
