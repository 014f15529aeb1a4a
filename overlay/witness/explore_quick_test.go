//go:build !integration

package witness

// exploreDefault is the default of -states.
const exploreDefault = 500
