package testnet

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"peerd/internal/order"
)

const (
	controlPort = 8082 // of the first site, at the address of the name server
	maxOrder    = 64 << 10
	maxDivisor  = 1e6
	maxDelay    = time.Minute
)

func controlAddr(network netip.Prefix) netip.AddrPort {
	return netip.AddrPortFrom(namesAddr(network), controlPort)
}

// An Order changes the distances of some containers.
type Order struct {
	Verb   string        `json:"verb"` // slow, load, cut, heal or restart
	Places []netip.Addr  `json:"places"`
	By     float64       `json:"by,omitempty"`    // the divisor of slow
	Delay  time.Duration `json:"delay,omitempty"` // of load
}

// controlState is what the first site answers.
type controlState struct {
	Distances
	Changes map[netip.Addr]Change `json:"changes"`
}

// control keeps the changes of the distances, in the process of the first site.
type control struct {
	mu    sync.Mutex
	state controlState
}

func newControl(d Distances) *control {
	return &control{state: controlState{Distances: d, Changes: map[netip.Addr]Change{}}}
}

// serveControl serves the changes of the distances, and takes orders, until ctx ends.
func serveControl(ctx context.Context, d Distances, at netip.AddrPort) error {
	ln, err := net.Listen("tcp", at.String())
	if err != nil {
		return fmt.Errorf("site: control: %w", err)
	}
	return newControl(d).serve(ctx, ln)
}

func (c *control) serve(ctx context.Context, ln net.Listener) error {
	server := &http.Server{Handler: c, ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout: 30 * time.Second}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("site: control: %w", err)
	}
	return nil
}

func (c *control) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		var o Order
		err := json.NewDecoder(io.LimitReader(r.Body, maxOrder)).Decode(&o)
		if err == nil {
			err = c.apply(o)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	body, err := json.Marshal(c.state)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // the client may have disconnected
}

// apply changes the state, or leaves it as it is and returns an error.
func (c *control) apply(o Order) error {
	if err := o.check(c.state.Distances); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if o.Verb == "heal" && len(o.Places) == 0 {
		o.Places = slices.Collect(maps.Keys(c.state.Changes))
	}
	part := 0
	for _, change := range c.state.Changes {
		part = max(part, change.Part)
	}
	for _, a := range o.Places {
		change := c.state.Changes[a]
		switch o.Verb {
		case "slow":
			change.Divisor = o.By
		case "load":
			change.Delay = o.Delay
		case "cut":
			change.Part = part + 1
		case "heal":
			change = Change{Restarts: change.Restarts}
		case "restart":
			change.Restarts++
		}
		c.state.Changes[a] = change
	}
	return nil
}

// check returns what is wrong with an order.
func (o Order) check(d Distances) error {
	switch o.Verb {
	case "slow":
		if !(o.By >= 1 && o.By <= maxDivisor) {
			return fmt.Errorf("slow by %v: want 1 to %v", o.By, maxDivisor)
		}
	case "load":
		if o.Delay < 0 || o.Delay > maxDelay {
			return fmt.Errorf("load by %v: want 0 to %v", o.Delay, maxDelay)
		}
	case "cut", "heal", "restart":
	default:
		return fmt.Errorf("%q is none of slow, load, cut, heal, restart", o.Verb)
	}
	if len(o.Places) == 0 && o.Verb != "heal" {
		return fmt.Errorf("%s: no container is named", o.Verb)
	}
	for _, a := range o.Places {
		place, ok := d.place(a)
		if !ok {
			return fmt.Errorf("%s: %s is no address of a peer or a site", o.Verb, a)
		}
		if o.Verb == "restart" && place >= maxEnginePeers {
			return fmt.Errorf("restart: %s is a site; only peers can be restarted", a)
		}
	}
	return nil
}

// send has the first site apply an order.
func send(ctx context.Context, at netip.AddrPort, o Order) error {
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return exchange(ctx, http.MethodPost, at, "/", bytes.NewReader(body), nil)
}

// A Container is a peer or a site that runs in the testnet of this container.
type Container struct {
	Name string // peer-3 or site-7
	Addr netip.Addr
	City string // "" without distances
	Change
}

// Control changes the distances of a testnet of containers.
type Control struct {
	Containers []Container
	state      controlState
}

// NewControl finds the containers of the testnet to which this one belongs.
func NewControl(ctx context.Context) (*Control, error) {
	c := &Control{}
	for _, service := range []string{peerService, siteService} {
		addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip4", service)
		if err != nil {
			return nil, fmt.Errorf("testnet: find the containers: %w", err)
		}
		for _, a := range addrs {
			n, err := replicaAt(ctx, a.Unmap())
			if err != nil {
				return nil, fmt.Errorf("testnet: %w", err)
			}
			at := a.Unmap()
			if service == siteService {
				at = siteAddr(netip.PrefixFrom(at, 16).Masked(), n-1)
			}
			c.Containers = append(c.Containers,
				Container{Name: fmt.Sprintf("%s-%d", service, n), Addr: at})
		}
	}
	network := netip.PrefixFrom(c.Containers[0].Addr, 16).Masked()
	if err := get(ctx, controlAddr(network), "/", &c.state); err != nil {
		return nil, fmt.Errorf("%w (are there distances in this testnet?)", err)
	}
	world := c.state.plan().World
	for i, at := range c.Containers {
		if place, ok := c.state.place(at.Addr); ok {
			c.Containers[i].City = world.Name(place)
		}
		c.Containers[i].Change = c.state.Changes[at.Addr]
	}
	order.SortFunc(c.Containers, func(a, b Container) int { return compareNames(a.Name, b.Name) })
	return c, nil
}

// compareNames orders peer-2 before peer-10, and peers before sites.
func compareNames(a, b string) int {
	return cmp.Or(cmp.Compare(a[:4], b[:4]), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// Order gives an order for the containers with names such as peer-3, or addresses. It takes effect
// within followEvery, and also at peers that start later.
func (c *Control) Order(ctx context.Context, o Order, names []string) error {
	for _, name := range names {
		if a, err := netip.ParseAddr(name); err == nil {
			o.Places = append(o.Places, a)
			continue
		}
		i := slices.IndexFunc(c.Containers, func(at Container) bool { return at.Name == name })
		if i < 0 {
			return fmt.Errorf("testnet: no container %q runs; want a name such as %s, or an "+
				"address", name, c.Containers[0].Name)
		}
		o.Places = append(o.Places, c.Containers[i].Addr)
	}
	return send(ctx, controlAddr(c.state.Net), o)
}
