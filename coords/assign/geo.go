package assign

import (
	"errors"
	"math"
	"net/netip"
)

var _ Strategy = (*GeoStrategy)(nil)

// Locator returns the position of an address on Earth in degrees; ok is false if it is
// not known. It must not block and must be safe for concurrent use.
type Locator func(netip.Addr) (lat, lon float64, ok bool)

// GeoStrategy gives a subnet to the geographically nearest candidate (Malet 2009, 3.3.1;
// Exposto and others 2005). It never probes. Candidates without a position are chosen
// only if none has one, those at one place share subnets by hashing, and a subnet without a
// position stays where it is.
type GeoStrategy struct {
	locate Locator
}

// NewGeo returns a GeoStrategy.
func NewGeo(locate Locator) (*GeoStrategy, error) {
	if locate == nil {
		return nil, errors.New("assign: geo needs a Locator")
	}
	return &GeoStrategy{locate: locate}, nil
}

// Name returns "geo".
func (s *GeoStrategy) Name() string { return "geo" }

// Next chooses at once.
func (s *GeoStrategy) Next(e Evidence) (Step, error) {
	open, err := e.openCandidates()
	if err != nil {
		return Step{}, err
	}
	far := make(map[string]float64, len(open))
	least := math.Inf(1)
	if lat, lon, ok := s.place(e.Subnet.Addr()); ok {
		for _, c := range open {
			if clat, clon, ok := s.place(c.Addr); ok {
				far[c.ID] = greatCircle(lat, lon, clat, clon)
				least = min(least, far[c.ID])
			}
		}
	}
	var near []string
	for _, c := range open {
		if km, ok := far[c.ID]; ok && km == least {
			near = append(near, c.ID)
		}
	}
	switch {
	case len(near) > 0:
		return Step{Choice: e.byScore(near)}, nil
	case !e.Exclude[e.Self]:
		return Step{Choice: e.Self}, nil
	}
	return Step{Choice: e.byScore(names(open))}, nil
}

// place locates an address and rejects positions that are not on the globe.
func (s *GeoStrategy) place(a netip.Addr) (lat, lon float64, ok bool) {
	if !a.IsValid() {
		return 0, 0, false
	}
	lat, lon, ok = s.locate(a.Unmap())
	return lat, lon, ok && math.Abs(lat) <= 90 && math.Abs(lon) <= 360
}

// earthKM is the mean radius of the Earth.
const earthKM = 6371.0088

// greatCircle returns the distance on the ground in km (haversine).
func greatCircle(lat1, lon1, lat2, lon2 float64) float64 {
	const rad = math.Pi / 180
	sinLat, sinLon := math.Sin((lat1-lat2)*rad/2), math.Sin((lon1-lon2)*rad/2)
	h := sinLat*sinLat + math.Cos(lat1*rad)*math.Cos(lat2*rad)*sinLon*sinLon
	return 2 * earthKM * math.Asin(min(1, math.Sqrt(h)))
}
