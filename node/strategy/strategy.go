// Package strategy makes strategies of assignment by their names: the one table
// for peers, the testnet and the lab. It imports room coords alone.
package strategy

import (
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"peerd/coords/assign"
	"peerd/coords/registry"
)

// ErrUnknown says that no strategy has the name.
var ErrUnknown = errors.New("strategy: no such strategy")

// Material is what strategies are made of.
type Material struct {
	// Self is the peer's name, and Seed what its dice begin with besides: those
	// that choose at random must not all choose alike.
	Self string
	Seed uint64
	// Threshold is that of the strategies that probe; 0 is their default.
	Threshold time.Duration
	// Locate tells places of addresses; nil if it is not known.
	Locate assign.Locator
	// Table says who holds which addresses; nil if it is not known.
	Table *registry.Table
}

// Names lists all strategies that New can make, the default one first.
func Names() []string {
	return []string{"proxy", "random", "hash", "geo", "probe", "sequential", "himicra", "ipmicra", "ipmicra-proxy", "keep"}
}

// New makes the strategy of that name, with the parameters of the network. The
// error wraps ErrUnknown, or is that of the strategy. It may be called at once.
func New(name string, m Material) (assign.Strategy, error) {
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
		return assign.NewGeo(assign.DefaultGeoConfig(), m.Locate)
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
