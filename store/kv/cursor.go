package kv

import "github.com/tidwall/btree"

// cursor iterates over a state merged with the writes of a transaction, both as of its
// creation.
type cursor struct {
	base            btree.MapIter[string, []byte]
	own             btree.MapIter[string, diff]
	hasBase, hasOwn bool // base, own are at a key
}

// cursor returns a cursor before the first key from start on.
func (t *memoryTxn) cursor(start string) *cursor {
	c := &cursor{base: t.base.Iter()}
	c.hasBase = c.base.Seek(start)
	if t.own != nil && t.own.Len() > 0 {
		c.own = t.own.Copy().Iter()
		c.hasOwn = c.own.Seek(start)
	}
	return c
}

// next returns the next key that the transaction has not deleted.
func (c *cursor) next() (key string, val []byte, ok bool) {
	for c.hasBase || c.hasOwn {
		if !c.hasOwn || c.hasBase && c.base.Key() < c.own.Key() {
			key, val = c.base.Key(), c.base.Value()
			c.hasBase = c.base.Next()
			return key, val, true
		}
		key = c.own.Key()
		x := c.own.Value()
		c.hasOwn = c.own.Next()
		if c.hasBase && c.base.Key() == key {
			c.hasBase = c.base.Next()
		}
		if !x.del {
			return key, x.val, true
		}
	}
	return "", nil, false
}
