package node_test

import (
	"context"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"peerd/node"
	"peerd/node/config"
	"peerd/node/doctor"
)

// Package doctor asks a running peer. The test is here because package doctor does not link a
// peer.
func TestExamineRunning(t *testing.T) {
	h, err := config.Init(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	quiet := "contact = 'https://example.org/'\n[crawl.resolve]\n'example.com' = ['192.0.2.1']\n"
	if err := os.WriteFile(h.ConfigFile(), []byte(quiet), 0o644); err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	c.Listen = []string{"/ip4/127.0.0.1/tcp/0"}
	c.Crawl.AllowNet = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	n, err := node.New(node.Options{Home: h, Config: c, Profile: config.DefaultProfile(),
		UserAgent: "test"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	var got doctor.Finding
	for begin := time.Now(); time.Since(begin) < 5*time.Minute; time.Sleep(10 * time.Millisecond) {
		for _, f := range doctor.Examine(t.Context(), h) {
			if f.Check == "peer" {
				got = f
			}
		}
		if strings.Contains(got.Text, "alone") {
			break
		}
	}
	if got.State != doctor.Warn || !strings.Contains(got.Do, "peerd invite") {
		t.Errorf("peer: %+v, want that it is alone", got)
	}
}
