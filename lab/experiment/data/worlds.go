package data

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"
	"strconv"

	"go4.org/netipx"

	"peerd/coords/registry"
)

// ErrWorld means that a file is not a world.
var ErrWorld = errors.New("invalid world of crawlers and sites")

// Limits of a world.
const (
	worldBytesMax    = 64 << 20 // decompressed
	worldCrawlersMax = 1 << 10
	worldSitesMax    = 1 << 17
	worldRangesMax   = 1 << 20
)

// ProbeFailed is the smallest time, in ms, of a failed probe.
const ProbeFailed = 20_000.0

// World is a small Internet as registries and some crawlers see it, for strategies that use
// addresses.
type World struct {
	Name, Note string
	// Crawlers and Sites are their addresses, at least one each.
	Crawlers, Sites []netip.Addr
	// ProbeMS is the time of a probe by crawler and site, ms, in [0, ProbeFailed]; ProbeFailed
	// means a failure.
	ProbeMS [][]float64
	// Full is the complete tree of the registries, Holders only the content of their
	// delegated-extended files.
	Full, Holders *registry.Table
}

// worldFile is the JSON form of a world.
type worldFile struct {
	Name     string       `json:"name"`
	Note     string       `json:"note"`
	Crawlers []netip.Addr `json:"crawler_ips"`
	Sites    []netip.Addr `json:"site_ips"`
	ProbeMS  [][]float64  `json:"probe_ms"`
	Full     []worldRange `json:"ranges_full"`
	Holders  []worldRange `json:"ranges_holder"`
}

// worldRange is a block of addresses; holder -1 is the registry itself.
type worldRange struct {
	First  netip.Addr `json:"first"`
	Last   netip.Addr `json:"last"`
	Holder int        `json:"holder"`
}

// LoadWorld reads a world from a file with ReadWorld. Its errors name the file.
func LoadWorld(path string) (*World, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	w, err := ReadWorld(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if w.Name == "" {
		w.Name = path
	}
	return w, nil
}

// ReadWorld reads a world: one JSON object, plain or gzip. Errors wrap ErrWorld or are those of
// r.
func ReadWorld(r io.Reader) (*World, error) {
	src, err := plain(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrWorld, err)
	}
	limited := &io.LimitedReader{R: src, N: worldBytesMax + 1}
	var f worldFile
	if err := json.NewDecoder(limited).Decode(&f); err != nil {
		if limited.N <= 0 {
			return nil, fmt.Errorf("%w: more than %d MiB", ErrWorld, worldBytesMax>>20)
		}
		return nil, fmt.Errorf("%w: %w", ErrWorld, err)
	}
	return f.world()
}

// world checks f and turns it into a World.
func (f worldFile) world() (*World, error) {
	bad := func(format string, args ...any) (*World, error) {
		return nil, fmt.Errorf("%w: "+format, append([]any{ErrWorld}, args...)...)
	}
	switch {
	case len(f.Crawlers) == 0 || len(f.Crawlers) > worldCrawlersMax:
		return bad("%d crawler_ips, want 1 to %d", len(f.Crawlers), worldCrawlersMax)
	case len(f.Sites) == 0 || len(f.Sites) > worldSitesMax:
		return bad("%d site_ips, want 1 to %d", len(f.Sites), worldSitesMax)
	case len(f.ProbeMS) != len(f.Crawlers):
		return bad("%d rows of probe_ms for %d crawlers", len(f.ProbeMS), len(f.Crawlers))
	}
	for _, as := range [][]netip.Addr{f.Crawlers, f.Sites} {
		for i, a := range as {
			if !a.IsValid() {
				return bad("address %d is empty", i)
			}
			as[i] = a.Unmap().WithZone("")
		}
	}
	for i, row := range f.ProbeMS {
		if len(row) != len(f.Sites) {
			return bad("row %d of probe_ms has %d times for %d sites", i, len(row), len(f.Sites))
		}
		for j, ms := range row {
			if !(ms >= 0) {
				return bad("probe_ms[%d][%d] is %v, want >= 0", i, j, ms)
			}
			row[j] = math.Min(ms, ProbeFailed)
		}
	}
	w := &World{Name: f.Name, Note: f.Note, Crawlers: f.Crawlers, Sites: f.Sites,
		ProbeMS: f.ProbeMS}
	var err error
	if w.Full, err = tableOf("ranges_full", f.Full); err != nil {
		return nil, err
	}
	w.Holders, err = tableOf("ranges_holder", f.Holders)
	return w, err
}

// tableOf builds a table from ranges, which need not be prefixes.
func tableOf(name string, ranges []worldRange) (*registry.Table, error) {
	if len(ranges) > worldRangesMax {
		return nil, fmt.Errorf("%w: %d %s, at most %d", ErrWorld, len(ranges), name, worldRangesMax)
	}
	var entries []registry.Entry
	for i, r := range ranges {
		block := netipx.IPRangeFrom(r.First.Unmap().WithZone(""), r.Last.Unmap().WithZone(""))
		if !block.IsValid() {
			return nil, fmt.Errorf("%w: %s[%d] is %v to %v", ErrWorld, name, i, r.First, r.Last)
		}
		holder := ""
		if r.Holder >= 0 {
			holder = "world:" + strconv.Itoa(r.Holder)
		}
		for _, p := range block.Prefixes() {
			entries = append(entries, registry.Entry{Prefix: p, Holder: holder, Registry: "world"})
		}
		if len(entries) > 2*worldRangesMax {
			return nil, fmt.Errorf("%w: %s is more than %d prefixes", ErrWorld, name,
				2*worldRangesMax)
		}
	}
	t, err := registry.Build(entries)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrWorld, name, err)
	}
	return t, nil
}

// Best returns the least probing time of a site over all crawlers, ms.
func (w *World) Best(site int) float64 {
	best := math.Inf(1)
	for _, row := range w.ProbeMS {
		best = min(best, row[site])
	}
	return best
}
