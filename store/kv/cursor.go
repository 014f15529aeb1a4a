package kv

import "github.com/tidwall/btree"

// A cursor walks over a state and the writes of a transaction above it, both as
// they were when it was made.
type cursor struct {
	base       btree.MapIter[string, []byte]
	own        btree.MapIter[string, diff]
	more, ours bool // there is something under base, under own
}

// cursor returns one before the first key from start on.
func (t *memoryTxn) cursor(start string) *cursor {
	c := &cursor{base: t.base.Iter()}
	c.more = c.base.Seek(start)
	if t.own != nil && t.own.Len() > 0 {
		c.own = t.own.Copy().Iter()
		c.ours = c.own.Seek(start)
	}
	return c
}

// next steps over what the transaction has deleted.
func (c *cursor) next() (key string, val []byte, ok bool) {
	for c.more || c.ours {
		if !c.ours || c.more && c.base.Key() < c.own.Key() {
			key, val = c.base.Key(), c.base.Value()
			c.more = c.base.Next()
			return key, val, true
		}
		key = c.own.Key()
		x := c.own.Value()
		c.ours = c.own.Next()
		if c.more && c.base.Key() == key {
			c.more = c.base.Next()
		}
		if !x.del {
			return key, x.val, true
		}
	}
	return "", nil, false
}
