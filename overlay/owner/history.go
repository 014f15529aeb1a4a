package owner

import (
	"math"
	"slices"
	"time"

	"peerd/coords"
	"peerd/coords/assign"
)

// history is what is known of a subnet's downloads, the oldest first. A peer keeps the histories of
// thousands of subnets, so a download takes a third of the memory of a coords.Sample.
type history []download

// download is a coords.Sample with times in microseconds.
type download struct {
	peer                     string
	at                       *coords.Coordinate // shared with the one before if it is the same
	taken                    int64              // nanoseconds since 1970; 0: unknown
	bytes                    int64
	connect, firstByte, body uint32
	reused, failed           bool
}

// historyOf returns the history of samples.
func historyOf(samples []coords.Sample) history {
	h := make(history, 0, len(samples))
	for _, x := range samples {
		h.add(x)
	}
	return h
}

// add appends x.
func (h *history) add(x coords.Sample) {
	d := download{
		peer: x.Peer, bytes: x.Bytes, reused: x.Reused, failed: x.Failed,
		connect: micros(x.Connect), firstByte: micros(x.FirstByte), body: micros(x.Body),
	}
	if !x.Taken.IsZero() {
		d.taken = x.Taken.UnixNano()
	}
	if n := len(*h); n > 0 && (*h)[n-1].peer == x.Peer && same(*(*h)[n-1].at, x.At) {
		d.at = (*h)[n-1].at
	} else {
		at := x.At // the address of x.At would keep all of x
		d.at = &at
	}
	*h = append(*h, d)
}

func same(a, b coords.Coordinate) bool {
	return a.Height == b.Height && a.Error == b.Error && slices.Equal(a.Vec, b.Vec)
}

// trim bounds the history: see assign.History.
func (h *history) trim() {
	if len(*h) > maxSent {
		*h = historyOf(assign.History(h.samples(), assign.HistorySize))
	}
}

// samples returns the downloads as samples.
func (h history) samples() []coords.Sample {
	if h == nil {
		return nil
	}
	all := make([]coords.Sample, len(h))
	for i, d := range h {
		all[i] = coords.Sample{
			Peer: d.peer, At: *d.at, Bytes: d.bytes, Reused: d.reused, Failed: d.failed,
			Connect: duration(d.connect), FirstByte: duration(d.firstByte), Body: duration(d.body),
		}
		if d.taken != 0 {
			all[i].Taken = time.Unix(0, d.taken)
		}
	}
	return all
}

// meanTime returns the mean time of the pages that a peer fetched; ok is false if there are none.
func (h history) meanTime(who string) (mean time.Duration, ok bool) {
	n := time.Duration(0)
	for _, d := range h {
		if d.peer == who && !d.failed {
			mean += duration(d.connect) + duration(d.firstByte) + duration(d.body)
			n++
		}
	}
	return mean / max(n, 1), n > 0
}

func duration(micros uint32) time.Duration { return time.Duration(micros) * time.Microsecond }

// micros returns d in microseconds. It rounds up, so that a time that was measured is never zero.
func micros(d time.Duration) uint32 {
	us := (max(d, 0) + time.Microsecond - 1) / time.Microsecond
	return uint32(min(us, math.MaxUint32))
}
