package attack

import (
	"fmt"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"

	"peerd/crawl/deny"
	"peerd/overlay/wire"
)

// Attacks on the opt-outs of web sites.

func optOutAttacks() []Attack {
	return []Attack{{
		Name: "forged-opt-out", Unit: "pages not fetched, of 60", Limit: 0,
		Does: "says ten times a second that the site, and others, have opted out",
		By: "each peer reads the site's own file before it obeys, at most once a minute, and " +
			"less often after it was in vain",
		run: forgeOptOuts,
	}}
}

// claimOptOuts has a member say that origins have opted out until the attack ends.
func (m *member) claimOptOuts(origins func(i int) string) error {
	topic, err := m.net.PubSub.Join(m.e.names.OptOuts())
	if err != nil {
		return err
	}
	m.e.running.Go(func() {
		for i := 0; m.e.sleep(100*time.Millisecond) == nil; i++ {
			raw, err := wire.Marshal(fields{1: origins(i), 2: time.Now().UnixMilli()})
			if err == nil {
				_ = topic.Publish(m.e.ctx, raw, pubsub.WithLocalPublication(false))
			}
		}
	})
	return nil
}

func forgeOptOuts(e *arena) (outcome, error) {
	const pages = 60
	s, err := e.site(9, pages)
	if err != nil {
		return outcome{}, err
	}
	vs, err := e.peers(2)
	if err != nil {
		return outcome{}, err
	}
	m, err := e.member()
	if err != nil {
		return outcome{}, err
	}
	own, begin := s.url(""), time.Now()
	if err := m.claimOptOuts(func(i int) string {
		if i%2 == 0 {
			return own
		}
		return fmt.Sprintf("http://made-up-%d.test", i)
	}); err != nil {
		return outcome{}, err
	}
	if err := e.crawl(vs[0], s); err != nil {
		return outcome{}, err
	}
	e.within(10*pages*e.gap, func() bool { return s.fetched() == pages })
	reads := 0
	for _, h := range s.all() {
		if h.path == deny.OptOutPath {
			reads++
		}
	}
	if reads == 0 {
		return outcome{}, fmt.Errorf("attack: no claim has arrived")
	}
	return outcome{float64(pages - s.fetched()), fmt.Sprintf("the file was read %d times in %v",
		reads, time.Since(begin).Round(time.Second))}, nil
}
