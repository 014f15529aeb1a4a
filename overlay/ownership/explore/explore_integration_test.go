//go:build integration

package explore

func init() { full = true }
