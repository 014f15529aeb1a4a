package store

// Covers reports whether a piece of a snapshot sets or deletes whatever a copy has between two
// cursors. Next is empty for the last piece. If all pieces of a snapshot do, the copy has nothing
// afterwards but what they contain, and robots.txt files of its hosts.
func Covers(after, next []byte, ops []Op) bool {
	at, to := snapshotCursor{}, snapshotCursor{Stage: stageEnd}
	if len(after) > 0 && opDec.Unmarshal(after, &at) != nil {
		return false
	}
	if len(next) > 0 {
		to = snapshotCursor{}
		if opDec.Unmarshal(next, &to) != nil {
			return false
		}
	}
	for i := range ops {
		if !at.clear(&ops[i]) {
			return false
		}
	}
	return at.Host == to.Host && at.Stage == to.Stage && string(at.After) == string(to.After)
}

// The positions between the record and the state of a host, and after the last piece.
const (
	stageState = -1
	stageEnd   = stageOutlinks + 1
)

// clear moves the cursor behind what an operation sets or deletes. It returns false if a range that
// is deleted does not begin at the cursor.
func (c *snapshotCursor) clear(o *Op) bool {
	switch o.Kind {
	case OpClearHosts:
		if c.Stage != stageNext || o.Lo != c.Host {
			return false
		}
		*c = snapshotCursor{Host: o.Hi, Stage: stageHost}
		if o.Hi == "" {
			c.Stage = stageOutlinks
		}
		return true
	case OpHost:
		if c.Stage == stageHost && o.Name == c.Host {
			c.Stage = stageState
		}
		return true
	case OpState, OpDeleteState:
		if c.Stage == stageState && o.Name == c.Host {
			c.Stage = stageSpace
		}
		return true
	case OpClear, OpClearOutlinks:
		return c.clearPart(o)
	}
	return true
}

// clearPart is clear for the deletion of a range in a part of the subnet.
func (c *snapshotCursor) clearPart(o *Op) bool {
	if !c.isIn(o) || o.Lo != string(c.After) {
		return false
	}
	if o.Hi != "" {
		c.After = []byte(o.Hi)
		return true
	}
	if c.After, c.Stage = nil, c.Stage+1; c.Stage == stageOutlinks {
		c.Stage = stageNext
	}
	return true
}

// isIn reports whether an operation deletes in the part in which the cursor is.
func (c *snapshotCursor) isIn(o *Op) bool {
	if o.Kind == OpClearOutlinks {
		return c.Stage == stageOutlinks
	}
	return c.Stage >= stageSpace && c.Stage < stageOutlinks && o.Name == c.Host &&
		o.Space == snapshotSpaces[c.Stage-stageSpace].space
}
