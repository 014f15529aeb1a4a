package page

import (
	"bytes"
	"strings"
	"testing"
)

func TestServe(t *testing.T) {
	in := "{\"url\":\"http://a.example/\",\"size\":3}\nabc{\"url\":\"/b\",\"size\":0}\n"
	var out bytes.Buffer
	err := serve(strings.NewReader(in), &out, func(p Page) Result {
		return Result{Links: []string{p.URL, string(p.Body)}}
	})
	want := "{\"links\":[\"http://a.example/\",\"abc\"]}\n{\"links\":[\"/b\",\"\"]}\n"
	if err != nil || out.String() != want {
		t.Errorf("%q, %v, want %q", out.String(), err, want)
	}
	for _, in := range []string{"{", "no JSON\n", "{\"size\":-1}\n", "{\"size\":4}\nabc",
		"{\"size\":1000000000}\n"} {
		err := serve(strings.NewReader(in), &out, func(Page) Result { return Result{} })
		if err == nil {
			t.Errorf("%q is accepted", in)
		}
	}
}
