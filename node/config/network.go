package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/google/renameio/v2"

	"peerd/overlay/admission"
)

// ErrOtherProfile is returned if a home has another network's profile already.
var ErrOtherProfile = errors.New("the home belongs to another network; use another --home")

// NetworkProfile returns the profile in file or, if that is "", the one that c names, or
// profile.toml in the home, or DefaultProfile; in this order. Its errors are those of LoadProfile.
func (h Home) NetworkProfile(c Config, file string) (Profile, error) {
	if file == "" && c.Profile != "" {
		file = h.Path(c.Profile)
	}
	if file != "" {
		return LoadProfile(file)
	}
	p, err := LoadProfile(h.ProfileFile())
	if errors.Is(err, fs.ErrNotExist) {
		return DefaultProfile(), nil
	}
	return p, err
}

// SaveNetwork writes the profile and this peer's membership to the home. It replaces those of the
// same network, and fails with ErrOtherProfile if there are those of another one.
func (h Home) SaveNetwork(p Profile, m admission.Membership) error {
	old, err := LoadProfile(h.ProfileFile())
	switch {
	case err == nil && old.NetworkID() != p.NetworkID():
		return asInvalid(fmt.Errorf("%s has %s: %w", h.ProfileFile(), old.NetworkID(),
			ErrOtherProfile))
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	text, err := p.Text()
	if err != nil {
		return fmt.Errorf("save profile: %w", err)
	}
	if len(m) > 0 { // first: a profile without its membership is of no use
		if err := renameio.WriteFile(h.MembershipFile(), m, 0o600); err != nil {
			return fmt.Errorf("save membership: %w", err)
		}
	}
	if err := renameio.WriteFile(h.ProfileFile(), text, 0o644); err != nil {
		return fmt.Errorf("save profile: %w", err)
	}
	return nil
}

// Membership reads this peer's membership; nil if there is none. The caller checks it against the
// network's rules.
func (h Home) Membership() (admission.Membership, error) {
	m, err := readFile(h.MembershipFile())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read membership: %w", err)
	}
	return m, nil
}

// HasProfile reports whether the home has the profile of a network.
func (h Home) HasProfile() bool {
	_, err := os.Stat(h.ProfileFile())
	return err == nil
}
