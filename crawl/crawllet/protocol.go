package crawllet

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/fxamacker/cbor/v2"
)

const (
	// Path is where a site answers (RFC 8615): GET returns its Policy, POST takes a signed Offer
	// and returns a Grant, PUT Path/TICKET takes the module, and POST Path/TICKET takes the input
	// of the crawllet and returns its output.
	Path = "/.well-known/crawllet"
	// Version is the version of the protocol.
	Version = 1
	// Runtime names what modules are written for.
	Runtime = "wasip1"
	// OutputType is the media type of the output.
	OutputType = "application/vnd.peerd.crawllet"
)

const (
	maxOffer  = 16 << 10 // bytes of a signed offer
	maxReply  = 64 << 10 // bytes of a policy, a grant or an error
	maxArgs   = 32
	maxArg    = 4096
	maxAgent  = 256
	maxPrefix = 2048
	// maxTypes bounds the extensions in a policy, and maxType each, in bytes: a crawler keeps the
	// policies of some thousand sites in memory.
	maxTypes, maxType = 64, 32
	// maxInput is the maximum length of the input, the two lists of URLs; maxBodies is how many
	// modules and inputs a host receives at the same time, and bodyTime how long one may take.
	maxInput  = 16 << 20
	maxBodies = 4
	bodyTime  = 2 * time.Minute
	// lifetime is how long an offer and a ticket are valid, and skew how much clocks may differ.
	lifetime = 5 * time.Minute
	skew     = time.Minute
)

// Limits bound a run. In an offer, 0 asks for as much as the site allows.
type Limits struct {
	CPU    uint32 `cbor:"1,keyasint" json:"cpu_seconds"`  // processor time, s
	Memory uint32 `cbor:"2,keyasint" json:"memory_mib"`   // linear memory, MiB
	Pages  uint32 `cbor:"3,keyasint" json:"pages"`        // files read
	Output uint64 `cbor:"4,keyasint" json:"output_bytes"` // before compression
	Wall   uint32 `cbor:"5,keyasint" json:"wall_seconds"` // from start to end, s
	// Scratch is disk space, in bytes. Sites grant none: memory is the scratch space of a crawllet.
	Scratch uint64 `cbor:"6,keyasint" json:"scratch_bytes"`
}

// DefaultLimits are those of a site that sets none.
var DefaultLimits = Limits{CPU: 60, Memory: 256, Pages: 100_000, Output: 1 << 30, Wall: 600}

// maxLimits are the largest limits that a site can set.
var maxLimits = Limits{
	CPU: 24 * 3600, Memory: 4096, Pages: 1 << 30, Output: 1 << 40, Wall: 24 * 3600,
}

// grant returns what a site with limits l grants to a crawler that wants w.
func (l Limits) grant(w Limits) Limits {
	return Limits{
		CPU: lesser(l.CPU, w.CPU), Memory: lesser(l.Memory, w.Memory),
		Pages: lesser(l.Pages, w.Pages), Output: lesser(l.Output, w.Output),
		Wall: lesser(l.Wall, w.Wall),
	}
}

// lesser returns want if it is not 0 and less than limit.
func lesser[T uint32 | uint64](limit, want T) T {
	if want == 0 {
		return limit
	}
	return min(limit, want)
}

// check reports whether l can be the limits of a site: none is 0 or too large.
func (l Limits) check() error {
	if l != maxLimits.grant(l) { // which replaces 0, too
		return fmt.Errorf("crawllet: limits %+v: want 1 to %+v each, and no scratch", l, maxLimits)
	}
	return nil
}

// Policy is what a site says about its crawllets.
type Policy struct {
	Version int    `json:"version"`
	Runtime string `json:"runtime"`
	// Prefix is the URL of the directory that crawllets read; it ends with a slash.
	Prefix string `json:"prefix"`
	Limits Limits `json:"limits"`
	Module int64  `json:"module_bytes"` // maximum size of a module
	// Types are the extensions of the files that crawllets read.
	Types []string `json:"types"`
	// Listed means that only crawlers that the site knows are accepted.
	Listed bool `json:"listed,omitempty"`
}

// check reports whether p is a policy that a client can use.
func (p *Policy) check() error {
	switch {
	case p.Version != Version || p.Runtime != Runtime:
		return fail(Unsupported, fmt.Sprintf("version %d, runtime %.20q", p.Version, p.Runtime))
	case checkPrefix(p.Prefix) != nil:
		return fail(BadReply, "prefix is not a URL")
	case p.Limits.check() != nil:
		return fail(BadReply, "limits are out of range")
	case checkTypes(p.Types) != nil:
		return fail(BadReply, "too many or too long types")
	}
	return nil
}

// checkTypes reports whether a site can have these types.
func checkTypes(all []string) error {
	if len(all) > maxTypes ||
		slices.ContainsFunc(all, func(t string) bool { return len(t) > maxType }) {
		return fmt.Errorf("crawllet: want at most %d types of %d bytes", maxTypes, maxType)
	}
	return nil
}

// checkPrefix reports whether s can be the prefix of a site.
func checkPrefix(s string) error {
	u, err := url.Parse(s)
	if err != nil || len(s) > maxPrefix || u.Scheme != "http" && u.Scheme != "https" ||
		u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		!strings.HasSuffix(u.Path, "/") || u.String() != s {
		return errors.New("crawllet: the prefix must be an http URL that ends with a slash")
	}
	return nil
}

// Offer is what a crawler wants to run.
type Offer struct {
	Version int    `cbor:"1,keyasint"`
	Prefix  string `cbor:"2,keyasint"` // of the site that it is for
	Key     []byte `cbor:"3,keyasint"` // Ed25519 public key of the crawler
	// Agent is a product token, and how to reach the operator, as in User-Agent (RFC 9110, section
	// 10.1.5). The token selects the group of robots.txt.
	Agent   string   `cbor:"4,keyasint"`
	Nonce   []byte   `cbor:"5,keyasint"` // 16 random bytes
	Created int64    `cbor:"6,keyasint"` // Unix time
	Module  []byte   `cbor:"7,keyasint"` // SHA-256 of the module
	Args    []string `cbor:"8,keyasint"` // of the module
	Wants   Limits   `cbor:"9,keyasint"`
}

// check reports whether the form of o is valid.
func (o *Offer) check() error {
	if o.Version != Version || len(o.Key) != 32 || len(o.Nonce) != 16 || len(o.Module) != 32 ||
		o.Agent == "" || len(o.Agent) > maxAgent || len(o.Prefix) > maxPrefix ||
		len(o.Args) > maxArgs {
		return fail(BadRequest, "the offer is incomplete or too large")
	}
	for _, a := range o.Args {
		if len(a) > maxArg || strings.ContainsRune(a, 0) {
			return fail(BadRequest, "an argument is too long")
		}
	}
	return nil
}

// Grant is the answer to an Offer.
type Grant struct {
	Ticket string `json:"ticket"` // in the path of the following requests, once for a run
	Limits Limits `json:"limits"`
	// Known means that the site has the module; otherwise it has to be uploaded.
	Known   bool  `json:"known"`
	Expires int64 `json:"expires"` // Unix time
}

// Usage is what a run has used.
type Usage struct {
	CPU    int64  `cbor:"1,keyasint" json:"cpu_ms"`       // including the start of the process
	Wall   int64  `cbor:"2,keyasint" json:"wall_ms"`      //
	Memory uint64 `cbor:"3,keyasint" json:"memory_bytes"` // linear memory
	Pages  uint32 `cbor:"4,keyasint" json:"pages"`        //
	Output uint64 `cbor:"5,keyasint" json:"output_bytes"` // before compression
}

// End is the last frame of a reply.
type End struct {
	Reason Reason `cbor:"1,keyasint"` // "" after success
	Detail string `cbor:"2,keyasint"`
	Usage  Usage  `cbor:"3,keyasint"`
}

// err returns the error that an End stands for.
func (e *End) err() error {
	if e.Reason == "" {
		return nil
	}
	return &Failure{e.Reason, e.Detail}
}

var (
	encMode = must(cbor.CoreDetEncOptions().EncMode())
	decMode = must(cbor.DecOptions{
		DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden,
		TagsMd: cbor.TagsForbidden, MaxNestedLevels: 4, MaxArrayElements: 128, MaxMapPairs: 64,
	}.DecMode())
)

// must is for values made from constants: a failure is a mistake in this package.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
