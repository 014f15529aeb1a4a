package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// How the crawlers name themselves to the server: the beginning of their user
// agents.
const (
	agentPeerd = "peerd"
	agentColly = "compare-colly"
	agentBare  = "compare-bare"
)

// The names of --only, in the order in which they run.
var kinds = []string{"peerd", "colly", "bare"}

// A crawler is one process to compare, with one set of options.
type crawler struct {
	Kind    string // one of kinds, or "peerd+warc"
	Setting string // what tells it from the others of its kind
	agent   string
	cpus    []int // where it may run; none: anywhere
	command func(scratch string) []string
	says    func(stdout []byte) (tally, error)
}

func (c crawler) name() string {
	if c.Setting == "" {
		return c.Kind
	}
	return c.Kind + " " + c.Setting
}

// crawlers returns what o asks for, in the order of a round.
func crawlers(ctx context.Context, o options, peerd string, note func(string, ...any)) ([]crawler, error) {
	var all []crawler
	for _, kind := range kinds {
		if !slices.Contains(o.only, kind) {
			continue
		}
		if kind == "peerd" {
			ps, err := peerdCrawlers(ctx, o, peerd, note)
			if err != nil {
				return nil, err
			}
			all = append(all, ps...)
			continue
		}
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		for _, n := range o.parallel {
			all = append(all, crawler{
				Kind: kind, Setting: strconv.Itoa(n) + " parallel", agent: "compare-" + kind, cpus: o.pinned(1), says: tallyOf,
				command: func(string) []string { return append([]string{self, kind, strconv.Itoa(n)}, o.seeds...) },
			})
		}
	}
	return all, nil
}

// peerdCrawlers are peerd as it is, on more cores, and with its archive.
func peerdCrawlers(ctx context.Context, o options, peerd string, note func(string, ...any)) ([]crawler, error) {
	plain := crawler{Kind: "peerd", agent: agentPeerd, cpus: o.pinned(1), says: summaryOf,
		command: func(string) []string { return peerdCommand(o, peerd) }}
	all := []crawler{plain}
	if o.cores > 1 {
		all[0].Setting = "1 core"
		more := plain
		more.Setting, more.cpus = fmt.Sprintf("%d cores", o.cores), o.pinned(o.cores)
		all = append(all, more)
	}
	if !o.warc {
		return all, nil
	}
	form, err := warcFlag(ctx, peerd)
	switch {
	case err != nil:
		return nil, err
	case form == noFlag:
		note("this peerd has no --warc: left out")
		return all, nil
	}
	warc := plain
	warc.Kind = "peerd+warc"
	warc.command = func(scratch string) []string {
		if form == flagAlone {
			return append(peerdCommand(o, peerd), "--warc", "--home", filepath.Join(scratch, "home"))
		}
		return append(peerdCommand(o, peerd), "--warc", filepath.Join(scratch, "warc"))
	}
	return append(all, warc), nil
}

func peerdCommand(o options, peerd string) []string {
	cmd := append([]string{peerd, "crawl"}, o.seeds...)
	cmd = append(cmd, "--min-delay", "0s", "--scope", "host", "--json", "--log-level", "error")
	for _, p := range o.allow {
		cmd = append(cmd, "--allow-net", p.String())
	}
	return cmd
}

// buildPeerd builds peerd from the tree that this module stands in.
func buildPeerd(ctx context.Context, root, into string) (string, error) {
	file := filepath.Join(into, "peerd")
	cmd := exec.CommandContext(ctx, "go", "build", "-C", root, "-o", file, "./cmd/peerd")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build peerd in %s: %w\n%s", root, err, out)
	}
	return file, nil
}

// The forms in which a binary takes an option.
const (
	noFlag    = iota
	flagAlone // --warc
	flagValue // --warc DIR
)

// warcFlag says how "peerd crawl" takes --warc.
func warcFlag(ctx context.Context, peerd string) (int, error) {
	help, err := exec.CommandContext(ctx, peerd, "crawl", "--help").CombinedOutput()
	if err != nil {
		return noFlag, fmt.Errorf("%s crawl --help: %w", peerd, err)
	}
	return warcForm(help), nil
}

// warcLine is the option's line in pflag's help, where two spaces stand before
// the text: "--warc   text" or "--warc dir   text".
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

// summaryOf reads the JSON of "peerd crawl".
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

// tallyOf reads the JSON of the drivers.
func tallyOf(stdout []byte) (tally, error) {
	var t tally
	if err := json.Unmarshal(stdout, &t); err != nil {
		return t, fmt.Errorf("driver's tally: %w", err)
	}
	return t, nil
}

// loopback is what peerd has to be allowed when the server is our own.
var loopback = netip.MustParsePrefix("127.0.0.0/8")
