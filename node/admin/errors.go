package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

var (
	// ErrBadRequest is a request that the server does not understand.
	ErrBadRequest = errors.New("bad request")
	// ErrUnauthorized is a request without the right token.
	ErrUnauthorized = errors.New("wrong or missing token")
	// ErrForbidden is a request with a Host header that is a foreign name.
	ErrForbidden = errors.New("foreign host name")
	// ErrTooLarge is a request beyond the limits of its size.
	ErrTooLarge = errors.New("request too large")
	// ErrStopping is returned by a Node that takes no more work because it is
	// about to stop.
	ErrStopping = errors.New("the peer is stopping")
	// ErrInternal is a fault of the server; its log has the cause.
	ErrInternal = errors.New("internal error")
	// ErrNotRunning is returned by the client when no peer runs with the home.
	ErrNotRunning = errors.New("no peer is running with this home")
)

// statuses is the one table from error to HTTP status. Errors that are not in
// it are 500.
var statuses = []struct {
	err  error
	code int
}{
	{ErrBadRequest, http.StatusBadRequest},
	{ErrUnauthorized, http.StatusUnauthorized},
	{ErrForbidden, http.StatusForbidden},
	{ErrTooLarge, http.StatusRequestEntityTooLarge},
	{ErrStopping, http.StatusServiceUnavailable},
	{context.DeadlineExceeded, http.StatusGatewayTimeout},
	{context.Canceled, http.StatusServiceUnavailable},
}

// statusOf returns the HTTP status for err.
func statusOf(err error) int {
	for _, s := range statuses {
		if errors.Is(err, s.err) {
			return s.code
		}
	}
	return http.StatusInternalServerError
}

// fault is the JSON body of every answer that is not 2xx.
type fault struct {
	Error string `json:"error"`
}

// remoteError is a fault as the client sees it: the server's words, matching
// the error of the table that has its status.
type remoteError struct {
	status int
	text   string
}

func (e *remoteError) Error() string { return "the peer answered: " + e.text }

func (e *remoteError) Is(target error) bool {
	for _, s := range statuses {
		if s.code == e.status {
			return s.err == target
		}
	}
	return target == ErrInternal
}

// maxFaultBytes bounds what is read of an answer that is not 2xx.
const maxFaultBytes = 64 << 10

// readFault makes an error of an answer that is not 2xx.
func readFault(resp *http.Response) error {
	var f fault
	err := json.NewDecoder(io.LimitReader(resp.Body, maxFaultBytes)).Decode(&f)
	if err != nil || f.Error == "" {
		f.Error = fmt.Sprintf("HTTP status %d", resp.StatusCode)
	}
	return &remoteError{status: resp.StatusCode, text: strings.ReplaceAll(f.Error, "\n", "; ")}
}
