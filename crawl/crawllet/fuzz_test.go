package crawllet

import (
	"bufio"
	"bytes"
	"io"
	"testing"
	"time"
)

// FuzzOffer reads signed offers. One that is accepted is in canonical form and within bounds.
func FuzzOffer(f *testing.F) {
	b, err := someOffer().sign(newKey(f), time.Unix(1_700_000_000, 0))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		if o, err := openOffer(b); err == nil && o.check() != nil {
			t.Errorf("accepted %+v", o)
		}
	})
}

// FuzzRun reads replies of sites.
func FuzzRun(f *testing.F) {
	f.Add(replyOf(f, End{}, encoded(f, "http://a.example/1"), encoded(f, "http://a.example/2")))
	f.Add(replyOf(f, End{Reason: CPULimit, Detail: "1 s"}))
	f.Add([]byte{'d', 0, 0, 0, 0, 'e', 0, 0, 0, 1, 0xa0})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := openRun(t, b, 1<<20)
		n, err := readRun(r)
		if err == nil || n > 1<<20 {
			t.Errorf("%d records, then %v", n, err)
		}
	})
}

// FuzzFrames reads frames. What is written as data frames is read, whatever precedes an error.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("some data"), []byte{'e', 0, 0, 0, 1, 0xa0})
	f.Fuzz(func(t *testing.T, data, rest []byte) {
		var b bytes.Buffer
		if _, err := (frameWriter{&b}).Write(data); err != nil {
			t.Fatal(err)
		}
		b.Write(rest)
		got, err := io.ReadAll(&frameReader{r: &b})
		if !bytes.HasPrefix(got, data) {
			t.Errorf("read %q, %v, want %q", got, err, data)
		}
	})
}

// FuzzReplies reads what else sites send.
func FuzzReplies(f *testing.F) {
	f.Add([]byte(`{"version":1,"runtime":"wasip1","prefix":"http://a.example/","limits":{` +
		`"cpu_seconds":1,"memory_mib":1,"pages":1,"output_bytes":1,"wall_seconds":1}}`))
	f.Add([]byte(`{"ticket":"A","limits":{"cpu_seconds":1,"memory_mib":1,"pages":1,` +
		`"output_bytes":1,"wall_seconds":1}}`))
	f.Add([]byte(`{"reason":"busy","detail":"x"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var p Policy
		if err := parsePolicy(b, "http://a.example", &p); err == nil && p.check() != nil {
			t.Errorf("accepted %+v", p)
		}
		if g, err := parseGrant(b); err == nil && g.Limits.check() != nil {
			t.Errorf("accepted %+v", g)
		}
		if r := parseFailure(b); r != nil && r.Reason == "" {
			t.Error("a failure without a reason")
		}
	})
}

// FuzzJob reads what a host sends to a process, and the report that it gets.
func FuzzJob(f *testing.F) {
	b, err := appendJob(nil, job{Dir: "/d", Run: true, Args: []string{"a"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = readJob(bufio.NewReader(bytes.NewReader(b)))
		_, _ = readReport(bytes.NewReader(b))
	})
}
