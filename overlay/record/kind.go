package record

import (
	"errors"
	"fmt"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/record"
)

var (
	// ErrTooLarge is returned for an envelope above its Kind's limit.
	ErrTooLarge = errors.New("record: record too large")
	// ErrEnvelope is returned for bytes that are no envelope of the Kind, or have an invalid
	// signature.
	ErrEnvelope = errors.New("record: not a validly signed envelope of this kind")
	// ErrBody is returned for a validly signed envelope around bytes that are
	// not the expected CBOR.
	ErrBody = errors.New("record: malformed record")
	// ErrSigner is returned for a record that another peer signed than it names.
	ErrSigner = errors.New("record: signed by the wrong peer")
	// ErrNetwork is returned for a record of another network.
	ErrNetwork = errors.New("record: of another network")
	// ErrTime is returned for a record of a time before 1970 or in the far future.
	ErrTime = errors.New("record: impossible time")
)

// Skew is how far in the future a record may be issued: the difference of clocks that is
// forgiven. All peers of a network must agree on it.
const Skew = 5 * time.Minute

const maxMillis = 1 << 47 // the year 6429: sums of such times do not overflow

// Millis returns the time ms milliseconds after 1970, in UTC. What is out of bounds becomes a
// time that CheckMillis refuses, rather than one that overflowed.
func Millis(ms int64) time.Time {
	return time.UnixMilli(max(0, min(ms, maxMillis+1))).UTC()
}

// CheckMillis reports whether t, in milliseconds since 1970, is within bounds: nil or ErrTime.
func CheckMillis(t time.Time) error {
	if ms := t.UnixMilli(); ms <= 0 || ms > maxMillis {
		return fmt.Errorf("%w: issued at %d ms", ErrTime, ms)
	}
	return nil
}

// Kind is one kind of signed record. Its envelope is libp2p's (RFC 0002, signed
// envelopes):
//
//	public key | codec | CBOR body | signature over (domain, codec, body)
type Kind struct {
	// Domain keeps a signature from being taken for one of another purpose.
	Domain string
	// Codec names the form of the body, version included.
	Codec string
	// Max is the largest envelope in bytes that Seal makes and Open looks at.
	Max int
}

// A record is small and flat, and a field that this version does not know could
// not be ordered or checked: it makes another codec. So decoding is stricter
// than that of messages.
var (
	encode = must(cbor.CoreDetEncOptions().EncMode())
	decode = must(cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		IndefLength:       cbor.IndefLengthForbidden,
		TagsMd:            cbor.TagsForbidden,
		MaxNestedLevels:   6,
		MaxArrayElements:  128, // the traits of a server are the longest
		MaxMapPairs:       32,
	}.DecMode())
)

// The modes are built from constants: a failure is a mistake of ours.
func must[T any](m T, err error) T {
	if err != nil {
		panic(err)
	}
	return m
}

// Encode returns v as deterministic CBOR (RFC 8949, section 4.2.1): equal
// values give equal bytes. It fails with ErrTooLarge above limit bytes.
func Encode(v any, limit int) ([]byte, error) {
	b, err := encode.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("record: encode: %w", err)
	}
	return b, checkSize(b, limit)
}

// Decode reads exactly one value of at most limit bytes, as strictly as Open does. It fails with
// ErrTooLarge or ErrBody.
func Decode(b []byte, limit int, v any) error {
	if err := checkSize(b, limit); err != nil {
		return err
	}
	if err := decode.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: %w", ErrBody, err)
	}
	return nil
}

func checkSize(b []byte, limit int) error {
	if len(b) > limit {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(b), limit)
	}
	return nil
}

// Seal encodes v and signs it. It fails with ErrTooLarge.
func (k Kind) Seal(v any, key crypto.PrivKey) ([]byte, error) {
	payload, err := Encode(v, k.Max)
	if err != nil {
		return nil, err
	}
	return k.SealRaw(payload, key)
}

// SealRaw signs a body that is encoded already. It fails with ErrTooLarge.
func (k Kind) SealRaw(payload []byte, key crypto.PrivKey) ([]byte, error) {
	env, err := record.Seal(&body{kind: k, payload: payload}, key)
	if err != nil {
		return nil, fmt.Errorf("record: sign: %w", err)
	}
	sealed, err := env.Marshal()
	if err != nil {
		return nil, fmt.Errorf("record: envelope: %w", err)
	}
	return sealed, checkSize(sealed, k.Max)
}

// Open decodes a sealed record into v and returns who signed it. It fails with
// ErrTooLarge, ErrEnvelope or ErrBody; v is then of no use. What the record says
// is for the caller to check.
func (k Kind) Open(sealed []byte, v any) (peer.ID, error) {
	if err := checkSize(sealed, k.Max); err != nil {
		return "", err
	}
	b := body{kind: k}
	env, err := record.ConsumeTypedEnvelope(sealed, &b)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrEnvelope, err)
	}
	return k.decode(env, b.payload, v)
}

// Peek is Open without the check of the signature: anybody can have written what v and the
// returned peer ID say.
func (k Kind) Peek(sealed []byte, v any) (peer.ID, error) {
	if err := checkSize(sealed, k.Max); err != nil {
		return "", err
	}
	env, err := record.UnmarshalEnvelope(sealed)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrEnvelope, err)
	}
	return k.decode(env, env.RawPayload, v)
}

// decode reads the payload of an envelope into v, and returns the peer of the key in it.
func (k Kind) decode(env *record.Envelope, payload []byte, v any) (peer.ID, error) {
	if string(env.PayloadType) != k.Codec {
		return "", fmt.Errorf("%w: codec %q", ErrEnvelope, env.PayloadType)
	}
	signer, err := peer.IDFromPublicKey(env.PublicKey)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrEnvelope, err)
	}
	if err := Decode(payload, k.Max, v); err != nil {
		return "", err
	}
	return signer, nil
}

// body is an encoded record on its way into or out of an envelope.
type body struct {
	kind    Kind
	payload []byte
}

var _ record.Record = (*body)(nil)

func (b *body) Domain() string                 { return b.kind.Domain }
func (b *body) Codec() []byte                  { return []byte(b.kind.Codec) }
func (b *body) MarshalRecord() ([]byte, error) { return b.payload, nil }
func (b *body) UnmarshalRecord(p []byte) error { b.payload = p; return nil }

// SignerOf returns the peer of the key in a sealed record, without checking the signature.
func SignerOf(sealed []byte) (peer.ID, error) {
	e, err := record.UnmarshalEnvelope(sealed)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrEnvelope, err)
	}
	return peer.IDFromPublicKey(e.PublicKey)
}
