package admission

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/google/renameio/v2"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/internal/bounded"
	"peerd/internal/clock"
)

// An Issuer redeems the invitations that this peer has signed. Its methods are safe for
// concurrent use.
type Issuer struct {
	Rules Rules
	Key   crypto.PrivKey
	// File keeps which peers have used which invitation. It is written before a certificate
	// leaves this peer.
	File string
	// Clock dates certificates.
	Clock clock.Clock

	mu sync.Mutex
}

// use is which peers have joined with one invitation.
type use struct {
	Expires time.Time `json:"expires"`
	Peers   []string  `json:"peers"`
}

// Redeem returns the membership of p, which has shown a sealed invitation. A peer that shows it
// again uses nothing up. The error matches ErrInvitation, ErrExpired, ErrUsedUp or
// ErrMayNotInvite, or is about the file.
func (s *Issuer) Redeem(p peer.ID, sealed []byte) (Membership, error) {
	self, err := peer.IDFromPrivateKey(s.Key)
	if err != nil {
		return nil, err
	}
	now := s.Clock.Now()
	v, err := OpenInvitation(sealed)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrInvitation, err)
	case v.Issuer != self:
		return nil, fmt.Errorf("%w: only %s, which has signed it, can redeem it", ErrInvitation,
			v.Issuer)
	case v.Network != s.Rules.Network:
		return nil, fmt.Errorf("%w: it is for the network %s", ErrInvitation, v.Network)
	case v.Peer != "" && v.Peer != p:
		return nil, fmt.Errorf("%w: it is for the peer %s", ErrInvitation, v.Peer)
	case !now.Before(v.Expires):
		return nil, fmt.Errorf("%w, on %s", ErrExpired, v.Expires.Format(time.DateTime))
	}
	if err := s.Rules.MayInvite(self, v.Peer != ""); err != nil {
		return nil, err
	}
	m, err := s.Rules.admit(s.Key, p, now)
	if err != nil {
		return nil, err
	}
	return m, s.count(v, p, now)
}

// count notes on disk that p has used v.
func (s *Issuer) count(v Invitation, p peer.ID, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	uses, err := s.read()
	if err != nil {
		return err
	}
	id := hex.EncodeToString(v.ID[:])
	u := uses[id]
	switch {
	case slices.Contains(u.Peers, p.String()):
		return nil
	case len(u.Peers) >= v.Uses:
		return fmt.Errorf("%w by %d of %d peers", ErrUsedUp, len(u.Peers), v.Uses)
	}
	uses[id] = use{Expires: v.Expires, Peers: append(u.Peers, p.String())}
	for id, u := range uses {
		if now.After(u.Expires.Add(keepUses)) {
			delete(uses, id)
		}
	}
	data, err := json.MarshalIndent(uses, "", "  ")
	if err != nil {
		return err
	}
	if err := renameio.WriteFile(s.File, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("count use of invitation: %w", err)
	}
	return nil
}

// keepUses is for how long the uses of an expired invitation are remembered, so that it cannot be
// used up again if the clock is set back.
const keepUses = 30 * 24 * time.Hour

// maxUsesFile bounds the file of uses: some thousand invitations. Bytes.
const maxUsesFile = 64 << 20

// read returns the uses on disk by the ID of the invitation.
func (s *Issuer) read() (map[string]use, error) {
	data, err := bounded.ReadFile(s.File, maxUsesFile)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]use{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read uses of invitations: %w", err)
	}
	uses := map[string]use{}
	if err := json.Unmarshal(data, &uses); err != nil {
		return nil, fmt.Errorf("read uses of invitations: %s: %w", s.File, err)
	}
	return uses, nil
}
