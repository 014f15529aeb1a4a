//go:build !linux && !darwin

package node

func openFiles() uint64 { return usualOpenFiles }
