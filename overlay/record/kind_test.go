package record

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/libp2p/go-libp2p/core/crypto"

	"peerd/overlay/overlaytest"
)

type note struct {
	Text string `cbor:"1,keyasint"`
	N    int    `cbor:"2,keyasint,omitempty"`
}

var notes = Kind{Domain: "test-note", Codec: "/test/note/1", Max: 512}

func newKey(testing.TB) crypto.PrivKey {
	key, _ := overlaytest.Identity(7)
	return key
}

func TestSealOpen(t *testing.T) {
	key := newKey(t)
	sealed, err := notes.Seal(note{"hello", 3}, key)
	if err != nil {
		t.Fatal(err)
	}
	var got note
	signer, err := notes.Open(sealed, &got)
	if err != nil || got != (note{"hello", 3}) || !signer.MatchesPrivateKey(key) {
		t.Errorf("got %+v by %v, %v", got, signer, err)
	}
	again, err := notes.Seal(note{"hello", 3}, key)
	if err != nil || !bytes.Equal(sealed, again) {
		t.Errorf("equal records seal differently: %v", err)
	}
	if _, err := notes.Seal(note{Text: strings.Repeat("x", 512)}, key); !errors.Is(err,
		ErrTooLarge) {
		t.Errorf("sealed too much: %v", err)
	}
}

// CBOR that is well formed but not what we write is refused, although signed.
func TestOpenIsStrict(t *testing.T) {
	key := newKey(t)
	for name, c := range map[string]struct {
		body string
		ok   bool
	}{
		"good":              {"\xa2\x01\x61x\x02\x03", true},
		"unknown field":     {"\xa2\x01\x61x\x09\x03", false},
		"field twice":       {"\xa2\x01\x61x\x01\x61y", false},
		"indefinite length": {"\xbf\x01\x61x\xff", false},
		"tag":               {"\xa1\x01\xc1\x61x", false},
		"bytes left over":   {"\xa1\x01\x61x\x00", false},
		"wrong type":        {"\xa1\x01\x03", false},
		"cut short":         {"\xa2\x01\x61x", false},
		"nothing":           {"", false},
		"deep":              {"\xa1\x02" + strings.Repeat("\x81", 40) + "\x00", false},
	} {
		sealed, err := notes.SealRaw([]byte(c.body), key)
		if err != nil {
			t.Fatal(err)
		}
		var n note
		if _, err := notes.Open(sealed, &n); (err == nil) != c.ok || err != nil &&
			!errors.Is(err, ErrBody) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
