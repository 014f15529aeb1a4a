package witness

import (
	"testing"
	"time"

	"peerd/overlay/lease"
	"peerd/overlay/wire"
)

func FuzzMessages(f *testing.F) {
	_, sealed := sealedPanel(f, 1, folk[1:5]...)
	for _, v := range []any{
		request{Beat: &beat{Panel: sealed, Boot: 1, Seen: 2}}, request{Ask: &ask{sealed, []step{{subnet, 2}}, 3, true}},
		request{Show: &show{folk[0].id}}, reply{Shown: &shown{sealed}},
		reply{Ack: &ack{Known: 1, Boot: 2, Notices: []notice{{1, subnet, 2, folk[2].id}}}},
		reply{Answer: &answer{Verdict: votes, Votes: [][]byte{{1}}, Panel: sealed}},
	} {
		b, err := wire.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	cfg := DefaultConfig()
	now := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	p, _ := lease.OpenPanel(sealed)
	f.Fuzz(func(t *testing.T, b []byte) {
		var r reply
		if wire.Unmarshal(b, &r) == nil {
			if r.Ack != nil && r.Ack.check() == nil {
				h := newHolder(folk[0].id, cfg, now, []held{{p, sealed}})
				h.acked(now, folk[1].id, now, *r.Ack)
				if ok, _ := h.right(now); ok {
					t.Fatal("one answer is enough")
				}
			}
			if r.Answer != nil {
				asked := ask{sealed, []step{{subnet, 2}}, 3, false}
				tally := newTally(p, asked)
				_ = tally.count(p, folk[5].id, folk[1].id, asked, *r.Answer)
			}
		}
		var q request
		if wire.Unmarshal(b, &q) != nil {
			return
		}
		g := newGuard(folk[1].id, cfg, now, 7, false)
		if q.Beat != nil {
			_, _ = g.beat(now, folk[0].id, *q.Beat)
		}
		if q.Ask != nil && checkSteps(q.Ask.Steps) == nil {
			if p, err := lease.OpenPanel(q.Ask.Panel); err == nil {
				v, yes, _ := g.vote(now.Add(time.Hour), folk[6].id, p, q.Ask.Panel, q.Ask.Steps, q.Ask.Try)
				g.drop(folk[6].id, p.Owner, q.Ask.Steps, q.Ask.Try)
				if v == votes && len(yes) != len(q.Ask.Steps) {
					t.Fatal("another number of votes")
				}
			}
		}
	})
}
