package overlay

import (
	"reflect"
	"strings"
	"testing"

	record "github.com/libp2p/go-libp2p-record"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
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
			t.Errorf("NewNames(%q) = %v, want success: %v", tt.network, err, tt.ok)
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
			t.Errorf("%s occurs twice, want different names", name)
		}
		seen[name] = true
	}
}

// Protocols lists every protocol, so that what is done for all of them forgets none.
func TestProtocolsAreComplete(t *testing.T) {
	n, err := NewNames("net-a")
	if err != nil {
		t.Fatal(err)
	}
	want := map[protocol.ID]bool{}
	v := reflect.ValueOf(n)
	for i := range v.NumMethod() {
		m := v.Method(i)
		if m.Type().NumIn() > 0 || v.Type().Method(i).Name == "Prefix" {
			continue
		}
		if id, ok := m.Call(nil)[0].Interface().(protocol.ID); ok {
			want[id] = true
		}
	}
	all := n.Protocols()
	for _, id := range all {
		if !want[id] {
			t.Errorf("Protocols() has %s twice, or no method returns it", id)
		}
		delete(want, id)
	}
	for id := range want {
		t.Errorf("Protocols() lacks %s", id)
	}
}

func TestConfigValidate(t *testing.T) {
	good := DefaultConfig()
	good.Key = testKey(t, 1)
	good.Network = "test-net"
	if err := good.Validate(); err != nil {
		t.Fatalf("Validate() = %v for the defaults, want nil", err)
	}
	tests := map[string]func(*Config){
		"Key":       func(c *Config) { c.Key = nil },
		"network":   func(c *Config) { c.Network = "a b" },
		"Listen":    func(c *Config) { c.Listen = []string{"127.0.0.1:80"} },
		"Announce":  func(c *Config) { c.Announce = []string{"example.org:80"} },
		"Bootstrap": func(c *Config) { c.Bootstrap = []peer.AddrInfo{{}} },
		"Validators": func(c *Config) {
			c.Validators = map[string]record.Validator{"a/b": newest{}}
		},
		"nothing for": func(c *Config) { c.Validators = map[string]record.Validator{"a": nil} },
	}
	for want, spoil := range tests {
		cfg := good
		spoil(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate() = %v, want an error about %s", err, want)
		}
	}
	if err := (Config{}).Validate(); strings.Count(err.Error(), "\n") < 1 {
		t.Errorf("Validate() = %v for an empty Config, want at least 2 faults", err)
	}
}

func TestWords(t *testing.T) {
	n, err := NewNames("net-a")
	if err != nil {
		t.Fatal(err)
	}
	words := n.Words()
	seen := map[string]bool{}
	for _, w := range words {
		if w == "" || seen[w] {
			t.Errorf("Words() has %q twice", w)
		}
		seen[w] = true
	}
	if len(words) != len(n.Protocols()) || words[n.Batch()] != "batch" ||
		words[n.HostTransfer()] != "host-transfer" || words[n.DHT()] != "kad" {
		t.Errorf("Words() = %v", words)
	}
}
