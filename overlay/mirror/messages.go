package mirror

import (
	"errors"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/record"
	"peerd/store/warc"
)

// Limits of messages.
const (
	// pieceSize is the largest number of bytes of a file in a piece.
	pieceSize = 256 << 10
	maxPiece  = pieceSize + 1<<10 // bytes
	maxHeld   = 2 << 20           // bytes
	maxReason = 256               // bytes of a refusal that are quoted in an error
)

var (
	// ErrMessage means that a peer sent what no honest peer sends.
	ErrMessage = errors.New("mirror: invalid message")
	// errRefused means that a peer does not keep the copy.
	errRefused = errors.New("refused")
)

// offer opens a conversation.
type offer struct {
	Naming []byte `cbor:"1,keyasint"`
	Bytes  int64  `cbor:"2,keyasint"` // size of the archive
}

// held is the reply to an offer: what the mirror has.
type held struct {
	Refused string               `cbor:"1,keyasint,omitempty"`
	Files   map[string]warc.Part `cbor:"2,keyasint,omitempty"`
}

// piece is a part of a file. One without a file says that the owner lives.
type piece struct {
	File string `cbor:"1,keyasint,omitempty"`
	// At is the size of the copied file, or 0 to begin again.
	At   int64  `cbor:"2,keyasint,omitempty"`
	Data []byte `cbor:"3,keyasint,omitempty"`
	// Whole says that the piece ends after a complete exchange.
	Whole bool `cbor:"4,keyasint,omitempty"`
	// Gone says that the owner has no such file.
	Gone bool `cbor:"5,keyasint,omitempty"`
	// Behind is the number of bytes that follow in the archive.
	Behind int64 `cbor:"6,keyasint,omitempty"`
}

// ack is the reply to a piece.
type ack struct {
	Refused string `cbor:"1,keyasint,omitempty"`
}

func (h *held) check() error {
	if len(h.Files) > warc.MaxFiles {
		return fmt.Errorf("%w: %d files", ErrMessage, len(h.Files))
	}
	for name, p := range h.Files {
		if err := warc.CheckFile(name); err != nil || p.Size < 0 {
			return fmt.Errorf("%w: file of %d bytes: %w", ErrMessage, p.Size, err)
		}
	}
	return nil
}

func (p *piece) check() error {
	bad := p.At < 0 || p.Behind < 0 || len(p.Data) > pieceSize ||
		(p.Gone || p.File == "") && len(p.Data) > 0
	if err := warc.CheckFile(p.File); bad || p.File != "" && err != nil {
		return fmt.Errorf("%w: %d bytes at %d of %.*q", ErrMessage, len(p.Data), p.At, maxReason,
			p.File)
	}
	return nil
}

// MaxAge is how long a mirror may show that it was named.
const MaxAge = 31 * 24 * time.Hour

// Naming is what an owner signs to name a mirror.
type Naming struct {
	Owner, Mirror peer.ID
	At            time.Time
}

// namingBody is the form in which a naming is signed. The owner is the signer.
type namingBody struct {
	Mirror peer.ID `cbor:"1,keyasint"`
	At     int64   `cbor:"2,keyasint"` // Unix time in ms
}

// maxNaming bounds a signed naming. Bytes.
const maxNaming = 1 << 10

func namingKind(network string) record.Kind {
	return record.Kind{Domain: "peerd-mirror:" + network, Codec: "/peerd/mirror/1", Max: maxNaming}
}

// SealNaming signs a naming for a network with the key of its owner.
func SealNaming(n Naming, network string, key crypto.PrivKey) ([]byte, error) {
	return namingKind(network).Seal(namingBody{n.Mirror, n.At.UnixMilli()}, key)
}

// OpenNaming checks a sealed naming, and that it was made before now and is not older than MaxAge.
func OpenNaming(sealed []byte, network string, now time.Time) (n Naming, err error) {
	var b namingBody
	if n.Owner, err = namingKind(network).Open(sealed, &b); err != nil {
		return n, fmt.Errorf("mirror: %w", err)
	}
	n.Mirror, n.At = b.Mirror, record.Millis(b.At)
	if age := now.Sub(n.At); age < -record.Skew || age > MaxAge {
		return n, fmt.Errorf("%w: named %v ago", ErrMessage, age)
	}
	return n, nil
}
