package tool

import (
	"errors"
	"fmt"
	"strings"

	"peerd/crawl/canon"
)

// URLOptions are the options of URL.
type URLOptions struct {
	// Raw selects the serialization of the WHATWG URL Standard instead of the canonical form of
	// the crawler.
	Raw bool
	// Parts adds the parts of the URL.
	Parts bool
}

// URL is one result. Either Href or Error is empty.
type URL struct {
	Input string `json:"input"`
	Href  string `json:"href"`
	Error string `json:"error"`
	*Parts
}

// Parts are those of the WHATWG URL Standard, section 6.1. All are empty after an error.
type Parts struct {
	Protocol string `json:"protocol"`
	Username string `json:"username"`
	Password string `json:"password"`
	Host     string `json:"host"`
	Hostname string `json:"hostname"`
	Port     string `json:"port"`
	Pathname string `json:"pathname"`
	Search   string `json:"search"`
	Hash     string `json:"hash"`
}

// CheckBase returns why a base URL cannot be parsed; nil if it can.
func CheckBase(base string) error {
	if _, err := canon.ParseWHATWG("", scalarValues(base)); err != nil {
		return errors.New(reason(err, true))
	}
	return nil
}

// URL resolves a reference against a base ("" for none).
func (o URLOptions) URL(base, ref string) URL {
	base, ref = scalarValues(base), scalarValues(ref)
	res := URL{Input: ref}
	if o.Parts {
		res.Parts = &Parts{}
	}
	p, err := o.resolve(base, ref)
	if err != nil {
		res.Error = err.Error()
		return res
	}
	res.Href = p.Href
	if o.Parts {
		res.Parts = &Parts{
			Protocol: p.Protocol, Username: p.Username, Password: p.Password, Host: p.Host,
			Hostname: p.Hostname,
			Port:     p.Port, Pathname: p.Pathname, Search: p.Search, Hash: p.Hash,
		}
	}
	return res
}

func (o URLOptions) resolve(base, ref string) (p canon.Parts, err error) {
	var from canon.Base
	if base != "" {
		if err := CheckBase(base); err != nil {
			return p, fmt.Errorf("base %.200q: %w", base, err)
		}
		from = from.Rebase(base)
	}
	if o.Raw {
		p, err = canon.ParseWHATWG(base, ref)
	} else if u, joinErr := from.Join(ref); joinErr != nil {
		err = joinErr
	} else {
		p, err = canon.ParseWHATWG("", string(canon.DefaultRules().Apply(u)))
	}
	if err != nil {
		return p, errors.New(reason(err, o.Raw))
	}
	return p, nil
}

// reason rewrites an error of canon for readers who do not know the package.
func reason(err error, raw bool) string {
	switch {
	case errors.Is(err, canon.ErrTooLong) && raw:
		return "too long, want at most 64 KiB with 1024 @"
	case errors.Is(err, canon.ErrScheme):
		return "only http and https are crawled"
	case errors.Is(err, canon.ErrCredentials):
		return "URLs with a user name or password are not crawled"
	case errors.Is(err, canon.ErrHost):
		return "the host is not a valid DNS name"
	case errors.Is(err, canon.ErrTooLong):
		return fmt.Sprintf("too long, want at most %d bytes", canon.MaxLength)
	}
	text := strings.TrimPrefix(err.Error(), "canon: ")
	if strings.Contains(text, "missing a scheme") {
		return "not a URL: it has no scheme such as https:, and no base to resolve it against"
	}
	return text
}
