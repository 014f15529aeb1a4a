package overlay

import (
	"strings"
	"testing"

	record "github.com/libp2p/go-libp2p-record"
	"github.com/libp2p/go-libp2p/core/peer"
)

func TestNewNames(t *testing.T) {
	tests := []struct {
		network string
		ok      bool
	}{
		{"peerd-0123456789abcdef", true},
		{"A.b_c-9", true},
		{"", false},
		{"a/b", false},
		{"a b", false},
		{"né", false},
		{strings.Repeat("a", maxNetwork), true},
		{strings.Repeat("a", maxNetwork+1), false},
	}
	for _, tt := range tests {
		if _, err := NewNames(tt.network); (err == nil) != tt.ok {
			t.Errorf("NewNames(%q) = %v", tt.network, err)
		}
	}
}

func TestNamesCarryTheNetwork(t *testing.T) {
	a, _ := NewNames("net-a")
	b, _ := NewNames("net-b")
	list := func(n Names) []string {
		return []string{
			string(n.DHT()), string(n.Gossip()), string(n.Coords()), string(n.Batch()),
			string(n.Estimate()), string(n.Handover()), string(n.Copies()), n.Beacons(),
		}
	}
	seen := make(map[string]bool)
	for _, name := range append(list(a), list(b)...) {
		if seen[name] {
			t.Errorf("%s stands twice", name)
		}
		seen[name] = true
	}
}

func TestConfigValidate(t *testing.T) {
	good := DefaultConfig()
	good.Key = testKey(t, 1)
	good.Network = "test-net"
	if err := good.Validate(); err != nil {
		t.Fatalf("defaults: %v", err)
	}
	tests := map[string]func(*Config){
		"Key":           func(c *Config) { c.Key = nil },
		"network":       func(c *Config) { c.Network = "a b" },
		"Listen":        func(c *Config) { c.Listen = []string{"127.0.0.1:80"} },
		"Bootstrap":     func(c *Config) { c.Bootstrap = []peer.AddrInfo{{}} },
		"Validators":    func(c *Config) { c.Validators = map[string]record.Validator{"a/b": newest{}} },
		"nothing for":   func(c *Config) { c.Validators = map[string]record.Validator{"a": nil} },
		"Replicas":      func(c *Config) { c.Replicas = 0 },
		"RecordAge":     func(c *Config) { c.RecordAge = 0 },
		"DialTimeout":   func(c *Config) { c.DialTimeout = -1 },
		"AnswerTimeout": func(c *Config) { c.AnswerTimeout = 0 },
		"LookupTimeout": func(c *Config) { c.LookupTimeout = 0 },
		"ConnsLow":      func(c *Config) { c.ConnsHigh = c.ConnsLow - 1 },
	}
	for want, spoil := range tests {
		cfg := good
		spoil(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate() = %v, want something on %s", err, want)
		}
	}
	if err := (Config{}).Validate(); strings.Count(err.Error(), "\n") < 5 {
		t.Errorf("an empty Config has only the faults %v", err)
	}
}
