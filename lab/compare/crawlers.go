package compare

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// agentPeerd is the beginning of the user agent of peerd. The user agents of the drivers are
// "compare-" and their names.
const agentPeerd = "peerd"

// Crawlers are the names of Options.Only, in the order in which they run.
var Crawlers = []string{"peerd", "colly", "bare"}

// A crawler is one process to compare, with one set of options.
type crawler struct {
	Kind    string // one of Crawlers, or "peerd+warc"
	Setting string // distinguishes it from others of its kind
	agent   string
	cpus    []int // cores; none: any
	command func(scratch string) []string
	parse   func(stdout []byte) (tally, error)
}

func (c crawler) name() string {
	if c.Setting == "" {
		return c.Kind
	}
	return c.Kind + " " + c.Setting
}

// crawlers returns the crawlers of o, in the order of a round.
func crawlers(ctx context.Context, o Options, note func(string, ...any)) ([]crawler, error) {
	var all []crawler
	for _, kind := range Crawlers {
		if !slices.Contains(o.Only, kind) {
			continue
		}
		if kind == "peerd" {
			ps, err := peerdCrawlers(ctx, o, note)
			if err != nil {
				return nil, err
			}
			all = append(all, ps...)
			continue
		}
		program := []string{o.Colly}
		if kind == "bare" {
			program = o.Self
		}
		for _, n := range o.Parallel {
			d := newDriverOptions(kind, o.Seeds, n)
			all = append(all, crawler{
				Kind: kind, Setting: strconv.Itoa(n) + " parallel", agent: d.Agent,
				cpus: o.pinned(1), parse: tallyOf,
				command: func(string) []string { return append(slices.Clone(program), d.text()) },
			})
		}
	}
	return all, nil
}

// peerdCrawlers returns peerd as it is, on more cores, and with its archive.
func peerdCrawlers(ctx context.Context, o Options, note func(string, ...any)) ([]crawler, error) {
	plain := crawler{Kind: "peerd", agent: agentPeerd, cpus: o.pinned(1), parse: summaryOf,
		command: func(string) []string { return peerdCommand(o) }}
	all := []crawler{plain}
	if o.Cores > 1 {
		all[0].Setting = "1 core"
		more := plain
		more.Setting, more.cpus = fmt.Sprintf("%d cores", o.Cores), o.pinned(o.Cores)
		all = append(all, more)
	}
	if !o.WARC {
		return all, nil
	}
	form, err := warcFlag(ctx, o.Peerd)
	switch {
	case err != nil:
		return nil, err
	case form == noFlag:
		note("skipped peerd+warc: this peerd has no --warc")
		return all, nil
	}
	warc := plain
	warc.Kind = "peerd+warc"
	warc.command = func(scratch string) []string {
		if form == flagAlone {
			return append(peerdCommand(o), "--warc", "--home", filepath.Join(scratch, "home"))
		}
		return append(peerdCommand(o), "--warc", filepath.Join(scratch, "warc"))
	}
	return append(all, warc), nil
}

func peerdCommand(o Options) []string {
	cmd := append([]string{o.Peerd, "crawl"}, o.Seeds...)
	cmd = append(cmd, "--min-delay", "0s", "--scope", "host", "--json", "--log-level", "error")
	for _, p := range o.Allow {
		cmd = append(cmd, "--allow-net", p.String())
	}
	return cmd
}

// The forms of an option.
const (
	noFlag    = iota
	flagAlone // --warc
	flagValue // --warc DIR
)

// warcFlag returns the form in which "peerd crawl" takes --warc.
func warcFlag(ctx context.Context, peerd string) (int, error) {
	help, err := exec.CommandContext(ctx, peerd, "crawl", "--help").CombinedOutput()
	if err != nil {
		return noFlag, fmt.Errorf("%s crawl --help: %w", peerd, err)
	}
	return warcForm(help), nil
}

// warcLine matches the option in the help of pflag, which has two spaces before the text:
// "--warc   text" or "--warc dir   text".
var warcLine = regexp.MustCompile(`(?m)^\s+--warc(?: (\S+))?\s*(?:\s{2}|$)`)

func warcForm(help []byte) int {
	m := warcLine.FindSubmatch(help)
	switch {
	case m == nil:
		return noFlag
	case len(m[1]) > 0:
		return flagValue
	}
	return flagAlone
}

// summaryOf parses the JSON output of "peerd crawl".
func summaryOf(stdout []byte) (tally, error) {
	var s struct {
		Outcomes map[string]int64 `json:"outcomes"`
		Failed   int64            `json:"failed"`
	}
	if err := json.Unmarshal(stdout, &s); err != nil {
		return tally{}, fmt.Errorf("peerd's summary: %w", err)
	}
	return tally{Pages: s.Outcomes["ok"], Failed: s.Failed}, nil
}

// tallyOf parses the JSON output of a driver.
func tallyOf(stdout []byte) (tally, error) {
	var t tally
	if err := json.Unmarshal(stdout, &t); err != nil {
		return t, fmt.Errorf("driver's tally: %w", err)
	}
	return t, nil
}

// loopback is the range that peerd is allowed to fetch from with Options.Roots.
var loopback = netip.MustParsePrefix("127.0.0.0/8")
