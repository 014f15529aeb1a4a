package fetch

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxRetryAfter is the maximum wait that a server may request.
const maxRetryAfter = 24 * time.Hour

// retryAfter parses a Retry-After field (RFC 9110, section 10.2.3): seconds or a date. It returns 0
// if there is none, if the date has passed, or if the field is invalid, and at most maxRetryAfter.
func retryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if value == "" {
		return 0
	}
	if allDigits(value) {
		return seconds(value, maxRetryAfter)
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}

// keepAlive parses the timeout that a server announces in a Keep-Alive field ("timeout=5,
// max=100"). It returns after how long to close an idle connection: one second earlier, because the
// next request needs time to arrive. ok is false if there is no timeout.
func keepAlive(value string) (d time.Duration, ok bool) {
	for param := range strings.SplitSeq(value, ",") {
		name, number, _ := strings.Cut(strings.TrimSpace(param), "=")
		if !strings.EqualFold(strings.TrimSpace(name), "timeout") {
			continue
		}
		number = strings.TrimSpace(number)
		if !allDigits(number) {
			return 0, false
		}
		return max(seconds(number, time.Hour)-time.Second, 0), true
	}
	return 0, false
}

// seconds converts a string of digits; the result is at most limit.
func seconds(digits string, limit time.Duration) time.Duration {
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > int64(limit/time.Second) {
		return limit // too large, possibly for an int64
	}
	return time.Duration(n) * time.Second
}

func allDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
