package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// ErrInvalid is matched by every error about an invalid setting in a file or on the command
// line.
var ErrInvalid = errors.New("config: invalid setting")

// invalid marks an error as ErrInvalid without changing its text.
type invalid struct{ error }

func (i invalid) Is(target error) bool { return target == ErrInvalid }
func (i invalid) Unwrap() error        { return i.error }

// asInvalid marks err as ErrInvalid; nil stays nil.
func asInvalid(err error) error {
	if err == nil {
		return nil
	}
	return invalid{err}
}

// Duration is a time.Duration that is written as text, such as "1.5s".
type Duration struct{ time.Duration }

// UnmarshalText parses s with time.ParseDuration.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a duration, want one such as \"1s\" or \"500ms\"",
			clip(string(text)))
	}
	d.Duration = v
	return nil
}

// MarshalText is the inverse of UnmarshalText.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// faults collects all faults, so that they are reported together.
type faults []error

func (f *faults) addf(format string, args ...any) {
	*f = append(*f, fmt.Errorf(format, args...))
}

// between records a fault unless low <= v <= high.
func between[T int | int64 | float64 | time.Duration](f *faults, key string, v, low, high T) {
	if v < low || v > high || v != v { // v != v: NaN
		f.addf("%s is %v, want %v to %v", key, v, low, high)
	}
}

// value records err, unless it is nil, as the fault of a value of a key.
func (f *faults) value(key, v string, err error) {
	if err != nil {
		f.addf("%s: %q: %w", key, clip(v), err)
	}
}

func (f faults) err() error { return asInvalid(errors.Join(f...)) }

// ParseResolve parses HOST=IP, an address of a host. Its errors match ErrInvalid.
func ParseResolve(s string) (host string, addr netip.Addr, err error) {
	host, text, ok := strings.Cut(s, "=")
	if !ok {
		return "", netip.Addr{}, asInvalid(fmt.Errorf("%q is not HOST=IP", clip(s)))
	}
	host = strings.ToLower(host)
	if !isHost(host) {
		return "", netip.Addr{}, asInvalid(fmt.Errorf("%q is not a host name", clip(host)))
	}
	addr, err = netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" {
		return "", netip.Addr{}, asInvalid(fmt.Errorf("%q is not an IP address", clip(text)))
	}
	return host, addr, nil
}

// ParseNets parses address ranges in CIDR notation and clears the bits behind the masks. Its errors
// match ErrInvalid.
func ParseNets(list []string) (nets []netip.Prefix, err error) {
	for _, s := range list {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, asInvalid(fmt.Errorf(
				"%q is not an address range, want one such as 192.168.0.0/16", clip(s)))
		}
		nets = append(nets, p.Masked())
	}
	return nets, nil
}

// isHost reports whether s is an IP address or a lower-case ASCII host name without port and
// trailing dot. It allows underscores, which occur in DNS.
func isHost(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	if _, err := netip.ParseAddr(s); err == nil {
		return true
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 ||
			strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return true
}

// CheckURL returns why s cannot be crawled: it must be an absolute http or https URL without
// credentials. Its errors match ErrInvalid. Canonicalization may still reject a URL that passes.
func CheckURL(s string) error {
	if _, err := webURL(s); err != nil {
		return asInvalid(fmt.Errorf("%q: %w", clip(s), err))
	}
	return nil
}

// CheckHostPort returns why s is not an address to listen on, which is an IP address or
// localhost, and a port. Its errors match ErrInvalid.
func CheckHostPort(s string) error {
	if err := checkHostPort(s); err != nil {
		return asInvalid(fmt.Errorf("%q: %w", clip(s), err))
	}
	return nil
}

// webURL parses an absolute http or https URL with a host and without credentials.
func webURL(s string) (*url.URL, error) {
	if len(s) > 2048 {
		return nil, errors.New("longer than 2048 bytes")
	}
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, errors.New("not a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("must start with http:// or https://")
	case u.Hostname() == "":
		return nil, errors.New("has no host")
	case u.User != nil:
		return nil, errors.New("credentials are not allowed")
	}
	return u, nil
}

// checkHostPort is CheckHostPort without s in the error.
func checkHostPort(s string) error {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return errors.New("want HOST:PORT, such as 127.0.0.1:0")
	}
	if _, err := netip.ParseAddr(host); err != nil && host != "localhost" {
		return errors.New("the host must be an IP address or localhost")
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return errors.New("the port must be 0 to 65535")
	}
	return nil
}

// clip shortens s for an error.
func clip(s string) string {
	const most = 100
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
