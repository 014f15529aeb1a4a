package estimate

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"peerd/store"
)

// Connect marks the request by its depth.
func (f fetcher) Connect(ctx context.Context, r store.FetchRequest) (store.FetchReport, error) {
	r.Depth = -1
	return f(ctx, r)
}

func TestConnect(t *testing.T) {
	var got store.FetchRequest
	owner, est := two(t, func(_ context.Context, r store.FetchRequest) (store.FetchReport, error) {
		got = r
		return store.FetchReport{
			Outcome: store.OutcomeOK, Status: 200, Bytes: 5, Links: []store.URL{"http://a.test/1"},
			Timing: store.Timing{Connect: time.Millisecond, Body: time.Second},
		}, nil
	})
	rep, err := owner.Connect(t.Context(), est.Host.ID(), sealedBy(owner), good)
	if err != nil || got.Depth != -1 || got.URL != good.URL || got.Addr != good.Addr {
		t.Fatalf("Connect passed %+v, %v, want the request", got, err)
	}
	if rep.Outcome != store.OutcomeOK || rep.Timing != (store.Timing{Connect: time.Millisecond}) ||
		rep.Bytes != 0 || rep.Status != 0 || rep.Links != nil {
		t.Errorf("Connect = %+v, want only outcome and connection time", rep)
	}
}

func TestConnectRefusals(t *testing.T) {
	owner, est := two(t, func(context.Context, store.FetchRequest) (store.FetchReport, error) {
		t.Error("connected despite the refusal")
		return store.FetchReport{}, nil
	})
	elsewhere, wrong := good, good
	elsewhere.Addr, wrong.URL = netip.MustParseAddr("10.0.0.1"), "http://a.test/bad"
	for why, c := range map[string]struct {
		lease []byte
		r     store.FetchRequest
	}{
		"a bad lease": {nil, good}, "owned by": {[]byte(est.Host.ID()), good},
		"address": {sealedBy(owner), elsewhere}, "a bad url": {sealedBy(owner), wrong},
	} {
		_, err := owner.Connect(t.Context(), est.Host.ID(), c.lease, c.r)
		if !errors.Is(err, ErrNotSent) || !strings.Contains(err.Error(), why) {
			t.Errorf("Connect: %v, want ErrNotSent with %q", err, why)
		}
	}
	now := time.Now().Add(time.Hour) // so that nothing becomes free meanwhile
	for est.connects.Allow(connectRate, owner.Host.ID(), now) {
	}
	_, err := owner.Connect(t.Context(), est.Host.ID(), sealedBy(owner), good)
	if !errors.Is(err, ErrNotSent) || !strings.Contains(err.Error(), "too many") {
		t.Errorf("Connect: %v, want ErrNotSent with \"too many\"", err)
	}
}
