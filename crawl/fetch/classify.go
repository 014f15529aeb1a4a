package fetch

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"

	"peerd/crawl/deny"
	"peerd/store"
)

// Errors of invalid responses, matched by Result.Err.
var (
	// ErrEncoding means that the body has a content coding that was not requested, or too many of
	// them.
	ErrEncoding = errors.New("unknown content coding")
	// ErrBomb means that a compressed body expands beyond maxRatio.
	ErrBomb = errors.New("compressed body expands too far")
	// ErrSlow means that a body is received at a lower rate than Config demands.
	ErrSlow = errors.New("body received too slowly")
	// errInterimStatus means that the final response has an interim status.
	errInterimStatus = errors.New("final response has an interim status")
)

// classify returns the outcome of an attempt that failed with err at the stage st.
func classify(err error, st stage, h2 bool) store.Outcome {
	switch {
	case errors.Is(err, deny.ErrDenied):
		return store.OutcomeDenied
	case errors.Is(err, ErrForbiddenAddr), errors.Is(err, ErrForbiddenPort):
		return store.OutcomeRefused
	case errors.Is(err, ErrBomb), errors.Is(err, ErrEncoding), errors.Is(err, errBrokenCoding):
		return store.OutcomeDecoding
	case errors.Is(err, errBadURL), errors.Is(err, errInterimStatus):
		return store.OutcomeProtocol
	case errors.Is(err, ErrSlow), errors.Is(err, errTimeout), isTimeout(err):
		return store.OutcomeTimeout
	case st == stageDial:
		return store.OutcomeConnect
	case st == stageTLS:
		return store.OutcomeTLS
	case st == stageSend, h2, isConnError(err), errors.Is(err, errRange):
		// The HTTP/2 implementation of net/http does not export its errors; the remaining ones are
		// of closed streams and connections.
		return store.OutcomeReset
	default:
		return store.OutcomeProtocol
	}
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// isConnError reports whether err means that the connection was closed.
func isConnError(err error) bool {
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
