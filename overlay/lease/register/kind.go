package register

import (
	"errors"
	"fmt"

	"github.com/fxamacker/cbor/v2"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/record"
)

var (
	// ErrTooLarge is returned for an envelope above its Kind's limit.
	ErrTooLarge = errors.New("register: record too large")
	// ErrEnvelope is returned for bytes that are no envelope of the Kind, or
	// whose signature does not hold.
	ErrEnvelope = errors.New("register: not a validly signed envelope of this kind")
	// ErrBody is returned for a validly signed envelope around bytes that are
	// not the expected CBOR.
	ErrBody = errors.New("register: malformed record")
)

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
// values give equal bytes.
func Encode(v any) ([]byte, error) {
	b, err := encode.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("register: encode: %w", err)
	}
	return b, nil
}

// Decode reads exactly one value, as strictly as Open does. It fails with ErrBody.
func Decode(b []byte, v any) error {
	if err := decode.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: %w", ErrBody, err)
	}
	return nil
}

// Seal encodes v and signs it. It fails with ErrTooLarge.
func (k Kind) Seal(v any, key crypto.PrivKey) ([]byte, error) {
	payload, err := Encode(v)
	if err != nil {
		return nil, err
	}
	return k.SealRaw(payload, key)
}

// SealRaw signs a body that is encoded already. It fails with ErrTooLarge.
func (k Kind) SealRaw(payload []byte, key crypto.PrivKey) ([]byte, error) {
	env, err := record.Seal(&body{kind: k, payload: payload}, key)
	if err != nil {
		return nil, fmt.Errorf("register: sign: %w", err)
	}
	sealed, err := env.Marshal()
	if err != nil {
		return nil, fmt.Errorf("register: envelope: %w", err)
	}
	if len(sealed) > k.Max {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(sealed), k.Max)
	}
	return sealed, nil
}

// Open decodes a sealed record into v and returns who signed it. It fails with
// ErrTooLarge, ErrEnvelope or ErrBody; v is then of no use. What the record says
// is for the caller to check.
func (k Kind) Open(sealed []byte, v any) (peer.ID, error) {
	if len(sealed) > k.Max {
		return "", fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(sealed), k.Max)
	}
	b := body{kind: k}
	env, err := record.ConsumeTypedEnvelope(sealed, &b)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrEnvelope, err)
	}
	if string(env.PayloadType) != k.Codec {
		return "", fmt.Errorf("%w: codec %q", ErrEnvelope, env.PayloadType)
	}
	signer, err := peer.IDFromPublicKey(env.PublicKey)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrEnvelope, err)
	}
	if err := Decode(b.payload, v); err != nil {
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
