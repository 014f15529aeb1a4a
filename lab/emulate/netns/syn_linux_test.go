package netns

import (
	"encoding/hex"
	"strings"
	"testing"
)

// syn4 and syn6 are SYNs from port 40000 to port 80.
const (
	syn4 = "45000028 00010000 40060000 0a640001 0a500001" +
		"9c400050 00000000 00000000 50020000 00000000"
	syn6 = "60000000 00140640 fd640100000000000000000000000001 fd800000000000000000000000000010" +
		"9c400050 00000000 00000000 50020000 00000000"
)

func packet(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestParseSyn(t *testing.T) {
	for text, want := range map[string]string{
		syn4: "10.100.0.1:40000 10.80.0.1:80",
		syn6: "[fd64:100::1]:40000 [fd80::10]:80",
	} {
		b := packet(t, text)
		s, ok := parseSyn(b)
		if got := s.From.String() + " " + s.To.String(); !ok || got != want {
			t.Errorf("parseSyn() = %s, %v, want %s", got, ok, want)
		}
		b[len(b)-7] |= flagAck
		if _, ok := parseSyn(b); ok {
			t.Error("an answer is taken for a SYN")
		}
	}
}

func FuzzParseSyn(f *testing.F) {
	f.Add(packet(f, syn4))
	f.Add(packet(f, syn6))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, ok := parseSyn(b); ok && (!s.From.IsValid() || !s.To.IsValid()) {
			t.Errorf("parseSyn() = %+v", s)
		}
	})
}
