package top

import (
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"peerd/cmd/internal/cli"
	"peerd/node/admin"
)

// The smallest screen.
const (
	minWidth  = 60
	minHeight = 15
)

// headLines and footLines are the lines above and below the body.
const (
	headLines = 6
	footLines = 1
)

func (m model) bodyHeight() int { return m.height - headLines - footLines }

var titles = [views]string{"Overview", "Peers", "Subnets", "Queue", "Events"}

// View returns the screen.
func (m model) View() tea.View {
	v := tea.NewView(strings.Join(m.lines(), "\n"))
	v.AltScreen = true
	return v
}

// lines returns the lines of the screen, none longer than its width.
func (m model) lines() []string {
	var all []string
	switch {
	case m.width == 0: // not known yet
		return nil
	case m.width < minWidth || m.height < minHeight:
		all = []string{fmt.Sprintf("The terminal has %d columns and %d lines.", m.width, m.height),
			fmt.Sprintf("At least %d and %d are needed.", minWidth, minHeight)}
		all = all[:min(len(all), m.height)]
	default:
		all = append(m.head(), m.body()...)
		for len(all) < m.height-footLines {
			all = append(all, "")
		}
		all = append(all, m.paint(faint, m.help()))
	}
	for i, l := range all {
		all[i] = ansi.Truncate(l, m.width, "…")
	}
	return all
}

// Styles, as parameters of SGR (ECMA-48, 8.3.117).
const (
	bold     = "1"
	faint    = "2"
	reversed = "7"
	red      = "31"
	green    = "32"
	yellow   = "33"
)

// paint applies a style. Without colors, it applies only the one that shows the selected view.
func (m model) paint(style, text string) string {
	if text == "" || !m.colors && style != reversed {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[m"
}

// head returns the lines that all views have.
func (m model) head() []string {
	var names []string
	for v, title := range titles {
		name := fmt.Sprintf(" %d %s ", v+1, title)
		if view(v) == m.view {
			name = m.paint(reversed, name)
		}
		names = append(names, name)
	}
	tabs := strings.Join(names, "")
	if m.status == nil {
		why := "waiting for the peer"
		if m.lost != nil {
			why = m.paint(red, "the peer does not answer: "+cli.OneLine(m.lost.Error()))
		}
		return []string{m.paint(bold, "peerd"), why, "", "", "", tabs}
	}
	s := m.status
	up := time.Duration(s.UptimeS) * time.Second
	health := m.paint(healthStyle(s.Health.State), strings.ToUpper(string(s.Health.State))) +
		colon(cli.Printable(s.Health.Why))
	if m.lost != nil {
		health = m.paint(red, "THE PEER DOES NOT ANSWER") + ": " + cli.OneLine(m.lost.Error())
	}
	do := ""
	if s.Health.Do != "" {
		do = "To do: " + cli.Printable(s.Health.Do)
	}
	return []string{
		m.paint(bold, "peerd "+shortID(s.PeerID)) + "  network " + cli.Printable(s.Network) +
			"  up " + up.String(),
		health, do,
		fmt.Sprintf("%s pages/s  %s/s  %d queued  %d in flight  %s/s for others",
			m.rate(m.rates.fetches), m.byteRate(), s.Frontier.Pending, s.Frontier.InFlight,
			m.rate(m.rates.served)),
		"", tabs,
	}
}

func colon(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}

func healthStyle(s admin.HealthState) string {
	switch s {
	case admin.HealthOffline, admin.HealthHeldBack:
		return red
	case admin.HealthPaused, admin.HealthAlone, admin.HealthUnreachable, admin.HealthJoining:
		return yellow
	}
	return green
}

func (m model) rate(v float64) string {
	if !m.rates.known {
		return "-"
	}
	return fmt.Sprintf("%.1f", v)
}

func (m model) byteRate() string {
	if !m.rates.known {
		return "-"
	}
	return cli.Size(m.rates.bytes)
}

func (m model) help() string {
	text := "q quit  1-5 tab view"
	if m.view != viewOverview {
		text += "  ↑↓ PgUp PgDn scroll"
	}
	if o := orders[m.view]; len(o) > 0 {
		text += "  s sort: " + o[m.sorts[m.view]].name
	}
	return text
}

// body returns the lines of the view.
func (m model) body() []string {
	switch m.view {
	case viewOverview:
		return m.overview()
	case viewEvents:
		return m.eventLines()
	}
	return m.table()
}

func (m model) overview() []string {
	if m.status == nil {
		return nil
	}
	s := m.status
	var all []string
	row := func(name, format string, args ...any) {
		all = append(all, fmt.Sprintf("%-12s ", name)+cli.Printable(fmt.Sprintf(format, args...)))
	}
	for _, why := range s.Blocked {
		all = append(all, m.paint(red, "blocked      "+cli.Printable(why)))
	}
	row("fetched", "%d pages, %s", s.PagesFetched, cli.Size(s.BytesFetched))
	row("given up", "%d URLs, %d denied by robots.txt", s.Failed, s.RobotsDenied)
	row("waiting", "%d unclaimed, %d in the outbox", s.Frontier.Unclaimed, s.OutboxURLs)
	row("owned", "%d subnets, %d hosts", s.SubnetsOwned, s.Hosts)
	row("peers", "%d connected, %d known", s.PeersConnected, s.Directory)
	row("handovers", "%d out, %d in, %d takeovers", s.Handovers.Out, s.Handovers.In,
		s.Handovers.Takeovers)
	row("revisited", "%d pages, %d changed", s.Revisits.Done, s.Revisits.Changed)
	row("control", "%s sent, %s received", cli.Size(s.ControlBytes.Sent),
		cli.Size(s.ControlBytes.Received))
	return all[:min(len(all), m.bodyHeight())]
}

func (m model) eventLines() []string {
	var all []string
	for _, e := range m.events[min(m.tops[viewEvents], len(m.events)):] {
		if len(all) == m.bodyHeight() {
			break
		}
		text := e.Text
		if e.Subnet != "" {
			text = e.Subnet + " " + text
		}
		text = cli.Printable(text)
		switch e.Level {
		case "WARN":
			text = m.paint(yellow, text)
		case "ERROR":
			text = m.paint(red, text)
		}
		at := "        "
		if !e.At.IsZero() {
			at = e.At.Local().Format(time.TimeOnly)
		}
		all = append(all, at+" "+text)
	}
	if len(all) == 0 {
		return []string{"Nothing has happened yet."}
	}
	return all
}

// table returns the lines of a table: the rows in sight that have been read.
func (m model) table() []string {
	cols, t := columns[m.view], m.tables[m.view]
	widths := m.widths(cols)
	title := make([]string, len(cols))
	for i, c := range cols {
		title[i] = c.title
	}
	all := []string{m.paint(bold, tableLine(cols, widths, title))}
	switch {
	case t.err != nil:
		return append(all, m.paint(red, cli.OneLine(t.err.Error())))
	case t.view != m.view:
		return append(all, "...")
	case t.total == 0:
		return append(all, "There is nothing here.")
	}
	for i := m.tops[m.view]; len(all) < m.bodyHeight() && i < t.total; i++ {
		if n := i - t.offset; n >= 0 && n < len(t.rows) {
			all = append(all, tableLine(cols, widths, t.rows[n]))
		} else {
			all = append(all, "...")
		}
	}
	return all
}

// widths divides the width of the screen among columns.
func (m model) widths(cols []column) []int {
	sum := 0
	for _, c := range cols {
		sum += c.share
	}
	rest := m.width - 2*(len(cols)-1)
	widths := make([]int, len(cols))
	for i, c := range cols {
		widths[i] = rest * c.share / sum
	}
	return widths
}

func tableLine(cols []column, widths []int, cells []string) string {
	parts := make([]string, len(cols))
	for i, text := range cells {
		text = ansi.Truncate(cli.Printable(text), widths[i], "…")
		pad := strings.Repeat(" ", max(0, widths[i]-ansi.StringWidth(text)))
		if cols[i].number {
			parts[i] = pad + text
		} else {
			parts[i] = text + pad
		}
	}
	return strings.TrimRight(strings.Join(parts, "  "), " ")
}
