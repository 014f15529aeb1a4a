// Package strategy creates assignment strategies by name, for peers and for experiments. It
// imports coords alone.
package strategy

import (
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"peerd/coords/assign"
	"peerd/coords/registry"
)

// ErrUnknown means that no strategy has the name.
var ErrUnknown = errors.New("strategy: no such strategy")

// Config is the data from which strategies are created.
type Config struct {
	// Self is the peer's name. It and Seed initialize random numbers: the peers must not all
	// choose the same.
	Self string
	Seed uint64
	// Threshold is that of the strategies that probe; 0 is their default.
	Threshold time.Duration
	// Locate returns the location of an address; nil if there is no geolocation database.
	Locate assign.Locator
	// Table contains the holders of addresses; nil if there is no registry data.
	Table *registry.Table
}

// Names lists all strategies that New can create, the default first.
func Names() []string {
	return []string{"proxy", "random", "hash", "geo", "probe", "sequential", "himicra", "ipmicra",
		"ipmicra-proxy", "keep"}
}

// New creates the strategy of that name with the parameters of the network. The error wraps
// ErrUnknown, or is that of the strategy. New is safe for concurrent use.
func New(name string, m Config) (assign.Strategy, error) {
	near := assign.DefaultThresholdConfig()
	if m.Threshold > 0 {
		near.Threshold = m.Threshold
	}
	switch name {
	case "proxy":
		return assign.NewProxy(assign.DefaultProxyConfig())
	case "keep":
		return assign.KeepStrategy{}, nil
	case "hash":
		return assign.NewHash(assign.DefaultHashConfig())
	case "random":
		h := fnv.New64a()
		_, _ = h.Write([]byte(m.Self))
		return assign.NewRandom(assign.RandomConfig{Seed: h.Sum64() ^ m.Seed}), nil
	case "geo":
		return assign.NewGeo(m.Locate)
	case "probe":
		return assign.NewProbe(assign.DefaultProbeConfig())
	case "sequential":
		return assign.NewSequential(near)
	case "himicra":
		c := assign.DefaultHiMicraConfig()
		c.ThresholdConfig = near
		return assign.NewHiMicra(c)
	case "ipmicra":
		c := assign.DefaultIPMicraConfig()
		c.ThresholdConfig = near
		return assign.NewIPMicra(c, m.Table)
	case "ipmicra-proxy":
		c := assign.DefaultIPMicraProxyConfig()
		c.ThresholdConfig = near
		return assign.NewIPMicraProxy(c, m.Table)
	}
	return nil, fmt.Errorf("%w: %q", ErrUnknown, name)
}
