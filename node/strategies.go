package node

import (
	"fmt"
	"hash/fnv"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords/assign"
)

// newStrategy returns the strategy of a name. Peers that choose at random must
// not all choose alike, hence self.
func newStrategy(name string, self peer.ID) (assign.Strategy, error) {
	switch name {
	case "proxy":
		return assign.NewProxy(assign.DefaultProxyConfig())
	case "keep":
		return assign.KeepStrategy{}, nil
	case "hash":
		return assign.NewHash(assign.DefaultHashConfig())
	case "random":
		h := fnv.New64a()
		_, _ = h.Write([]byte(self))
		return assign.NewRandom(assign.RandomConfig{Seed: h.Sum64()}), nil
	}
	return nil, fmt.Errorf("node: no strategy is called %q", name)
}
