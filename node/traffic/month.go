package traffic

import "time"

const (
	// controlPart is the part of a volume that is for other peers only, a fiftieth, unless two
	// blocks are more.
	controlPart = 50
	// A block is a thousandth of the volume within these bounds. Bytes.
	minBlock, maxBlock = 256 << 10, 16 << 20
)

// Month is the count of a calendar month.
type Month struct {
	Start time.Time // in UTC
	Bytes int64
}

// A Store stores one Month.
type Store interface {
	// Load returns the Month that was saved last, or the zero Month.
	Load() (Month, error)
	// Save returns only when the Month is on disk.
	Save(Month) error
}

// monthOf returns the first instant of the calendar month of a time.
func monthOf(t time.Time) time.Time {
	t = t.UTC()
	return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
}

// block returns by how many bytes the stored count is advanced at a volume. It is also the margin
// by which the stored count is ahead at least.
func block(volume int64) int64 { return min(max(volume/1000, minBlock), maxBlock) }

// ceiling returns the count up to which a class may use a volume.
func ceiling(c Class, volume int64) int64 {
	left := volume - block(volume)
	if c == Crawl {
		left -= max(volume/controlPart, 2*block(volume))
	}
	return max(left, 0)
}

// storeUpTo returns the count to store before a class uses a volume up to next.
func storeUpTo(next int64, c Class, volume int64) int64 {
	margin := block(volume)
	return margin + min(next+margin, max(next, ceiling(c, volume)))
}

// count is the use of the volume of this month. It is not safe for concurrent use.
type count struct {
	month  Month // what was used
	stored int64 // bytes of this month on disk
}

// turn begins a new count if the month has ended. A clock that was set back ends no month.
func (c *count) turn(now time.Time) {
	if m := monthOf(now); m.After(c.month.Start) {
		*c = count{month: Month{Start: m}}
	}
}
