package feed

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"peerd/overlay/wire"
	"peerd/store/warc"
)

// A collector counts the pages to which differences lead before it makes them, and wants them
// without differences if there is no memory for them.
func TestDifferencesTakeMemory(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789abcdef"), MaxDelta/16)
	d, err := diff(body[:5000], body)
	if err != nil {
		t.Fatal(err)
	}
	f, err := newFilter(nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	last := warc.Exchange{URL: "http://a.example/", Time: time.Unix(1e9, 0), Body: body[:5000]}
	s := &sink{at: map[string]int64{}, from: map[string]bool{},
		last: map[string]warc.Exchange{last.URL: last}}
	used, most := 0, 0
	use := func(n int) error {
		if used += n; used > most {
			return wire.ErrBusy
		}
		return nil
	}
	for _, most = range []int{4000, 1 << 20, 5000 + MaxDelta} {
		used = 0
		p := packet{At: map[string]int64{"a": 1}, Items: []item{{Base: last.Time.UnixNano(),
			Exchange: warc.Exchange{URL: last.URL, Time: last.Time.Add(time.Second), Body: d,
				Response: []byte("HTTP/1.1 200 OK\r\n\r\n")}}}}
		err := (&Collector{Sink: s}).store("p", &p, f, map[string]int64{}, use)
		if enough := most > MaxDelta; errors.Is(err, errPlain) == enough ||
			(len(s.got()) == 1) != enough {
			t.Errorf("with %d bytes: %v, with %d pages stored", most, err, len(s.got()))
		}
	}
	if used != 5000+MaxDelta {
		t.Errorf("%d bytes are counted, want those of both bodies", used)
	}
}
