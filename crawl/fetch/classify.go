package fetch

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"

	"peerd/store"
)

// Errors of an answer that cannot be used; Result.Err matches them.
var (
	// ErrEncoding says that the body came in a coding that was not asked for,
	// or in too many.
	ErrEncoding = errors.New("unknown content coding")
	// ErrBomb says that a compressed body blew up beyond Config.MaxRatio.
	ErrBomb = errors.New("compressed body expands too far")
	// ErrSlow says that less of a body came than Config.MinRate demands.
	ErrSlow = errors.New("body comes too slowly")
	// errStatus says that the server ended with a status that ends nothing.
	errStatus = errors.New("answer with an interim status")
)

// classify tells which outcome err is, when the attempt came as far as st.
func classify(err error, st stage, h2 bool) store.Outcome {
	switch {
	case errors.Is(err, ErrForbiddenAddr), errors.Is(err, ErrForbiddenPort):
		return store.OutcomeRefused
	case errors.Is(err, ErrBomb), errors.Is(err, ErrEncoding), errors.Is(err, errCoding):
		return store.OutcomeDecoding
	case errors.Is(err, errBadURL), errors.Is(err, errStatus):
		return store.OutcomeProtocol
	case errors.Is(err, ErrSlow), isTimeout(err):
		return store.OutcomeTimeout
	case st == stageDial:
		return store.OutcomeConnect
	case st == stageTLS:
		return store.OutcomeTLS
	case st == stageSend, h2, isBroken(err):
		// net/http's HTTP/2 does not export its errors; what is left of them
		// is streams and connections that were given up.
		return store.OutcomeReset
	default:
		return store.OutcomeProtocol
	}
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// isBroken says whether err is the end of a connection.
func isBroken(err error) bool {
	for _, target := range []error{
		io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed,
		syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	var op *net.OpError
	return errors.As(err, &op)
}
