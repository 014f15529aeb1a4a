package network

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
)

// A blame says what a failed request shows about the network.
type blame uint8

const (
	blameNothing blame = iota // the request was canceled
	blameServer               // the server answered
	blamePath                 // nothing came back
	blameMachine              // nothing could be sent
)

// machineErrors are errors of a machine that has no network, or no route to an address.
var machineErrors = []error{syscall.ENETUNREACH, syscall.ENETDOWN, syscall.EADDRNOTAVAIL}

// blameOf returns what err, of a connection or a lookup, shows.
func blameOf(err error) blame {
	if errors.Is(err, context.Canceled) {
		return blameNothing
	}
	for _, e := range machineErrors {
		if errors.Is(err, e) || isLookupError(err, e) {
			return blameMachine
		}
	}
	var timeout interface{ Timeout() bool }
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, syscall.EHOSTUNREACH) ||
		isLookupError(err, syscall.EHOSTUNREACH) ||
		errors.As(err, &timeout) && timeout.Timeout() {
		return blamePath
	}
	return blameServer
}

// isLookupError reports whether a lookup failed because of e. Package net keeps only its text.
func isLookupError(err, e error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns) && strings.Contains(dns.Err, e.Error())
}
