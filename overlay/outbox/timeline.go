package outbox

import (
	"container/heap"
	"time"
)

// slot is the position of an item in a timeline. The zero slot means none.
type slot struct {
	at    time.Time
	index int // plus one; 0 means none
}

func (s *slot) when() *slot { return s }

// timeline is a priority queue of items by the time when they are due. It is not safe for
// concurrent use.
type timeline[T interface{ when() *slot }] struct{ items []T }

// set adds or moves x.
func (t *timeline[T]) set(x T, at time.Time) {
	s := x.when()
	s.at = at
	if s.index == 0 {
		heap.Push(t, x)
		return
	}
	heap.Fix(t, s.index-1)
}

// remove removes x if it is present.
func (t *timeline[T]) remove(x T) {
	if i := x.when().index; i > 0 {
		heap.Remove(t, i-1)
	}
}

// pop removes and returns the first item if it is due.
func (t *timeline[T]) pop(now time.Time) (x T, ok bool) {
	if len(t.items) == 0 || t.items[0].when().at.After(now) {
		return x, false
	}
	return heap.Pop(t).(T), true
}

// until returns the time until the first item is due, at most most.
func (t *timeline[T]) until(now time.Time, most time.Duration) time.Duration {
	if len(t.items) == 0 {
		return most
	}
	return max(0, min(most, t.items[0].when().at.Sub(now)))
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (t *timeline[T]) Len() int { return len(t.items) }

func (t *timeline[T]) Less(i, j int) bool {
	return t.items[i].when().at.Before(t.items[j].when().at)
}

func (t *timeline[T]) Swap(i, j int) {
	t.items[i], t.items[j] = t.items[j], t.items[i]
	t.items[i].when().index, t.items[j].when().index = i+1, j+1
}

func (t *timeline[T]) Push(x any) {
	t.items = append(t.items, x.(T))
	x.(T).when().index = len(t.items)
}

func (t *timeline[T]) Pop() any {
	n := len(t.items) - 1
	x := t.items[n]
	var none T
	t.items[n] = none
	t.items = t.items[:n]
	x.when().index = 0
	return x
}
