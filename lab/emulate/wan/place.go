package wan

import (
	"math"
	"time"
)

// Place is a point on the earth, in degrees.
type Place struct {
	Name     string
	Lat, Lon float64
}

// Cities returns the built-in table, ordered by region, so that neighbours in the table
// are near each other on the map. The caller may modify the result.
func Cities() []Place {
	return []Place{
		{"Seattle", 47.61, -122.33},
		{"San Jose", 37.34, -121.89},
		{"Dallas", 32.78, -96.80},
		{"Chicago", 41.88, -87.63},
		{"Toronto", 43.65, -79.38},
		{"New York", 40.71, -74.01},
		{"Miami", 25.76, -80.19},
		{"Bogota", 4.71, -74.07},
		{"Sao Paulo", -23.55, -46.63},
		{"London", 51.51, -0.13},
		{"Madrid", 40.42, -3.70},
		{"Frankfurt", 50.11, 8.68},
		{"Milan", 45.46, 9.19},
		{"Stockholm", 59.33, 18.07},
		{"Warsaw", 52.23, 21.01},
		{"Nicosia", 35.19, 33.38},
		{"Lagos", 6.52, 3.38},
		{"Nairobi", -1.29, 36.82},
		{"Johannesburg", -26.20, 28.05},
		{"Dubai", 25.20, 55.27},
		{"Mumbai", 19.08, 72.88},
		{"Singapore", 1.35, 103.82},
		{"Hong Kong", 22.32, 114.17},
		{"Seoul", 37.57, 126.98},
		{"Tokyo", 35.68, 139.69},
		{"Sydney", -33.87, 151.21},
	}
}

const (
	earthRadius = 6371.0 // kilometres, mean
	// fibreSpeed is two thirds of the speed of light in vacuum, the speed of
	// light in glass, in kilometres per second.
	fibreSpeed = 299792.458 * 2 / 3
)

// Distance returns the great-circle distance from p to q in kilometres, by the
// haversine formula.
func (p Place) Distance(q Place) float64 {
	lat1, lat2 := radians(p.Lat), radians(q.Lat)
	dLat, dLon := lat2-lat1, radians(q.Lon-p.Lon)
	h := square(math.Sin(dLat/2)) + math.Cos(lat1)*math.Cos(lat2)*square(math.Sin(dLon/2))
	return 2 * earthRadius * math.Asin(math.Min(1, math.Sqrt(h)))
}

// fibreRTT returns the round-trip time of light in glass over km.
func fibreRTT(km float64) time.Duration {
	return time.Duration(2 * km / fibreSpeed * float64(time.Second))
}

func radians(deg float64) float64 { return deg * math.Pi / 180 }

func square(x float64) float64 { return x * x }
