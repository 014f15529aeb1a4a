package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"peerd/node/admin"
)

// newViewCommand returns a command that asks the running peer for one thing
// and prints it as a table or as JSON.
func newViewCommand[T any](name, short string, ask func(*admin.Client, context.Context) (T, error), show func(io.Writer, T) error) *cobra.Command {
	var dir string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   name + " --home DIR",
		Short: short,
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			home, client, err := dial(cmd, dir)
			if err != nil {
				return err
			}
			v, err := ask(client, cmd.Context())
			if err != nil {
				return advise(home, err)
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), v)
			}
			return show(cmd.OutOrStdout(), v)
		},
	}
	homeFlag(cmd, &dir)
	jsonFlag(cmd, &asJSON)
	return cmd
}

func newStatusCommand() *cobra.Command {
	return newViewCommand("status", "Show the state of the running peer", (*admin.Client).Status, showStatus)
}

func showStatus(w io.Writer, s admin.Status) error {
	t := newTable(w)
	t.row("peer", s.PeerID)
	t.row("addresses", strings.Join(s.Addrs, " "))
	t.row("network", s.Network)
	t.row("strategy", s.Strategy)
	if s.GeoDB != "" {
		t.row("places", s.GeoDB)
	}
	if len(s.Registries) > 0 {
		t.row("registries", registriesOf(s.Registries))
	}
	t.row("up", time.Duration(s.UptimeS*float64(time.Second)).Round(time.Second))
	t.row("coordinate", place(s.Coordinate))
	t.row("peers", fmt.Sprintf("%d connected, %d in the directory", s.PeersConnected, s.Directory))
	for _, why := range s.Blocked {
		t.row("blocked", why)
	}
	t.row("owned", fmt.Sprintf("%d subnets, %d hosts", s.SubnetsOwned, s.Hosts))
	t.row("waiting", fmt.Sprintf("%d pending, %d in flight, %d in the nursery, %d in the outbox",
		s.Frontier.Pending, s.Frontier.InFlight, s.Frontier.Nursery, s.OutboxURLs))
	t.row("fetched", fmt.Sprintf("%d pages, %s", s.PagesFetched, size(s.BytesFetched)))
	t.row("not fetched", fmt.Sprintf("%d failed, %d denied by robots.txt", s.Failed, s.RobotsDenied))
	if s.Archive != nil {
		t.row("archive", archived(*s.Archive))
	}
	t.row("revisited", fmt.Sprintf("%d pages, %d not modified, %d changed", s.Revisits.Done, s.Revisits.NotModified, s.Revisits.Changed))
	t.counts("dropped", "URLs", s.Dropped)
	t.counts("marked", "pages", s.Marked)
	t.row("URLs seen", s.URLsSeen)
	t.row("batches", fmt.Sprintf("%d sent (%d URLs), %d received (%d URLs)",
		s.Batches.Sent, s.Batches.URLsSent, s.Batches.Received, s.Batches.URLsReceived))
	t.row("estimations", fmt.Sprintf("%d requested (%d scouts), %d served", s.Estimations.Requested, s.Estimations.Scouts, s.Estimations.Served))
	t.row("probes", fmt.Sprintf("%d before decisions, %d connections made", s.Probes.Made, s.Probes.Connects))
	t.row("atlas", fmt.Sprintf("%d subnets known, %d announcements sent, %d received", s.Atlas.Subnets, s.Atlas.Sent, s.Atlas.Received))
	t.row("handovers", fmt.Sprintf("%d out (%d moves), %d in", s.Handovers.Out, s.Handovers.Moves, s.Handovers.In))
	t.row("control traffic", fmt.Sprintf("%s sent, %s received", size(s.ControlBytes.Sent), size(s.ControlBytes.Received)))
	return t.flush()
}

// registriesOf writes which registry's data of which day there is.
func registriesOf(all []admin.RegistryFile) string {
	texts := make([]string, len(all))
	for i, r := range all {
		texts[i] = fmt.Sprintf("%s of %s (%d blocks)", r.Registry, day(r.Day), r.Blocks)
	}
	return strings.Join(texts, ", ")
}

func archived(a admin.Archive) string {
	text := fmt.Sprintf("%d files, %s", a.Files, size(a.Bytes))
	if a.Quota > 0 {
		text += " of " + size(a.Quota)
	}
	if a.Refused > 0 {
		text += fmt.Sprintf("; no room for %d answers, %s", a.Refused, size(a.RefusedBytes))
	}
	return text
}

// place writes a coordinate: (x y) + height ± error.
func place(c admin.Coordinate) string {
	vec := make([]string, len(c.Vec))
	for i, v := range c.Vec {
		vec[i] = fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("(%s) + %.1f ms, error %.2f", strings.Join(vec, " "), c.Height, c.Error)
}
