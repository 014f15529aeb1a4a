package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"time"

	"peerd/crawl/canon"
	"peerd/crawl/fetch"
	"peerd/store"
)

// SeedOutcome is the result of one seed of a one-shot crawl.
type SeedOutcome struct {
	URL     string `json:"url"`
	Fetched bool   `json:"fetched"`
	// Reason is why the page of the URL was not fetched; "" if it was.
	Reason string `json:"reason"`
}

const (
	// seedLookupTimeout bounds the look-ups of names when a crawl has ended.
	seedLookupTimeout = 10 * time.Second
	// maxSeedRedirects bounds the redirects that are followed from a seed.
	maxSeedRedirects = 10
)

// seedOutcomes returns the results of the seeds. The store must be open.
func (n *Node) seedOutcomes(seeds []string) []SeedOutcome {
	ctx, cancel := context.WithTimeout(context.Background(), seedLookupTimeout)
	defer cancel()
	all := make([]SeedOutcome, 0, len(seeds))
	for _, s := range seeds {
		o := SeedOutcome{URL: s}
		o.Fetched, o.Reason = n.seedOutcome(ctx, s)
		all = append(all, o)
	}
	return all
}

func (n *Node) seedOutcome(ctx context.Context, seed string) (fetched bool, reason string) {
	u, err := canon.Parse(seed)
	if err != nil {
		return false, err.Error()
	}
	for redirects := 0; ; redirects++ {
		p, err := n.page(u)
		switch {
		case errors.Is(err, store.ErrNotFound):
			reason = n.unfetchedReason(ctx, u)
		case err != nil:
			reason = err.Error()
		case p.Outcome == store.OutcomeRedirect && len(p.Links) > 0 &&
			redirects < maxSeedRedirects:
			u = p.Links[0]
			continue
		default:
			fetched, reason = n.pageReason(ctx, p)
		}
		if reason != "" && redirects > 0 {
			reason = fmt.Sprintf("redirected to %s: %s", u, reason)
		}
		return fetched, reason
	}
}

func (n *Node) page(u store.URL) (p store.Page, err error) {
	err = n.db.View(func(tx *store.Tx) error {
		p, err = tx.Page(u)
		return err
	})
	return p, err
}

// pageReason returns why a URL with a page record has no page.
func (n *Node) pageReason(ctx context.Context, p store.Page) (fetched bool, reason string) {
	switch p.Outcome {
	case store.OutcomeOK, store.OutcomeTooLarge, store.OutcomeNotHTML, store.OutcomeNotModified:
		return true, ""
	case store.OutcomeHTTPError, store.OutcomeThrottled:
		return false, fmt.Sprintf("the server answered with status %d", p.Status)
	case store.OutcomeRedirect:
		return false, "redirects to a URL that is out of scope"
	case store.OutcomeRobotsDenied:
		return false, "robots.txt forbids it"
	case store.OutcomeRobotsUnreachable:
		return false, withError("robots.txt cannot be fetched, so nothing may be fetched", p.Error)
	case store.OutcomeRefused:
		if err := n.checkHost(ctx, p.URL); err != nil {
			return false, err.Error()
		}
		return false, "the port is not one of an HTTP server"
	}
	return false, withError(outcomeText(p.Outcome), p.Error)
}

// withError adds the text of an error, if there is one.
func withError(text, err string) string {
	if err == "" {
		return text
	}
	return text + ": " + err
}

func outcomeText(o store.Outcome) string {
	if text := outcomeTexts[o]; text != "" {
		return text
	}
	return o.String()
}

var outcomeTexts = map[store.Outcome]string{
	store.OutcomeDNS:      "the host name does not resolve",
	store.OutcomeConnect:  "no connection to the server",
	store.OutcomeTLS:      "no TLS session with the server (crawl.accept_invalid_tls)",
	store.OutcomeTimeout:  "the server did not answer in time (crawl.timeout)",
	store.OutcomeReset:    "the server closed the connection early",
	store.OutcomeProtocol: "the server does not speak HTTP",
	store.OutcomeDenied:   "this peer denies it (peerd deny)",
	store.OutcomeDecoding: "the content encoding cannot be decoded",
}

// unfetchedReason returns why a URL without a page record was not fetched.
func (n *Node) unfetchedReason(ctx context.Context, u store.URL) string {
	var g store.GivenUp
	err := n.db.View(func(tx *store.Tx) (err error) {
		g, err = tx.GivenUp(u)
		return err
	})
	if err == nil && g.Outcome != store.OutcomeRefused {
		return withError(outcomeText(g.Outcome), g.Error)
	}
	if err := n.checkHost(ctx, u); err != nil {
		return err.Error()
	}
	return "not fetched before the crawl ended"
}

// checkHost returns why the host of a URL has no address that may be dialled.
func (n *Node) checkHost(ctx context.Context, raw store.URL) error {
	u, err := url.Parse(string(raw))
	if err != nil {
		return err
	}
	addrs, err := n.names.Addrs(ctx, u.Hostname())
	if err != nil {
		return fmt.Errorf("the host name does not resolve: %w", err)
	}
	for _, a := range addrs {
		if err = n.guard.Check(a); err == nil {
			return nil
		}
	}
	if len(addrs) > 0 && errors.Is(err, fetch.ErrForbiddenAddr) {
		a := addrs[0].Unmap().WithZone("")
		return fmt.Errorf("%s is not a public address; to fetch from it, use --allow-net %s",
			a, netip.PrefixFrom(a, a.BitLen()))
	}
	return err
}
