package similar

import (
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
)

func TestSoftNotFound(t *testing.T) {
	for name, c := range map[string]struct {
		s    Signals
		want bool
	}{
		"like the probe":            {Signals{Status: 200, Probe: MatchExact}, true},
		"the first like the probe":  {Signals{Status: 200, Probe: MatchExact, First: true}, false},
		"an honest 404":             {Signals{Status: 404, Probe: MatchExact, Phrase: true, Copies: 9}, false},
		"near the probe":            {Signals{Status: 200, Probe: MatchNear}, false},
		"near, and many":            {Signals{Status: 200, Probe: MatchNear, Copies: 5}, true},
		"near, and says so":         {Signals{Status: 200, Probe: MatchNear, Phrase: true}, true},
		"says so":                   {Signals{Status: 200, Probe: MatchNone, Phrase: true}, false},
		"many say so":               {Signals{Status: 200, Probe: MatchUnknown, Phrase: true, Copies: 5}, true},
		"a few say so":              {Signals{Status: 200, Phrase: true, Copies: 4}, false},
		"many copies of some page":  {Signals{Status: 200, Probe: MatchNone, Copies: 1000}, false},
		"a page like other pages":   {Signals{Status: 200}, false},
		"the first of many near it": {Signals{Status: 200, Probe: MatchNear, Phrase: true, First: true}, false},
	} {
		if got := SoftNotFound(c.s); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestSaysNotFound(t *testing.T) {
	long := strings.Repeat("The HTTP status 404 says that a page was not found. ", 100)
	for _, c := range []struct {
		title, text string
		want        bool
	}{
		{"404 Not Found", "", true}, {"Error 404", "", true}, {"Page  not\nfound - A", "", true}, {"PAGE NOT FOUND", long, true},
		{"Seite nicht gefunden", "", true}, {"Страница НЕ НАЙДЕНА", "", true}, {"ページが見つかりません", "", true},
		{"A", "Sorry, this page does not exist.", true}, {"A", "<script>" + long + long + "</script><h1>Not <b>found</b></h1>", true},
		{"A", "<script>not found</script><p title='not found'>Welcome", false}, {"The status codes", long, false}, {"A page", "Some text.", false},
		{"Route 4045", "", false}, {"Foundation", "of what is found", false}, {"", "", false}, {strings.Repeat("x", 600) + " not found", "", false},
	} {
		if got := SaysNotFound(c.title, []byte(c.text)); got != c.want {
			t.Errorf("%.40q, %.40q: %v", c.title, c.text, got)
		}
	}
}

func TestProbeURL(t *testing.T) {
	a, b := ProbeURL("http://a.example"), ProbeURL("http://b.example:8080")
	if a != ProbeURL("http://a.example") || a.Host() != "a.example" || b.Origin() != "http://b.example:8080" || len(a) != len("http://a.example/")+20 {
		t.Errorf("%s, %s", a, b)
	}
	if strings.HasSuffix(string(b), string(a[len("http://a.example"):])) {
		t.Error("the same for all")
	}
}

func TestMirror(t *testing.T) {
	for name, c := range map[string]struct {
		equal string // = equal, new; p equal, parked; anything else differs
		want  bool
	}{
		"nothing": {"", false}, "too few": {strings.Repeat("=", 15), false}, "all": {strings.Repeat("=", 16), true},
		"all but one": {"x" + strings.Repeat("=", 15), true}, "all but two": {"xx" + strings.Repeat("=", 14), false},
		"late": {strings.Repeat("x", 100) + strings.Repeat("=", 16), true}, "no more": {strings.Repeat("=", 100) + "xx", false},
		"parked": {strings.Repeat("p", 100), false}, "others": {strings.Repeat("x", 100), false},
	} {
		var m Mirror
		for i, k := range c.equal {
			switch k {
			case '=':
				m.Compare(id(i), id(i))
			case 'p':
				m.Compare(id(-1), id(-1))
			default:
				m.Compare(id(i), id(-i-2))
			}
			b, err := cbor.Marshal(m)
			if err != nil || cbor.Unmarshal(b, &m) != nil {
				t.Fatal(err)
			}
		}
		if got := m.Is(15, 16); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
