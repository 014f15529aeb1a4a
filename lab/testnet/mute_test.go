package testnet

import (
	"bytes"
	"log/slog"
	"sync/atomic"
	"testing"
)

func TestMutable(t *testing.T) {
	var out bytes.Buffer
	var off atomic.Bool
	log := slog.New(mutable{slog.NewTextHandler(&out, nil), &off}).With("peer", 1)
	log.Error("before")
	if out.Len() == 0 {
		t.Error("a record before off is set was dropped")
	}
	out.Reset()
	off.Store(true)
	log.Error("after")
	if out.Len() > 0 {
		t.Errorf("after off is set, log = %q, want nothing", &out)
	}
}
