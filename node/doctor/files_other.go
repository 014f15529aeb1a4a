//go:build !linux && !darwin

package doctor

func openFiles() uint64 { return minFiles }
