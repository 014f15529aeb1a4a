package deny

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/renameio/v2"

	"peerd/internal/bounded"
	"peerd/store"
)

// ErrDenied means that the operator of this peer denies a host or an address. Nothing was sent.
var ErrDenied = errors.New("the deny list of this peer")

// maxFile is the maximum size of a file of rules. Bytes.
const maxFile = 16 << 20

// List is the list in a file with a rule in each line, and what web sites have asked for. Empty
// lines and those that begin with # are ignored; a missing file has no rules. It is safe for
// concurrent use.
type List struct {
	// OptOuts are those of web sites; nil: none. They are set before the list is used.
	OptOuts *OptOuts

	file string // "": none
	log  *slog.Logger

	mu     sync.Mutex
	read   fileID // the file as it was read
	failed bool   // it could not be read, which was logged
	rules  ruleSet
}

// fileID tells versions of a file apart.
type fileID struct {
	changed time.Time
	size    int64
}

// ruleSet answers questions about rules.
type ruleSet struct {
	hosts    map[string]Rule
	networks []netip.Prefix
}

// Open returns the list in a file, which may be created later; "" is no file. An error names the
// first line that is no rule.
func Open(file string, log *slog.Logger) (*List, error) {
	l := &List{file: file, log: log}
	id, err := stat(file)
	if err != nil {
		return nil, err
	}
	rules, err := Read(file)
	if err != nil {
		return nil, err
	}
	l.read, l.rules = id, index(rules)
	return l, nil
}

// Check returns nil if a URL may be requested at an address, and otherwise an error that matches
// ErrDenied. A URL of "" and an invalid address are not checked. A nil list denies nothing. If the
// file has changed, it is read again first.
// If it then has a line that is no rule, the rules that were read last remain, and the fault is
// logged.
func (l *List) Check(u store.URL, addr netip.Addr) error {
	if l == nil {
		return nil
	}
	addr = addr.Unmap().WithZone("")
	if err := l.checkRules(u.Host(), addr); err != nil {
		return err
	}
	return l.OptOuts.Check(u, addr)
}

func (l *List) checkRules(host string, addr netip.Addr) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refresh()
	return l.rules.check(host, addr)
}

// refresh reads the file again if it has changed. One that cannot be read just now, as while too
// many files are open, is read by a later call. The caller holds l.mu.
func (l *List) refresh() {
	id, err := stat(l.file)
	if err == nil && id == l.read {
		return
	}
	var rules []Rule
	if err == nil {
		rules, err = Read(l.file)
	}
	if unread := (*fs.PathError)(nil); err != nil {
		later := errors.As(err, &unread)
		if !later || !l.failed {
			l.log.Error("failed to read deny list: the rules read before remain", "err", err)
		}
		if l.failed = later; !later { // the fault is in what was read
			l.read = id
		}
		return
	}
	l.failed = false
	l.log.Info("read deny list", "rules", len(rules))
	l.read, l.rules = id, index(rules)
}

func stat(file string) (fileID, error) {
	if file == "" {
		return fileID{}, nil
	}
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return fileID{}, nil
	}
	if err != nil {
		return fileID{}, err
	}
	return fileID{info.ModTime(), info.Size()}, nil
}

// Read returns the rules of a file in its order. The error names the file and the line.
func Read(file string) ([]Rule, error) {
	text, err := bounded.ReadFile(file, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var rules []Rule
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		r, err := Parse(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, n, err)
		}
		rules = append(rules, r)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return rules, nil
}

func index(rules []Rule) ruleSet {
	s := ruleSet{hosts: map[string]Rule{}}
	for _, r := range rules {
		if r.host == "" {
			s.networks = append(s.networks, r.network)
		} else if old, ok := s.hosts[r.host]; !ok || !old.domain {
			s.hosts[r.host] = r
		}
	}
	return s
}

func (s ruleSet) check(host string, addr netip.Addr) error {
	for name, below := host, false; name != ""; below = true {
		if r, ok := s.hosts[name]; ok && (r.domain || !below) {
			return fmt.Errorf("%w has %v", ErrDenied, r)
		}
		_, name, _ = strings.Cut(name, ".")
	}
	for _, p := range s.networks {
		if p.Contains(addr) {
			return fmt.Errorf("%w has %v", ErrDenied, Rule{network: p})
		}
	}
	return nil
}

// Add adds rules to a file, which is created if it is missing, and returns how many are new.
func Add(file string, rules ...Rule) (added int, err error) {
	old, err := Read(file)
	if err != nil {
		return 0, err
	}
	return added, edit(file, func(lines []string) []string {
		for _, r := range rules {
			if !slices.Contains(old, r) {
				old, lines = append(old, r), append(lines, r.String())
				added++
			}
		}
		return lines
	})
}

// Remove removes rules from a file, and returns how many it had.
func Remove(file string, rules ...Rule) (removed int, err error) {
	if _, err := Read(file); err != nil {
		return 0, err
	}
	return removed, edit(file, func(lines []string) []string {
		return slices.DeleteFunc(lines, func(line string) bool {
			r, err := Parse(strings.TrimSpace(line))
			if err != nil || !slices.Contains(rules, r) { // a comment or another rule
				return false
			}
			removed++
			return true
		})
	})
}

// edit replaces the lines of a file. A process that reads it sees the old lines or the new ones.
func edit(file string, change func(lines []string) []string) error {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	if len(text) == 0 {
		lines = nil
	}
	lines = change(lines)
	out := strings.Join(lines, "\n")
	if out != "" {
		out += "\n"
	}
	return renameio.WriteFile(file, []byte(out), 0o600)
}
