package coords

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// ErrTooFew is returned when too few peers downloaded from a server to place it. More
// samples help.
var ErrTooFew = errors.New("coords: too few peers measured the server")

// Proxy is the coordinate of a web server, with the parameters that predict the time of
// one of its pages for any peer on a warm connection:
//
//	time = Delay + Scale·distance + PerKB·kB
type Proxy struct {
	// At is the server's coordinate ([4]); At.Error is the median relative error of the
	// distances to peers that were left out of the fit in turn.
	At Coordinate `cbor:"1,keyasint" json:"at"`
	// Delay is the server's own delay, in ms.
	Delay float64 `cbor:"2,keyasint" json:"delay"`
	// Scale is the number of round trips per page. >= 1.
	Scale float64 `cbor:"3,keyasint" json:"scale"`
	// PerKB is the time per kB (1,000 bytes), in ms.
	PerKB float64 `cbor:"4,keyasint" json:"per_kb"`
	// Error is the same for predicted times. In [0, 1].
	Error float64 `cbor:"5,keyasint" json:"error"`
	// Samples is the number of successful downloads that were used.
	Samples int `cbor:"6,keyasint" json:"samples"`
}

// Validate reports whether a Proxy that was received from another peer may be used. The
// errors wrap ErrDimension or ErrBounds.
func (p Proxy) Validate(dims int) error {
	if err := p.At.Validate(dims); err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	for _, x := range []float64{p.Delay, p.Scale, p.PerKB} {
		if !(x >= 0 && x <= millis(sampleTimeMax)) {
			return fmt.Errorf("%w: proxy term is %v", ErrBounds, x)
		}
	}
	if !(p.Error >= 0 && p.Error <= 1) || p.Samples < 0 {
		return fmt.Errorf("%w: proxy error is %v of %d samples", ErrBounds, p.Error, p.Samples)
	}
	return nil
}

// Predict returns the expected time of a page of the given size for a peer at the given
// coordinate (without load) on a warm connection. It does not include the peer's waiting
// time.
func (p Proxy) Predict(peer Coordinate, bytes int64) time.Duration {
	kb := float64(max(0, bytes)) / 1000
	return duration(p.Delay + p.Scale*p.At.Distance(peer) + p.PerKB*kb)
}

const (
	// PlacedBy is the number of different peers that must have downloaded from a server to
	// place it.
	PlacedBy = 3
	// placeError is the least relative error of a peer's coordinate that is believed.
	placeError = 0.1
	// fitLeaveOutMax bounds the number of refits for Proxy.Error.
	fitLeaveOutMax = 16
)

// Locate places a server by all of its samples. The distance comes from handshakes, each
// of which is a bare round trip. First bytes are used only for peers without a
// handshake, so that variations of the server's delay do not move it. The fit is robust
// against single wrong samples.
//
// The errors wrap ErrTooFew, or those of Sample.Validate.
func Locate(samples []Sample) (Proxy, error) {
	for _, s := range samples {
		if err := s.Validate(len(samples[0].At.Vec)); err != nil {
			return Proxy{}, err
		}
	}
	return DigestOf(samples, Population{}).Locate()
}

// Locate is like the function Locate for callers that already have the Digest. Its only
// errors are ErrTooFew and ErrDimension.
func (d Digest) Locate() (Proxy, error) {
	return d.LocateBy(func(string) bool { return true })
}

// LocateBy is like Locate, by the places of only those peers for which use returns true.
func (d Digest) LocateBy(use func(peer string) bool) (Proxy, error) {
	anchors, times := d.anchors(use)
	if len(anchors) < PlacedBy {
		return Proxy{}, fmt.Errorf("%w: %d, want %d", ErrTooFew, len(anchors), PlacedBy)
	}
	if len(anchors[0].at.Vec) == 0 {
		return Proxy{}, fmt.Errorf("%w: no components", ErrDimension)
	}
	fit := newPlacement(anchors, shortTrip)
	best := fit.solve(fit.startPoints())
	p := d.proxyAt(best)
	p.At.Error, p.Error = d.leftOut(anchors, times, best)
	return p, nil
}

// anchors returns the peers with a round trip for which use returns true, and what a page takes
// there without what the peers add.
func (d Digest) anchors(use func(peer string) bool) (anchors []anchor, times []float64) {
	for _, m := range d.Peers {
		if m.OK == 0 || !use(m.Peer) {
			continue
		}
		a := anchorAt(m.At, m.RTT)
		if !m.Direct {
			a.sigma = math.Hypot(a.sigma, 0.5)
		}
		anchors = append(anchors, a)
		times = append(times, d.Time(m).Mean-m.Traits.time(d.MeanKB).Mean)
	}
	return anchors, times
}

// placeErrorOf returns the relative error of the place of a peer that is believed.
func placeErrorOf(at Coordinate) float64 { return clamp(at.Error, placeError, 1) }

// proxyAt returns the Proxy for a solution of the fit, with the server's parameters from
// d.
func (d Digest) proxyAt(x []float64) Proxy {
	dims := len(x) - 1
	most := millis(sampleTimeMax) // the bound in Proxy.Validate
	return Proxy{
		At:      Coordinate{Vec: x[:dims:dims], Height: min(x[dims], MaxComponent)},
		Delay:   min(d.Delay, most),
		Scale:   min(1+d.BodyTrips, most),
		PerKB:   min(d.PerKB, most),
		Samples: d.OK,
	}
}

// leftOut refits without each peer in turn and returns the median relative errors of the distance
// and of the predicted time of the peers left out.
func (d Digest) leftOut(
	anchors []anchor, times []float64, full []float64,
) (distance, time float64) {
	stride := (len(anchors) + fitLeaveOutMax - 1) / fitLeaveOutMax
	var distances, errs []float64
	for i := 0; i < len(anchors); i += stride {
		rest := slices.Delete(slices.Clone(anchors), i, i+1)
		fit := newPlacement(rest, shortTrip)
		start := append(slices.Clone(fit.centre), 1)
		p := d.proxyAt(fit.solve([][]float64{full, start}))
		far := p.At.Distance(anchors[i].at)
		predicted := p.Delay + p.Scale*far + p.PerKB*d.MeanKB
		distances = append(distances, math.Abs(far-anchors[i].rtt)/(anchors[i].rtt+shortTrip))
		errs = append(errs, math.Abs(predicted-times[i])/(times[i]+shortTrip))
	}
	slices.Sort(distances)
	slices.Sort(errs)
	middle := len(errs) / 2
	return clamp(distances[middle], 0.01, 1), clamp(errs[middle], 0.01, 1)
}
