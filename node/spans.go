package node

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/node/config"
	"peerd/node/otlp"
	"peerd/overlay/handover"
	"peerd/overlay/outbox"
	"peerd/overlay/owner"
	"peerd/store"
)

// openSpans creates what sends spans to a collector of traces, if one is configured.
func (n *Node) openSpans() error {
	endpoint := n.opts.Config.Traces.Endpoint
	if endpoint == "" {
		return nil
	}
	n.spans = otlp.New(otlp.Config{
		Endpoint: endpoint, Logger: n.log,
		Client: &http.Client{Transport: &http.Transport{DialContext: n.dialControl}},
		Resource: []otlp.Attr{{Key: "service.name", Value: "peerd"},
			{Key: "service.version", Value: config.Version},
			{Key: "service.instance.id", Value: n.net.Self().String()},
			{Key: "peerd.network", Value: n.opts.Profile.NetworkID()}},
	})
	n.parts = append(n.parts, n.spans.Run)
	return nil
}

// addSpan adds a span that ends now.
func (n *Node) addSpan(name string, start time.Time, err error, attrs ...otlp.Attr) {
	if n.spans == nil {
		return
	}
	s := otlp.Span{Name: name, Start: start, End: time.Now(), Attrs: attrs}
	if err != nil {
		s.Error = err.Error()
	}
	n.spans.Add(s)
}

// addFetchSpan adds the fetch of a page that was stored, with its phases.
func (n *Node) addFetchSpan(p store.Page) {
	if n.spans == nil {
		return
	}
	s := otlp.Span{Name: "fetch", Start: p.FetchedAt, Attrs: []otlp.Attr{
		{Key: "url.full", Value: string(p.URL)},
		{Key: "http.response.status_code", Value: p.Status},
		{Key: "http.response.body.size", Value: p.Bytes},
		{Key: "peerd.outcome", Value: p.Outcome.String()},
		{Key: "peerd.for", Value: "this peer"}}}
	if p.Estimation {
		s.Attrs[len(s.Attrs)-1].Value = "another peer"
	}
	at, t := p.FetchedAt, p.Timing
	for _, phase := range []struct {
		name string
		took time.Duration
	}{{"lookup", t.DNS}, {"connect", t.Connect}, {"tls", t.TLS}, {"first byte", t.FirstByte},
		{"body", t.Body}} {
		if phase.took > 0 {
			s.Parts = append(s.Parts, otlp.Span{Name: phase.name, Start: at,
				End: at.Add(phase.took)})
			at = at.Add(phase.took)
		}
	}
	s.End = at
	n.spans.Add(s)
}

// addBatchSpan adds a batch of URLs that was sent to an owner.
func (n *Node) addBatchSpan(b outbox.Batch) {
	if !b.Sent {
		return
	}
	n.addSpan("batch", time.Now().Add(-b.Took), b.Err,
		otlp.Attr{Key: "peerd.peer", Value: b.Peer.String()},
		otlp.Attr{Key: "peerd.urls", Value: b.URLs})
}

// spanEstimator adds estimations of other peers, and connections that they open.
type spanEstimator struct {
	owner.Estimator
	n *Node
}

func (e spanEstimator) Fetch(
	ctx context.Context, to peer.ID, sealed []byte, r store.FetchRequest,
) (store.FetchReport, error) {
	start := time.Now()
	rep, err := e.Estimator.Fetch(ctx, to, sealed, r)
	e.add("estimation", start, to, r, rep, err)
	return rep, err
}

func (e spanEstimator) Connect(
	ctx context.Context, to peer.ID, sealed []byte, r store.FetchRequest,
) (store.FetchReport, error) {
	start := time.Now()
	rep, err := e.Estimator.Connect(ctx, to, sealed, r)
	e.add("probe connection", start, to, r, rep, err)
	return rep, err
}

func (e spanEstimator) add(
	name string, start time.Time, to peer.ID, r store.FetchRequest, rep store.FetchReport,
	err error,
) {
	e.n.addSpan(name, start, err, otlp.Attr{Key: "peerd.peer", Value: to.String()},
		otlp.Attr{Key: "url.full", Value: string(r.URL)},
		otlp.Attr{Key: "peerd.outcome", Value: rep.Outcome.String()},
		otlp.Attr{Key: "peerd.took_ms", Value: rep.Timing.Total().Milliseconds()})
}

// spanSender adds handovers.
type spanSender struct {
	owner.Sender
	n *Node
}

func (s spanSender) Send(
	ctx context.Context, to peer.ID, o handover.Offer, grant func() ([]byte, error),
) ([]byte, error) {
	start := time.Now()
	lease, err := s.Sender.Send(ctx, to, o, grant)
	s.add(start, to, o.Subnet, err)
	return lease, err
}

func (s spanSender) SendGrant(
	ctx context.Context, to peer.ID, o handover.Offer, grant func() ([]byte, error),
) ([]byte, error) {
	start := time.Now()
	lease, err := s.Sender.SendGrant(ctx, to, o, grant)
	s.add(start, to, o.Subnet, err)
	return lease, err
}

func (s spanSender) add(start time.Time, to peer.ID, p netip.Prefix, err error) {
	s.n.addSpan("handover", start, err, otlp.Attr{Key: "peerd.peer", Value: to.String()},
		otlp.Attr{Key: "peerd.subnet", Value: p.String()})
}
