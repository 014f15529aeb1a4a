package registry

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"

	"go4.org/netipx"
)

// Errors of Parse.
var (
	// ErrFile says that the bytes are no delegated file that may be used.
	ErrFile = errors.New("registry: not a usable delegated file")
	// ErrCut says that records are missing that the file itself announces. It
	// wraps ErrFile.
	ErrCut = fmt.Errorf("%w: it is cut off", ErrFile)
)

// Limits bound what Parse reads of foreign bytes.
type Limits struct {
	// Bytes is how long a file may be. > 0.
	Bytes int64
	// Line is how long a line may be, in bytes. A longer one is a fault. >= 80.
	Line int
	// Records is how many records a file may have. > 0.
	Records int
	// Faults is how many of the faults are kept with their reasons. >= 0.
	Faults int
	// Missing is which share of the announced records may be missing. In [0, 1].
	Missing float64
}

// DefaultLimits leave a file of all registries (55 MB, 770,000 records) some
// room to grow.
func DefaultLimits() Limits {
	return Limits{Bytes: 512 << 20, Line: 4096, Records: 4 << 20, Faults: 20, Missing: 0.05}
}

// Validate names the field that is out of its range.
func (l Limits) Validate() error {
	switch {
	case l.Bytes <= 0:
		return fmt.Errorf("registry: Bytes is %d, want more than 0", l.Bytes)
	case l.Line < 80:
		return fmt.Errorf("registry: Line is %d, want at least 80", l.Line)
	case l.Records <= 0:
		return fmt.Errorf("registry: Records is %d, want more than 0", l.Records)
	case l.Faults < 0:
		return fmt.Errorf("registry: Faults is %d, want at least 0", l.Faults)
	case !(l.Missing >= 0 && l.Missing <= 1):
		return fmt.Errorf("registry: Missing is %v, want 0 to 1", l.Missing)
	}
	return nil
}

// Header is the version line of a file, with what the summary lines add.
type Header struct {
	// Version is "2" or "2.3", Registry who made the file ("nro" for the
	// combined one), Serial its number: a date or a time, each registry to its
	// own taste.
	Version, Registry, Serial string
	// End is the last day that the file tells of, as YYYYMMDD. May be empty.
	End string
	// Records is how many records the version line announces.
	Records int
	// Summary is how many the summary lines announce together.
	Summary int
}

// Fault is a line that could not be used.
type Fault struct {
	// Line is its number, from 1. 0: it is about the whole file.
	Line   int
	Reason string
}

// String writes "line 7: …".
func (f Fault) String() string {
	if f.Line == 0 {
		return f.Reason
	}
	return fmt.Sprintf("line %d: %s", f.Line, f.Reason)
}

// File is what a delegated file says.
type File struct {
	Header Header
	// Entries are the blocks of addresses, in the order of the file. A record
	// whose count is no CIDR block gives several.
	Entries []Entry
	// Records are the lines with a record, broken ones among them; IPv4, IPv6
	// and ASN the good ones by type. AS numbers give no entry.
	Records, IPv4, IPv6, ASN int
	// Free are the IP records that nobody holds: available or reserved.
	Free int
	// Faulty is how many faults there are, Faults the first of them.
	Faulty int
	Faults []Fault
}

// Parse reads a delegated or delegated-extended file, of one registry or NRO's
// combined one. A line that is broken is counted, and the first ones are named
// in File.Faults; the others count nevertheless. The errors wrap ErrFile when
// there is no record in it, when it is beyond the limits, or (ErrCut) when too
// many records are missing of those it announces; others are the reader's. With
// an error the File has what was read until then.
func Parse(r io.Reader, lim Limits) (*File, error) {
	if err := lim.Validate(); err != nil {
		return &File{}, err
	}
	p := parser{lim: lim, file: &File{}, holders: map[string]string{}, names: map[string]string{}}
	err := p.lines(r)
	if err == nil {
		err = p.end()
	}
	return p.file, err
}

// parser is a Parse under way.
type parser struct {
	lim    Limits
	file   *File
	line   int
	headed bool
	// holders and names keep one string for each name: "registry|id" to
	// "registry:id", and registries and countries.
	holders, names map[string]string
	blocks         []netip.Prefix
}

// lines reads line by line and skips over what is too long.
func (p *parser) lines(r io.Reader) error {
	limited := &io.LimitedReader{R: r, N: p.lim.Bytes + 1}
	in := bufio.NewReaderSize(limited, p.lim.Line+2)
	for {
		text, err := in.ReadSlice('\n')
		if limited.N <= 0 {
			return fmt.Errorf("%w: longer than %d bytes", ErrFile, p.lim.Bytes)
		}
		if len(text) > 0 {
			p.line++
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			if !bytes.HasPrefix(text, []byte("#")) {
				p.file.Records++
				p.fault("longer than %d bytes", p.lim.Line)
			}
			for errors.Is(err, bufio.ErrBufferFull) {
				if _, err = in.ReadSlice('\n'); limited.N <= 0 {
					return fmt.Errorf("%w: longer than %d bytes", ErrFile, p.lim.Bytes)
				}
			}
		default:
			if bad := p.read(string(bytes.TrimSpace(text))); bad != nil {
				return bad
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("registry: line %d: %w", p.line+1, err)
		}
	}
}

// fault counts a fault of the present line.
func (p *parser) fault(format string, args ...any) {
	p.faultAt(p.line, format, args...)
}

func (p *parser) faultAt(line int, format string, args ...any) {
	p.file.Faulty++
	if len(p.file.Faults) < p.lim.Faults {
		p.file.Faults = append(p.file.Faults, Fault{line, fmt.Sprintf(format, args...)})
	}
}

// most is the number of fields that count; what follows is for extensions.
const most = 8

// read takes one line.
func (p *parser) read(line string) error {
	if line == "" || line[0] == '#' {
		return nil
	}
	var fields [most]string
	n := 0
	for rest, more := line, true; more && n < most; n++ {
		fields[n], rest, more = strings.Cut(rest, "|")
		fields[n] = strings.TrimSpace(fields[n])
	}
	switch {
	case !p.headed && p.file.Records == 0 && n >= 4 && (fields[0] == "2" || strings.HasPrefix(fields[0], "2.")):
		p.header(fields)
		return nil
	case n >= 6 && fields[5] == "summary":
		p.summary(fields)
		return nil
	}
	p.file.Records++
	if p.file.Records > p.lim.Records {
		return fmt.Errorf("%w: more than %d records", ErrFile, p.lim.Records)
	}
	if reason := p.record(fields, n); reason != "" {
		p.fault("%s", reason)
	}
	if len(p.file.Entries) > MaxEntries {
		return fmt.Errorf("%w: its blocks make more than %d prefixes", ErrFile, MaxEntries)
	}
	return nil
}

// header takes the version line: version, registry, serial, records,
// startdate, enddate, offset from UTC.
func (p *parser) header(f [most]string) {
	p.headed = true
	h := &p.file.Header
	h.Version, h.Registry, h.Serial, h.End = clip(f[0]), strings.ToLower(clip(f[1])), clip(f[2]), clip(f[5])
	if !isRegistry(h.Registry) {
		p.fault("version line: %q is no registry", h.Registry)
		h.Registry = ""
	}
	n, ok := count(f[3], 1<<40)
	if !ok && f[3] != "" {
		p.fault("version line: %q is no number of records", clip(f[3]))
	}
	h.Records = int(n)
}

// summary takes a summary line: registry, *, type, *, count.
func (p *parser) summary(f [most]string) {
	n, ok := count(f[4], 1<<40)
	if !ok || f[2] != "asn" && f[2] != "ipv4" && f[2] != "ipv6" {
		p.fault("summary line: %q of %q is no number of asn, ipv4 or ipv6", clip(f[4]), clip(f[2]))
		return
	}
	p.file.Header.Summary += int(n)
}

// record takes a record: registry, cc, type, start, value, date, status and
// perhaps an opaque-id. It returns what is wrong with it.
func (p *parser) record(f [most]string, n int) string {
	if n < 7 {
		return fmt.Sprintf("%d fields, want at least 7", n)
	}
	registry := strings.ToLower(f[0])
	if !isRegistry(registry) {
		return fmt.Sprintf("%q is no registry", clip(f[0]))
	}
	country := strings.ToUpper(f[1])
	if country != "" && !isCountry(country) {
		return fmt.Sprintf("%q is no country", clip(f[1]))
	}
	free := false
	switch f[6] {
	case "allocated", "assigned":
	case "available", "reserved", "ianapool":
		free = true
	default:
		return fmt.Sprintf("%q is no status", clip(f[6]))
	}
	if f[2] == "asn" {
		if _, ok := count(f[4], 1<<32); !ok {
			return fmt.Sprintf("%q is no number of AS numbers", clip(f[4]))
		}
		p.file.ASN++
		return ""
	}
	if len(f[7]) > maxHolder-maxRegistry-1 || strings.ContainsFunc(f[7], func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Sprintf("%q is no opaque-id", clip(f[7]))
	}
	var reason string
	switch f[2] {
	case "ipv4":
		if p.blocks, reason = ipv4Blocks(p.blocks[:0], f[3], f[4]); reason == "" {
			p.file.IPv4++
		}
	case "ipv6":
		if p.blocks, reason = ipv6Block(p.blocks[:0], f[3], f[4]); reason == "" {
			p.file.IPv6++
		}
	default:
		return fmt.Sprintf("%q is no type", clip(f[2]))
	}
	if reason != "" {
		return reason
	}
	e := Entry{Registry: p.name(registry), Country: p.name(country)}
	switch {
	case registry == "iana":
		// IANA's file says by opaque-id to which registry a block went.
		if id := strings.ToLower(f[7]); isRegistry(id) {
			e.Registry = p.name(id)
		}
		e.Country = ""
	case !free && f[7] != "":
		e.Holder = p.holder(registry, f[7])
	}
	if free {
		p.file.Free++
	}
	for _, b := range p.blocks {
		e.Prefix = b
		p.file.Entries = append(p.file.Entries, e)
	}
	return ""
}

// holder returns "registry:id", the same string for the same holder.
func (p *parser) holder(registry, id string) string {
	name := registry + ":" + id
	if h, ok := p.holders[name]; ok {
		return h
	}
	p.holders[name] = name
	return name
}

// name returns the same string for the same name; what is cut out of a line
// would keep the whole line.
func (p *parser) name(s string) string {
	if n, ok := p.names[s]; ok {
		return n
	}
	s = strings.Clone(s)
	p.names[s] = s
	return s
}

// end judges the file as a whole.
func (p *parser) end() error {
	f := p.file
	if f.IPv4+f.IPv6+f.ASN == 0 {
		if f.Faulty > 0 && len(f.Faults) > 0 {
			return fmt.Errorf("%w: it has no record; %v", ErrFile, f.Faults[0])
		}
		return fmt.Errorf("%w: it has no record", ErrFile)
	}
	if !p.headed {
		p.faultAt(0, "no version line, so nobody can tell whether the file is whole")
	}
	h := f.Header
	want := max(h.Records, h.Summary)
	if float64(f.Records) < float64(want)*(1-p.lim.Missing) {
		return fmt.Errorf("%w: %d records of %d that it announces", ErrCut, f.Records, want)
	}
	if h.Records != 0 && h.Records != f.Records {
		p.faultAt(0, "%d records, and the version line says %d", f.Records, h.Records)
	}
	if h.Summary != 0 && h.Summary != f.Records {
		p.faultAt(0, "%d records, and the summary lines say %d", f.Records, h.Summary)
	}
	return nil
}

// ipv4Blocks appends the prefixes of an address and a count, which need be
// neither aligned nor a power of two.
func ipv4Blocks(to []netip.Prefix, start, value string) ([]netip.Prefix, string) {
	a, err := netip.ParseAddr(start)
	if err != nil || !a.Is4() {
		return to, fmt.Sprintf("%q is no IPv4 address", clip(start))
	}
	n, ok := count(value, 1<<32)
	if !ok {
		return to, fmt.Sprintf("%q is no number of IPv4 addresses", clip(value))
	}
	b := a.As4()
	last := uint64(b[0])<<24 + uint64(b[1])<<16 + uint64(b[2])<<8 + uint64(b[3]) + n - 1
	if last >= 1<<32 {
		return to, fmt.Sprintf("%d addresses from %s on are more than there are", n, a)
	}
	end := netip.AddrFrom4([4]byte{byte(last >> 24), byte(last >> 16), byte(last >> 8), byte(last)})
	return netipx.IPRangeFrom(a, end).AppendPrefixes(to), ""
}

// ipv6Block appends the prefix of an address and a length.
func ipv6Block(to []netip.Prefix, start, value string) ([]netip.Prefix, string) {
	a, err := netip.ParseAddr(start)
	if err != nil || !a.Is6() || a.Is4In6() || a.Zone() != "" {
		return to, fmt.Sprintf("%q is no IPv6 address", clip(start))
	}
	n, ok := count(value, 128)
	if !ok {
		return to, fmt.Sprintf("%q is no prefix length", clip(value))
	}
	p := netip.PrefixFrom(a, int(n))
	if p != p.Masked() {
		return to, fmt.Sprintf("%s has bits behind its length", p)
	}
	return append(to, p), ""
}

// count reads a number from 1 to high.
func count(s string, high uint64) (uint64, bool) {
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil && n >= 1 && n <= high
}

// isRegistry reports whether s can be the name of a registry.
func isRegistry(s string) bool {
	return s != "" && len(s) <= maxRegistry && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// clip shortens foreign text for an error, and keeps none of its line.
func clip(s string) string {
	const most = 40
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return strings.Clone(s)
}
