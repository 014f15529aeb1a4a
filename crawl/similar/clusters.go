package similar

import "peerd/store"

// MaxClusters is the number of digests that a Clusters counts.
const MaxClusters = 128

// Clusters counts how many pages of a host have the same digest, for the most frequent
// digests (Space-Saving: Metwally, Agrawal, El Abbadi 2005). The zero Clusters is empty; it
// takes at most 4 KiB. It is not safe for concurrent use.
type Clusters struct{ list []cluster }

type cluster struct {
	digest store.Digest
	count  int
	extra  int // part of count that may belong to other digests
}

// Add counts a page and returns how many pages certainly had digest d, including this one.
func (c *Clusters) Add(d store.Digest) int {
	least := -1
	for i := range c.list {
		at := &c.list[i]
		if at.digest == d {
			at.count++
			return at.count - at.extra
		}
		if least < 0 || at.count < c.list[least].count {
			least = i
		}
	}
	if len(c.list) < MaxClusters {
		c.list = append(c.list, cluster{digest: d, count: 1})
		return 1
	}
	at := &c.list[least]
	*at = cluster{digest: d, count: at.count + 1, extra: at.count}
	return 1
}
