package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/node/admin"
)

// newViewCommand returns a command that asks the running peer for one thing and prints it
// as a table or as JSON.
func newViewCommand[T any](
	name, short string, ask func(*admin.Client, context.Context) (T, error),
	show func(io.Writer, T) error,
) *cobra.Command {
	return viewCommand(&cobra.Command{
		Use:   name + " [--home DIR]",
		Short: short,
		Args:  cli.NoArgs,
	}, func(ctx context.Context, c *admin.Client, _ []string) (T, error) {
		return ask(c, ctx)
	}, show)
}

// viewCommand completes a command like those of newViewCommand that has arguments.
func viewCommand[T any](
	cmd *cobra.Command, ask func(context.Context, *admin.Client, []string) (T, error),
	show func(io.Writer, T) error,
) *cobra.Command {
	var asJSON bool
	cli.JSONFlag(cmd, &asJSON)
	return onPeer(cmd, func(cmd *cobra.Command, c *admin.Client, args []string) error {
		v, err := ask(cmd.Context(), c, args)
		switch {
		case err != nil:
			return err
		case asJSON:
			return cli.PrintJSON(cmd.OutOrStdout(), v)
		}
		return show(cmd.OutOrStdout(), v)
	})
}

func newStatusCommand() *cobra.Command {
	return newViewCommand("status", "Show the state of the running peer", (*admin.Client).Status,
		showStatus)
}

func showStatus(w io.Writer, s admin.Status) error {
	t := cli.NewTable(w)
	t.Row("addresses", strings.Join(s.Addrs, " "))
	t.Row("health", formatHealth(s.Health))
	if s.Health.Do != "" {
		t.Row("to do", s.Health.Do)
	}
	if text := formatReachability(s.Reachability); text != "" {
		t.Row("reachable", text)
	}
	t.Row("peer", s.PeerID)
	t.Row("network", s.Network)
	t.Row("strategy", s.Strategy)
	if s.GeoDB != "" {
		t.Row("places", s.GeoDB)
	}
	if len(s.Registries) > 0 {
		t.Row("registries", formatRegistries(s.Registries))
	}
	t.Row("up", time.Duration(s.UptimeS*float64(time.Second)).Round(time.Second))
	t.Row("coordinate", formatCoordinate(s.Coordinate))
	t.Row("peers", fmt.Sprintf("%d connected, %d in the directory", s.PeersConnected, s.Directory))
	for _, b := range s.Bootstrap {
		t.Row("bootstrap", formatBootstrap(b, time.Now()))
	}
	for _, why := range s.Blocked {
		t.Row("blocked", why)
	}
	t.Row("owned", cli.Count(s.SubnetsOwned, "subnet")+", "+cli.Count(s.Hosts, "host"))
	if s.SubnetsSilent > 0 {
		t.Row("silent owners", fmt.Sprintf("those of %s of which a copy is here: this peer or "+
			"another takes them over in time", cli.Count(s.SubnetsSilent, "subnet")))
	}
	t.Row("waiting", fmt.Sprintf("%d queued, %d in flight, %d unclaimed, %d in the outbox",
		s.Frontier.Pending, s.Frontier.InFlight, s.Frontier.Unclaimed, s.OutboxURLs))
	t.Row("fetched", cli.Count(s.PagesFetched, "page")+", "+cli.Size(s.BytesFetched))
	t.Row("given up", fmt.Sprintf("%s, %d more denied by robots.txt",
		cli.Count(s.Failed, "URL"), s.RobotsDenied))
	if s.Archive != nil {
		t.Row("archive", formatArchive(*s.Archive))
		if s.Archive.MirrorsWanted+s.Archive.Copies > 0 {
			t.Row("mirrors", formatMirrors(*s.Archive))
		}
	}
	if s.Replay != "" {
		t.Row("replay", s.Replay)
	}
	t.Row("revisited", fmt.Sprintf("%s, %d not modified, %d changed",
		cli.Count(s.Revisits.Done, "page"), s.Revisits.NotModified, s.Revisits.Changed))
	t.Counts("dropped", "URL", s.Dropped)
	t.Counts("marked", "page", s.Marked)
	t.Row("URLs seen", s.URLsSeen)
	t.Row("batches", fmt.Sprintf("%d sent (%s), %d received (%s)",
		s.Batches.Sent, cli.Count(s.Batches.URLsSent, "URL"),
		s.Batches.Received, cli.Count(s.Batches.URLsReceived, "URL")))
	t.Row("estimations", fmt.Sprintf("%d requested (%d scouts), %d served",
		s.Estimations.Requested, s.Estimations.Scouts, s.Estimations.Served))
	t.Row("probes", fmt.Sprintf("%d before decisions, %d connections opened",
		s.Probes.Made, s.Probes.Connects))
	t.Row("owner map", fmt.Sprintf("%s known, %s sent, %d received",
		cli.Count(s.OwnerMap.Subnets, "subnet"), cli.Count(s.OwnerMap.Sent, "announcement"),
		s.OwnerMap.Received))
	t.Row("handovers", fmt.Sprintf("%d out (%d moves), %d in",
		s.Handovers.Out, s.Handovers.Moves, s.Handovers.In))
	t.Row("control traffic", fmt.Sprintf("%s sent, %s received",
		cli.Size(s.ControlBytes.Sent), cli.Size(s.ControlBytes.Received)))
	return t.Flush()
}

func formatHealth(h admin.Health) string {
	if h.Why == "" {
		return string(h.State)
	}
	return string(h.State) + ": " + h.Why
}

// formatReachability says how other peers connect to this one; "" if that is not known.
func formatReachability(r string) string {
	switch r {
	case "direct":
		return "yes"
	case "relayed":
		return "through other members, which relay"
	case "none":
		return "no"
	}
	return ""
}

// formatBootstrap formats the state of a bootstrap address.
func formatBootstrap(b admin.BootstrapAddr, now time.Time) string {
	if b.Connected {
		return b.Addr + " connected"
	}
	text := b.Addr + " not connected"
	if b.LastError != "" {
		text += ": " + b.LastError
	}
	if b.NextAttempt != nil {
		wait := max(0, b.NextAttempt.Sub(now)).Round(time.Second)
		text += fmt.Sprintf("; next attempt in %s", wait)
	}
	return text
}

// formatRegistries formats which registries' data of which day the peer has.
func formatRegistries(all []admin.RegistryFile) string {
	texts := make([]string, len(all))
	for i, r := range all {
		texts[i] = fmt.Sprintf("%s of %s (%d blocks)", r.Registry, r.Day, r.Blocks)
	}
	return strings.Join(texts, ", ")
}

func formatArchive(a admin.Archive) string {
	text := cli.Count(a.Files, "file") + ", " + cli.Size(a.Bytes)
	if a.Quota > 0 {
		text += " of " + cli.Size(a.Quota)
	}
	if a.Refused > 0 {
		text += fmt.Sprintf("; no space for %s, %s", cli.Count(a.Refused, "response"),
			cli.Size(a.RefusedBytes))
	}
	return text
}

func formatMirrors(a admin.Archive) string {
	text := fmt.Sprintf("%d of %d follow the archive", a.Mirrors, a.MirrorsWanted)
	if a.MirrorLag > 0 {
		text += ", " + cli.Size(a.MirrorLag) + " behind"
	}
	if a.Copies > 0 {
		text += fmt.Sprintf("; here: %s of others, %s", cli.Count(a.Copies, "archive"),
			cli.Size(a.CopiedSize))
	}
	return text
}

// formatCoordinate formats a coordinate: (x y) + height, error.
func formatCoordinate(c admin.Coordinate) string {
	vec := make([]string, len(c.Vec))
	for i, v := range c.Vec {
		vec[i] = fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("(%s) + %.1f ms, error %.2f", strings.Join(vec, " "), c.Height, c.Error)
}
