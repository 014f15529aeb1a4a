package ping

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	"peerd/crawl/canon"
)

// ErrForm means that bytes are not a ping.
var ErrForm = errors.New("not a ping")

const (
	// MaxPages is the maximum number of pages in a ping, a tenth of what IndexNow allows.
	MaxPages = 1000
	// MaxBody is the maximum size of a ping in bytes.
	MaxBody = 1 << 20
)

// FromQuery returns the page of a ping in the query of a GET request. Errors wrap ErrForm, ErrKey
// or ErrURL.
func FromQuery(q url.Values) ([]Notice, error) {
	if q.Get("url") == "" || q.Get("key") == "" {
		return nil, fmt.Errorf("%w: it needs url and key", ErrForm)
	}
	n, err := New(q.Get("url"), q.Get("key"), q.Get("keyLocation"))
	if err != nil {
		return nil, err
	}
	return []Notice{n}, nil
}

// FromJSON returns the pages of a ping in the body of a POST request, all of one host. It takes all
// or none. Errors wrap ErrForm, ErrKey or ErrURL.
func FromJSON(body []byte) ([]Notice, error) {
	var m struct {
		Host        string   `json:"host"`
		Key         string   `json:"key"`
		KeyLocation string   `json:"keyLocation"`
		URLs        []string `json:"urlList"`
	}
	if len(body) > MaxBody {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrForm, MaxBody)
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrForm, err)
	}
	host, err := canon.Parse("http://" + m.Host + "/")
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: host %.100q: %w", ErrForm, m.Host, err)
	case len(m.URLs) == 0 || len(m.URLs) > MaxPages:
		return nil, fmt.Errorf("%w: it has %d URLs, of 1 to %d", ErrForm, len(m.URLs), MaxPages)
	}
	all := make([]Notice, 0, len(m.URLs))
	for _, u := range m.URLs {
		n, err := New(u, m.Key, m.KeyLocation)
		if err != nil {
			return nil, err
		}
		if n.Page.Host() != host.Host() {
			return nil, fmt.Errorf("%w: %s is not of host %s", ErrURL, n.Page, host.Host())
		}
		all = append(all, n)
	}
	return all, nil
}
