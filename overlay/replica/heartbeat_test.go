package replica

import (
	"net/netip"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/overlaytest"
)

func TestSendTimes(t *testing.T) {
	t.Parallel()
	var ms sendTimes
	begin := time.Now()
	at := func(d time.Duration) time.Time { return begin.Add(d) }
	ms.add(1, at(0))
	ms.add(5, at(sendTimeInterval/2)) // belongs to the entry before
	ms.add(3, at(5*sendTimeInterval)) // sent again
	ms.add(6, at(6*sendTimeInterval))
	if len(ms) != 2 || ms[0] != (sendTime{5, at(0)}) ||
		ms[1] != (sendTime{6, at(6 * sendTimeInterval)}) {
		t.Fatalf("sendTimes = %v, want two entries, 5 and 6", ms)
	}
	if got := ms.drop(4); !got.IsZero() || len(ms) != 2 {
		t.Errorf("drop(4) = %v leaving %v, want nothing dropped", got, ms)
	}
	if got := ms.drop(5); got != at(0) || len(ms) != 1 {
		t.Errorf("drop(5) = %v leaving %v, want %v and one entry", got, ms, at(0))
	}
	if got := ms.drop(9); got != at(6*sendTimeInterval) || ms != nil {
		t.Errorf("drop(9) = %v leaving %v, want %v and no entry",
			got, ms, at(6*sendTimeInterval))
	}
	for i := range uint64(2 * maxSendTimes) {
		ms.add(i+1, at(time.Duration(i)*sendTimeInterval))
	}
	if len(ms) != maxSendTimes || ms[maxSendTimes-1].seq != 2*maxSendTimes {
		t.Errorf("%d entries, the last %v; want %d, the last for %d",
			len(ms), ms[len(ms)-1], maxSendTimes, 2*maxSendTimes)
	}
}

// A replica knows until when its owner counted on it by the replies that the owner
// confirms, not by the frames that come: these may have been buffered.
func TestConfirmed(t *testing.T) {
	t.Parallel()
	ha, hb := hostPair(t)
	a, b := startMember(t, ha, open(t, ""), nil), startMember(t, hb, open(t, ""), nil)
	addOwned(t, a.db, subnet)
	began := time.Now()
	follow(t, a, subnet, b)
	flush(t, a, subnet)
	eventually(t, "the copy is confirmed", func() bool {
		h, _ := b.Copy(subnet)
		return h.Complete && h.Confirmed.After(began)
	})
	later := time.Now()
	eventually(t, "it is confirmed again", func() bool {
		h, _ := b.Copy(subnet)
		return h.Confirmed.After(later)
	})
	a.stop()
	end := time.Now()
	eventually(t, "the link ends", func() bool { h, _ := b.Copy(subnet); return !h.Live })
	if h, _ := b.Copy(subnet); h.Confirmed.After(end) || h.Confirmed.Before(later) {
		t.Errorf("Confirmed is %v after the end, want between the last check and the end",
			h.Confirmed.Sub(end))
	}

	// An owner that receives no reply confirms nothing.
	hc, hd := hostPair(t)
	d := startMember(t, hd, open(t, ""), nil)
	l := newMaliciousOwner(t, hc, hd)
	l.open(OpenRequest{Subnet: subnet, Epoch: 1, Lease: []byte("lease"), Log: 5})
	l.send(ownerFrame{Piece: &snapshotPiece{Subnet: subnet, Start: LogPos{Log: 5, Seq: 1}, Until: 1,
		Ops: pieces(t, subnet, putHost("x.test", subnet, subnet))}})
	eventually(t, "the copy is complete", func() bool { h, _ := d.Copy(subnet); return h.Complete })
	h, _ := d.Copy(subnet)
	for range 3 {
		l.send(ownerFrame{})
	}
	eventually(t, "the heartbeats are received", func() bool {
		now, _ := d.Copy(subnet)
		return now.Heard.After(h.Heard)
	})
	if h, _ := d.Copy(subnet); !h.Confirmed.IsZero() {
		t.Errorf("Confirmed = %v without confirmed replies, want the zero time", h.Confirmed)
	}
	for n := uint64(1); ; n++ { // until a reply counts that was sent early
		if h, _ := d.Copy(subnet); !h.Confirmed.IsZero() {
			break
		}
		var u replicaFrame
		if err := l.c.RecvZ(&u); err != nil {
			t.Fatal(err)
		}
		l.send(ownerFrame{Heard: n})
	}
}

// A follower owes an acknowledgement since the first record was sent that it has not acknowledged.
func TestOwes(t *testing.T) {
	t.Parallel()
	_, who := overlaytest.Identity(1)
	f := &follower{link: &ownerLink{}, state: stateLog, sent: LogPos{Log: 1, Seq: 9}}
	s := &sources{subnets: map[netip.Prefix]*source{
		subnet: {followers: map[peer.ID]*follower{who: f}}}}
	at := time.Now()
	f.unacked.add(3, at)
	f.unacked.add(7, at.Add(5*time.Second))
	for _, c := range []struct {
		acked uint64
		want  time.Time
	}{{2, at}, {3, at.Add(5 * time.Second)}, {7, time.Time{}}} {
		f.onAck(ack{Subnet: subnet, Pos: LogPos{Log: 1, Seq: c.acked}, Complete: true})
		if got := s.State(subnet, who).Owes; !got.Equal(c.want) {
			t.Errorf("Owes = %v after %d, want %v", got, c.acked, c.want)
		}
	}
}
