package hosttransfer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"

	"peerd/overlay/wire"
	"peerd/store"
)

// A transaction keeps the store from freeing what was deleted since it began. None is open while a
// slow peer takes what is sent: what is stored meanwhile is read, and sent, too.
func TestNoTransactionWhileSending(t *testing.T) {
	const n = 8
	a, b := newSide(t), newSide(t)
	know(a.Host, b.Host)
	a.fill(1)
	for range n {
		var es []store.Entry
		for range maxItems {
			path := make([]byte, 500)
			_, _ = rand.Read(path)
			es = append(es, store.Entry{URL: store.URL(fmt.Sprintf("http://%s/%x", name, path))})
		}
		err := a.DB.Update(func(tx *store.Tx) error { return tx.Import(name, es, nil) })
		if err != nil {
			t.Fatal(err)
		}
	}
	late := store.Visit{URL: url(1)}
	sent, found := 0, false
	handle := func(_ context.Context, c *wire.Conn) error {
		var o Offer
		var head chunk
		err := errors.Join(c.Recv(&o), c.Send(reply{Outcome: outcomeOK}), c.RecvZ(&head),
			a.DB.Update(func(tx *store.Tx) error { return tx.PutVisit(late) }))
		for part := (chunk{}); err == nil && !part.Last; {
			part = chunk{}
			err = c.RecvZ(&part)
			sent += len(part.Entries)
			for _, v := range part.Visits {
				found = found || v.URL == late.URL
			}
		}
		return errors.Join(err, c.Send(reply{Outcome: outcomeDone}))
	}
	server := wire.Serve(b.Host, b.Protocol, limits, nil, handle)
	err := a.Transfer(t.Context(), b.Host.ID(), Offer{Host: name, Addr: addr,
		Record: record(t, name)})
	server.Close()
	if err != nil || sent < n*maxItems || !found {
		t.Errorf("%v; %d entries came, and what was stored meanwhile: %v", err, sent, found)
	}
}
