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
	// ErrForbidden is a request with the name of another host in the Host header, or by a page of
	// another origin.
	ErrForbidden = errors.New("foreign host name or origin")
	// ErrReadOnly is a request that the token for reading does not permit.
	ErrReadOnly = errors.New("the token permits only to read")
	// ErrTooLarge is a request that exceeds a limit.
	ErrTooLarge = errors.New("request too large")
	// ErrBusy is a request beyond the number of event streams or logins at a time.
	ErrBusy = errors.New("too many at a time; try again later")
	// ErrStopping is returned by a Node that accepts no more work because it is stopping.
	ErrStopping = errors.New("the peer is stopping")
	// ErrInternal is an error of the server, which logs the cause.
	ErrInternal = errors.New("internal error")
	// ErrNotRunning is returned by the client if no peer runs with the home.
	ErrNotRunning = errors.New("no peer is running with this home")
)

// statusCodes is the table from error to HTTP status. Other errors are status 500.
var statusCodes = []struct {
	err  error
	code int
}{
	{ErrBadRequest, http.StatusBadRequest},
	{ErrUnauthorized, http.StatusUnauthorized},
	{ErrForbidden, http.StatusForbidden},
	{ErrReadOnly, http.StatusForbidden},
	{ErrTooLarge, http.StatusRequestEntityTooLarge},
	{ErrBusy, http.StatusTooManyRequests},
	{ErrStopping, http.StatusServiceUnavailable},
	{context.DeadlineExceeded, http.StatusGatewayTimeout},
	{context.Canceled, http.StatusServiceUnavailable},
}

func statusOf(err error) int {
	for _, s := range statusCodes {
		if errors.Is(err, s.err) {
			return s.code
		}
	}
	return http.StatusInternalServerError
}

// errorBody is the JSON body of every response that is not 2xx.
type errorBody struct {
	Error string `json:"error"`
}

// remoteError is an error response: it has the text of the server and matches the error of the
// table that has its status.
type remoteError struct {
	status int
	text   string
}

func (e *remoteError) Error() string { return "the peer answered: " + e.text }

func (e *remoteError) Is(target error) bool {
	for _, s := range statusCodes {
		if s.code == e.status {
			return s.err == target
		}
	}
	return target == ErrInternal
}

// maxErrorBytes bounds the part of a response that is not 2xx that is read.
const maxErrorBytes = 64 << 10

// readError returns the error of a response that is not 2xx.
func readError(resp *http.Response) error {
	var f errorBody
	err := json.NewDecoder(io.LimitReader(resp.Body, maxErrorBytes)).Decode(&f)
	if err != nil || f.Error == "" {
		f.Error = fmt.Sprintf("HTTP status %d", resp.StatusCode)
	}
	return &remoteError{status: resp.StatusCode, text: strings.ReplaceAll(f.Error, "\n", "; ")}
}
