package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/node/admin"
)

func newTraceCommand() *cobra.Command {
	return viewCommand(&cobra.Command{
		Use:   "trace [--home DIR] URL",
		Short: "Show what has happened to a URL",
		Long: `Shows what the running peer, and the owner, know of a URL: whether the network crawls
it, which peer owns its host and why, whether it is queued, being fetched or pending, its last
fetch or why it was given up, its next visit, and its responses in the archive.`,
		Args: oneURL,
	}, func(ctx context.Context, c *admin.Client, args []string) (admin.Trace, error) {
		return c.Trace(ctx, args[0])
	}, showTrace)
}

func showTrace(w io.Writer, r admin.Trace) error {
	t := cli.NewTable(w)
	t.Row("URL", r.URL)
	t.Row("scope", cmp.Or(r.OutOfScope, "in scope"))
	t.Row("deny list", cmp.Or(r.Denied, "not denied here"))
	t.Row("host", r.Host)
	if p := r.Placement; p != nil {
		t.Row("subnet", p.Subnet)
		t.Row("owner", tracedOwner(*p))
		t.Row("why there", p.Why)
	}
	if r.Unplaced != "" {
		t.Row("owner", "unknown: "+r.Unplaced)
	}
	showURLState(t, "here", r.Here)
	if r.AtOwner != nil {
		showURLState(t, "at the owner", *r.AtOwner)
	}
	if r.Unanswered != "" {
		t.Row("at the owner", r.Unanswered)
	}
	return t.Flush()
}

func tracedOwner(p admin.Placement) string {
	switch {
	case p.Owner == "":
		return "none is known"
	case p.Own:
		return fmt.Sprintf("this peer, epoch %d", p.Epoch)
	}
	return fmt.Sprintf("%s, epoch %d", p.Owner, p.Epoch)
}

// showURLState adds what one peer knows.
func showURLState(t *cli.Table, where string, s admin.URLState) {
	t.Row(where, string(s.Place)+": "+s.Why)
	if s.HostState != "" && s.HostState != "answering" {
		text := s.HostState
		if s.HostRetry != nil {
			text += ", next request " + when(*s.HostRetry)
		}
		t.Row("  host", text)
	}
	if p := s.Page; p != nil {
		t.Row("  fetched", fmt.Sprintf("%s: %s, status %d, %s in %s", when(p.FetchedAt), p.Outcome,
			p.Status, cli.Size(p.Bytes), ms(p.TookMs)))
	}
	if g := s.GivenUp; g != nil {
		text := fmt.Sprintf("%s: %s, tries %d", when(g.At), g.Outcome, g.Tries)
		if g.Error != "" {
			text += ": " + g.Error
		}
		t.Row("  given up", text)
	}
	if s.NextVisit != nil {
		t.Row("  next visit", when(*s.NextVisit))
	}
	for _, c := range s.Captures {
		t.Row("  archived", fmt.Sprintf("%s: status %s, %s, in %s", when(c.At), c.Status, c.Type,
			c.File))
	}
	if s.CapturesUnread != "" {
		t.Row("  archived", "perhaps more: "+s.CapturesUnread)
	}
}

func when(t time.Time) string { return t.Local().Format(time.DateTime) }
