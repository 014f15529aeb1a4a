package lease

import (
	"context"
	"errors"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/internal/clock"
	"peerd/overlay/record"
	"peerd/overlay/record/recordtest"
)

// refusing is a DHT of which the record holders hold other records, if any.
type refusing struct {
	*recordtest.Peer
	held map[peer.ID][]byte
}

func (r *refusing) Put(ctx context.Context, key string, val []byte) (int, int, error) {
	if len(r.held) == 0 {
		return r.Peer.Put(ctx, key, val)
	}
	return 0, 0, &record.RefusedError{Held: r.held}
}

// If most record holders refuse the renewal of an owner, it may not act before one of them takes
// it. Strangers, who can be as near to a key as they like, do not count.
func TestRenewalRefused(t *testing.T) {
	t.Parallel()
	other := seal(t, nowLease(bob), bob)
	own := nowLease(alice)
	same := seal(t, own, alice)
	for name, c := range map[string]struct {
		nearest []peer.ID
		held    map[peer.ID][]byte
		want    bool
	}{
		"by all": {ids(folk[:4]), map[peer.ID][]byte{
			folk[1].id: other, folk[2].id: other, folk[3].id: other}, true},
		"by most": {ids(folk[:4]), map[peer.ID][]byte{
			folk[1].id: other, folk[2].id: other}, true},
		"by half": {ids(folk[:5]), map[peer.ID][]byte{
			folk[1].id: other, folk[2].id: other}, false},
		"by one":          {ids(folk[:2]), map[peer.ID][]byte{folk[1].id: other}, false},
		"by none":         {ids(folk[:4]), nil, false},
		"nearest unknown": {nil, map[peer.ID][]byte{folk[1].id: other, folk[2].id: other}, false},
		"by strangers": {ids(folk[:4]), map[peer.ID][]byte{
			folk[1].id: other, folk[5].id: other, folk[6].id: other}, false},
		"who have an earlier record of it": {ids(folk[:4]), map[peer.ID][]byte{
			folk[1].id: other, folk[2].id: same, folk[3].id: same}, false},
		"for what is no lease": {ids(folk[:4]), map[peer.ID][]byte{
			folk[1].id: other, folk[2].id: {1}, folk[3].id: nil}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := DefaultConfig()
			cfg.Judge = NewJudge(clock.Clock{}, &contacts{nearest: c.nearest})
			cfg.Self, cfg.Key = alice.id, alice.key
			cfg.Values = &refusing{recordtest.New(Validator{}, 3).Peer(), c.held}
			_, _, err := openWith(t, cfg).Renew(t.Context(), own)
			if got := errors.Is(err, ErrRefused); got != c.want || (err == nil) != (c.held == nil) {
				t.Errorf("Renew() = %v, want ErrRefused: %t", err, c.want)
			}
		})
	}
}
