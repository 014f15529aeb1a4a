package fetch

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxRetryAfter bounds the wait that a server may ask for.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads a Retry-After field (RFC 9110, section 10.2.3): seconds or
// a date. It returns 0 for none, for a date gone by and for anything else, and
// never more than maxRetryAfter.
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

// keepAlive reads the timeout that a server announced in a Keep-Alive field
// ("timeout=5, max=100") and returns after how long an idle connection should
// be given up: a second earlier, as our next request takes its time to get
// there. ok is false if the field says nothing.
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

// seconds converts a string of digits, cut off at limit.
func seconds(digits string, limit time.Duration) time.Duration {
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > int64(limit/time.Second) {
		return limit // more digits than an int64 holds
	}
	return time.Duration(n) * time.Second
}

func allDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
