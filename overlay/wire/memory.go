package wire

import (
	"errors"
	"sync/atomic"
	"time"
)

// ErrBusy is returned if too many bytes of messages are in use, by all peers or by those of one
// group. Trying again later may help.
var ErrBusy = errors.New("wire: too much memory in use by messages")

// Limits on what messages of other peers take, whatever their protocols allow.
const (
	// maxUnmet is the largest message of a peer that has opened a conversation before it has
	// introduced itself (Meet), compressed or not: larger ones are parts of subnets and hosts,
	// and full batches, which only members send. Bytes.
	maxUnmet = 1 << 20
	// freeBytes is what a message may take without being counted: most messages are smaller,
	// and the number of conversations bounds them. Bytes.
	freeBytes = 8 << 10
	// maxWait is how long a message waits for memory before its conversation is ended. It is
	// shorter than the sender's timeout.
	maxWait = 3 * time.Second
	// frameSlack and minRate are how fast a frame must come once its length has: it was
	// encoded before its first byte was sent. Bytes per second.
	frameSlack = 2 * time.Second
	minRate    = 16 << 10
	// defaultMemory is for programs that do not call LimitMemory. Bytes.
	defaultMemory = 512 << 20
)

// inFlight counts the bytes of messages in this process that are being read, decoded or handled.
var inFlight atomic.Pointer[shares]

func init() { LimitMemory(defaultMemory) }

// LimitMemory bounds the bytes of messages in use in this process: what is read of a frame, and
// what it is decoded to. One peer may use a quarter, the peers of one /24 or /48 a half, and
// all peers that were not met long ago three quarters. A single message may take more, up to the
// bounds of its protocol. What is in use already is not counted.
func LimitMemory(bytes int) { inFlight.Store(memoryShares(bytes)) }

func memoryShares(total int) *shares {
	return &shares{total: total, peer: total / 4, near: total / 2, young: total / 4 * 3}
}
