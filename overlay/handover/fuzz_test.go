package handover

import (
	"testing"
	"time"

	"peerd/overlay/wire"
	"peerd/store"
)

// FuzzOffer checks which offers may be used.
func FuzzOffer(f *testing.F) {
	good, err := wire.Marshal(Offer{Subnet: subnet, Epoch: 2, Lease: []byte("lease"),
		Evidence: []byte("evidence"), Estimations: 3, Wait: time.Second,
		Pos: store.LogPos{Log: 1, Seq: 7}, Replica: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, raw []byte) {
		var o Offer
		if wire.Unmarshal(raw, &o) != nil || o.check() != nil {
			return
		}
		if store.SubnetOf(o.Subnet.Addr()) != o.Subnet || o.Epoch < 2 || o.Estimations < 0 ||
			len(o.Evidence) > maxEvidence {
			t.Errorf("used %+v", o)
		}
	})
}
