package witness

import (
	"context"
	"errors"
)

var errStopped = errors.New("witness: not running")

// writer brings values to the disk: one at a time writes what many wait for.
type writer struct {
	values func(keys map[string]bool) (map[string][]byte, error)
	done   func(vals map[string][]byte)
	store  Store
	wants  chan want
	over   chan struct{} // closed when run has returned
}

type want struct {
	keys   []string
	result chan error // holds one
}

func newWriter(values func(map[string]bool) (map[string][]byte, error), done func(map[string][]byte), st Store) *writer {
	return &writer{values: values, done: done, store: st, wants: make(chan want), over: make(chan struct{})}
}

// save returns when the present values of keys are on the disk. It fails with the
// Store's error, the end of ctx, or when nobody runs the writer.
func (w *writer) save(ctx context.Context, keys ...string) error {
	r := want{keys, make(chan error, 1)}
	select {
	case w.wants <- r:
	case <-w.over:
		return errStopped
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-r.result:
		return err
	case <-w.over:
		return errStopped
	}
}

// run writes until ctx ends.
func (w *writer) run(ctx context.Context) {
	defer close(w.over)
	for {
		var batch []want
		select {
		case <-ctx.Done():
			return
		case r := <-w.wants:
			batch = append(batch, r)
		}
		for more := true; more; {
			select {
			case r := <-w.wants:
				batch = append(batch, r)
			default:
				more = false
			}
		}
		err := w.write(batch)
		for _, r := range batch {
			r.result <- err
		}
	}
}

func (w *writer) write(batch []want) error {
	keys := map[string]bool{}
	for _, r := range batch {
		for _, k := range r.keys {
			keys[k] = true
		}
	}
	vals, err := w.values(keys)
	if err != nil {
		return err
	}
	if err := w.store.Write(vals); err != nil {
		return err
	}
	w.done(vals)
	return nil
}
