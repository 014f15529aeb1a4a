package witness

import (
	"context"
	"errors"
)

// errStopped is returned when the writer does not run.
var errStopped = errors.New("witness: not running")

// writer writes values of a Service to the Store; requests that wait are written together.
type writer struct {
	of       *Service
	store    Store
	requests chan saveRequest
	stopped  chan struct{} // closed when run has returned
}

// saveRequest asks for the present values of keys to be written.
type saveRequest struct {
	keys   []string
	result chan error // holds one
}

func newWriter(of *Service, st Store) *writer {
	return &writer{of: of, store: st, requests: make(chan saveRequest),
		stopped: make(chan struct{})}
}

// save returns when the present values of keys are on disk. It fails with the
// Store's error, the end of ctx, or errStopped.
func (w *writer) save(ctx context.Context, keys ...string) error {
	r := saveRequest{keys, make(chan error, 1)}
	select {
	case w.requests <- r:
	case <-w.stopped:
		return errStopped
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-r.result:
		return err
	case <-w.stopped:
		return errStopped
	}
}

// run serves requests until ctx ends.
func (w *writer) run(ctx context.Context) {
	defer close(w.stopped)
	for {
		var batch []saveRequest
		select {
		case <-ctx.Done():
			return
		case r := <-w.requests:
			batch = append(batch, r)
		}
		for more := true; more; {
			select {
			case r := <-w.requests:
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

// write writes the keys of a batch.
func (w *writer) write(batch []saveRequest) error {
	keys := map[string]bool{}
	for _, r := range batch {
		for _, k := range r.keys {
			keys[k] = true
		}
	}
	vals, err := w.of.values(keys)
	if err != nil {
		return err
	}
	if err := w.store.Write(vals); err != nil {
		return err
	}
	w.of.onWritten(vals)
	return nil
}
