package resolve

import (
	"bytes"
	"io"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

const (
	hostsPath      = "/etc/hosts"
	resolvConfPath = "/etc/resolv.conf"
	// lookEvery is how often a file is checked for changes, and maxFile how much of it is read.
	lookEvery = time.Second
	maxFile   = 16 << 20
	// hostsTTL is the lifetime of an address from the hosts file.
	hostsTTL = time.Minute
	// maxSearch and maxServers bound what is used of resolv.conf.
	maxSearch  = 6
	maxServers = 8
)

// content is the content of a file.
type content[T any] interface {
	// parse returns the new content, of which the receiver is the previous one.
	parse(text []byte) T
}

// watched is the content of a file. It is read again when the file has changed.
type watched[T content[T]] struct {
	path string

	mu      sync.Mutex
	checked time.Time
	mod     time.Time
	size    int64
	value   T
}

// watch reads a file. A missing or unreadable file counts as empty.
func watch[T content[T]](path string) *watched[T] {
	w := &watched[T]{path: path, checked: time.Now()}
	w.read()
	return w
}

// get returns the current content. The caller must not change it.
func (w *watched[T]) get() T {
	now := time.Now()
	w.mu.Lock()
	value, due := w.value, now.Sub(w.checked) >= lookEvery
	if due {
		w.checked = now
	}
	mod, size := w.mod, w.size
	w.mu.Unlock()
	if !due {
		return value
	}
	info, err := os.Stat(w.path)
	if err != nil || info.ModTime().Equal(mod) && info.Size() == size {
		return value // a file that is missing for a moment is about to be replaced
	}
	return w.read()
}

// read reads the file.
func (w *watched[T]) read() T {
	var mod time.Time
	var size int64
	var text []byte
	if f, err := os.Open(w.path); err == nil {
		if info, err := f.Stat(); err == nil {
			mod, size = info.ModTime(), info.Size()
		}
		text, _ = io.ReadAll(io.LimitReader(f, maxFile)) // what was read before an error counts
		_ = f.Close()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mod, w.size = mod, size
	w.value = w.value.parse(text)
	return w.value
}

// hostTable maps names in lower case without a trailing dot to addresses.
type hostTable map[string][]netip.Addr

// parse parses a hosts file (hosts(5)): lines with an address and its names.
func (hostTable) parse(text []byte) hostTable {
	table := hostTable{}
	for line := range bytes.Lines(text) {
		line, _, _ = bytes.Cut(line, []byte("#"))
		fields := strings.Fields(string(line))
		if len(fields) < 2 {
			continue
		}
		addr, err := netip.ParseAddr(fields[0])
		if err != nil {
			continue
		}
		for _, name := range fields[1:] {
			name = normalHost(name)
			table[name] = normalAddrs(append(table[name], addr))
		}
	}
	return table
}

// resolvConf is what is used of resolv.conf(5).
type resolvConf struct {
	servers []Server
	search  []string // without dots at the ends
}

// parse parses a resolv.conf. Options are ignored. Without a name server, the old
// content remains, because the file may be about to be written; if there is none, the name server
// is that of this machine.
func (old resolvConf) parse(text []byte) resolvConf {
	conf, err := dns.ClientConfigFromReader(bytes.NewReader(text))
	if err != nil || len(conf.Servers) == 0 {
		if len(old.servers) > 0 {
			return old
		}
		return resolvConf{servers: []Server{{Scheme: SchemeDNS, Address: "127.0.0.1:53"}}}
	}
	var c resolvConf
	for _, s := range conf.Servers[:min(len(conf.Servers), maxServers)] {
		if server, err := ParseServer(s); err == nil && server.Scheme == SchemeDNS {
			c.servers = append(c.servers, server)
		}
	}
	for _, s := range conf.Search[:min(len(conf.Search), maxSearch)] {
		if s = normalHost(strings.TrimPrefix(s, ".")); isValidName(s) {
			c.search = append(c.search, s)
		}
	}
	if len(c.servers) == 0 {
		return old.parse(nil)
	}
	return c
}
