package hostile

import (
	"net/http"
	"strings"
	"time"
)

// throttleCases request a longer delay than Bound.Pause requires, because the log has the
// time when the answer was sent, which may be after the client received it.
func throttleCases() []Case {
	first := func(name, about string, b Bound, code int, after func() string) Case {
		b.Requests, b.Repeat, b.Want = 8, 2, []string{"/", "/next", "/done"}
		return Case{Name: name, About: about, Bound: b, serve: func(x *exchange) {
			switch {
			case x.path == "/" && x.nth == 0:
				x.answer(code, "Retry-After: "+after()+"\r\n", "slow down")
			case x.path == "/":
				x.page(linked(name, "/next"))
			case x.path == "/next":
				x.page(linked(name+"next", "/done"))
			case x.path == "/done":
				x.page(linked(name + "done"))
			default:
				x.missing()
			}
		}}
	}
	fixed := func(s string) func() string { return func() string { return s } }
	cases := []Case{
		first("throttle-seconds", "429 with Retry-After: 2", Bound{Pause: 1500 * time.Millisecond},
			429, fixed("2")),
		first("throttle-date", "503 with Retry-After as a date, 4 s ahead",
			Bound{Pause: 2 * time.Second}, 503, func() string {
				return time.Now().Add(4 * time.Second).UTC().Format(http.TimeFormat)
			}),
		first("throttle-past", "429 with a date in the past", Bound{}, 429,
			fixed("Sun, 06 Nov 1994 08:49:37 GMT")),
		first("throttle-minus", "429 with Retry-After: -5", Bound{}, 429, fixed("-5")),
		first("throttle-text", "503 with Retry-After: soon", Bound{}, 503, fixed("soon")),
		first("throttle-float", "503 with Retry-After: 0.5e", Bound{}, 503, fixed("0.5e")),
		first("throttle-twice", "429 with two Retry-After", Bound{}, 429,
			fixed("0\r\nRetry-After: 1")),
		{
			Name: "throttle-always", About: "429 each time, without Retry-After",
			Bound: Bound{Requests: tries + 2, Repeat: tries, Want: []string{"/"}},
			serve: func(x *exchange) {
				if x.path == "/robots.txt" {
					x.missing()
					return
				}
				x.answer(429, "", "slow down")
			},
		},
	}
	for name, value := range map[string]string{"throttle-years": "1000000000",
		"throttle-overflow": "99999999999999999999"} {
		cases = append(cases, Case{
			Name: name, About: "429 with Retry-After: " + value, Waits: true,
			Bound: Bound{Requests: 2, Want: []string{"/"}},
			serve: func(x *exchange) {
				if strings.HasPrefix(x.path, "/robots") {
					x.missing()
					return
				}
				x.answer(429, "Retry-After: "+value+"\r\n", "slow down")
			},
		})
	}
	return cases
}
