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
	// ErrFile is returned for input that is not a usable delegated file.
	ErrFile = errors.New("registry: not a usable delegated file")
	// ErrTruncated is returned when records are missing that the file announces. It wraps
	// ErrFile.
	ErrTruncated = fmt.Errorf("%w: it is truncated", ErrFile)
)

// Limits bound what Parse reads.
type Limits struct {
	// Bytes is the maximum size of a file. > 0.
	Bytes int64
	// Line is the maximum length of a line in bytes. A longer one is a fault. >= 80.
	Line int
	// Records is the maximum number of records. > 0.
	Records int
	// Faults is the maximum number of faults that are stored with their reasons. >= 0.
	Faults int
	// Missing is the share of the announced records that may be missing. In [0, 1].
	Missing float64
}

// DefaultLimits returns limits well above the file of all registries (55 MB, 770,000
// records).
func DefaultLimits() Limits {
	return Limits{Bytes: 512 << 20, Line: 4096, Records: 4 << 20, Faults: 20, Missing: 0.05}
}

// Validate returns an error that names the field that is out of range.
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

// Header holds the version line of a file and the sum of its summary lines.
type Header struct {
	// Version is "2" or "2.3". Registry is the author ("nro" for the combined file). Serial
	// is a date or a time in the registry's own format.
	Version, Registry, Serial string
	// End is the last day that the file covers, as YYYYMMDD. May be empty.
	End string
	// Records is the number of records announced by the version line.
	Records int
	// Summary is the total number of records announced by the summary lines.
	Summary int
}

// Fault is a line that could not be used.
type Fault struct {
	// Line is its number, from 1. 0: the fault concerns the whole file.
	Line   int
	Reason string
}

// String returns "line 7: …".
func (f Fault) String() string {
	if f.Line == 0 {
		return f.Reason
	}
	return fmt.Sprintf("line %d: %s", f.Line, f.Reason)
}

// File is the contents of a delegated file.
type File struct {
	Header Header
	// Entries are the blocks of addresses in the order of the file. A record with a count
	// that is no CIDR block gives several.
	Entries []Entry
	// Records is the number of lines with a record, including malformed ones; IPv4, IPv6 and
	// ASN are the numbers of valid records by type. AS numbers give no entry.
	Records, IPv4, IPv6, ASN int
	// Free is the number of IP records without a holder: available or reserved.
	Free int
	// Faulty is the number of faults, Faults the first of them.
	Faulty int
	Faults []Fault
}

// Parse reads a delegated or delegated-extended file of one registry, or NRO's combined
// one. Malformed lines are counted, and the first of them are stored in File.Faults. The
// errors wrap ErrFile when there is no record or a limit is exceeded, and ErrTruncated
// when too many announced records are missing; other errors are the reader's. With an
// error the File holds what was read before.
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

// parser is the state of Parse.
type parser struct {
	lim       Limits
	file      *File
	line      int
	hasHeader bool
	// holders and names store one string per name: "registry|id" to "registry:id", and
	// registries and countries.
	holders, names map[string]string
	blocks         []netip.Prefix
}

// lines reads line by line and skips lines that are too long.
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

// fault records a fault of the current line.
func (p *parser) fault(format string, args ...any) {
	p.faultAt(p.line, format, args...)
}

func (p *parser) faultAt(line int, format string, args ...any) {
	p.file.Faulty++
	if len(p.file.Faults) < p.lim.Faults {
		p.file.Faults = append(p.file.Faults, Fault{line, fmt.Sprintf(format, args...)})
	}
}

// maxFields is the number of fields used; further ones are extensions.
const maxFields = 8

// read processes one line.
func (p *parser) read(line string) error {
	if line == "" || line[0] == '#' {
		return nil
	}
	var fields [maxFields]string
	n := 0
	for rest, more := line, true; more && n < maxFields; n++ {
		fields[n], rest, more = strings.Cut(rest, "|")
		fields[n] = strings.TrimSpace(fields[n])
	}
	switch {
	case !p.hasHeader && p.file.Records == 0 && n >= 4 &&
		(fields[0] == "2" || strings.HasPrefix(fields[0], "2.")):
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

// header processes the version line: version, registry, serial, records, startdate,
// enddate, offset from UTC.
func (p *parser) header(f [maxFields]string) {
	p.hasHeader = true
	h := &p.file.Header
	h.Version, h.Registry, h.Serial, h.End = clip(f[0]), strings.ToLower(clip(f[1])), clip(f[2]),
		clip(f[5])
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

// summary processes a summary line: registry, *, type, *, count.
func (p *parser) summary(f [maxFields]string) {
	n, ok := count(f[4], 1<<40)
	if !ok || f[2] != "asn" && f[2] != "ipv4" && f[2] != "ipv6" {
		p.fault("summary line: %q of %q is no number of asn, ipv4 or ipv6", clip(f[4]), clip(f[2]))
		return
	}
	p.file.Header.Summary += int(n)
}

// record processes a record: registry, cc, type, start, value, date, status and
// optionally an opaque-id. It returns the reason if the record is invalid.
func (p *parser) record(f [maxFields]string, n int) string {
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
	if !isOpaqueID(f[7]) {
		return fmt.Sprintf("%q is no opaque-id", clip(f[7]))
	}
	if reason := p.addressBlocks(f); reason != "" {
		return reason
	}
	p.addEntries(f, registry, country, free)
	return ""
}

// isOpaqueID reports whether s can be an opaque-id.
func isOpaqueID(s string) bool {
	return len(s) <= maxHolder-maxRegistry-1 && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r > '~'
	})
}

// addressBlocks sets p.blocks to the prefixes of an IP record and counts it. It returns the
// reason if the addresses are invalid.
func (p *parser) addressBlocks(f [maxFields]string) (reason string) {
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
	return reason
}

// addEntries appends an entry for each of p.blocks.
func (p *parser) addEntries(f [maxFields]string, registry, country string, free bool) {
	e := Entry{Registry: p.name(registry), Country: p.name(country)}
	switch {
	case registry == "iana":
		// In IANA's file the opaque-id is the registry that received a block.
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

// name returns the same string for the same name; a part of a line would keep the whole
// line in memory.
func (p *parser) name(s string) string {
	if n, ok := p.names[s]; ok {
		return n
	}
	s = strings.Clone(s)
	p.names[s] = s
	return s
}

// end checks the file as a whole.
func (p *parser) end() error {
	f := p.file
	if f.IPv4+f.IPv6+f.ASN == 0 {
		if f.Faulty > 0 && len(f.Faults) > 0 {
			return fmt.Errorf("%w: it has no record; %v", ErrFile, f.Faults[0])
		}
		return fmt.Errorf("%w: it has no record", ErrFile)
	}
	if !p.hasHeader {
		p.faultAt(0, "no version line, so it is not known whether the file is complete")
	}
	h := f.Header
	want := max(h.Records, h.Summary)
	if float64(f.Records) < float64(want)*(1-p.lim.Missing) {
		return fmt.Errorf("%w: %d records of %d that it announces", ErrTruncated, f.Records, want)
	}
	if h.Records != 0 && h.Records != f.Records {
		p.faultAt(0, "%d records, and the version line says %d", f.Records, h.Records)
	}
	if h.Summary != 0 && h.Summary != f.Records {
		p.faultAt(0, "%d records, and the summary lines say %d", f.Records, h.Summary)
	}
	return nil
}

// ipv4Blocks appends the prefixes for an address and a count, which may be unaligned and
// not a power of two.
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

// ipv6Block appends the prefix for an address and a length.
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

// count parses a number from 1 to high.
func count(s string, high uint64) (uint64, bool) {
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil && n >= 1 && n <= high
}

// isRegistry reports whether s is a valid name of a registry.
func isRegistry(s string) bool {
	return s != "" && len(s) <= maxRegistry &&
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// clip shortens text from the file for an error and copies it, so that its line is not
// kept in memory.
func clip(s string) string {
	const most = 40
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return strings.Clone(s)
}
