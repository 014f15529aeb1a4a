package admission_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/internal/clock"
	"peerd/overlay/admission"
	"peerd/overlay/overlaytest"
)

const network = "gardens-0123456789abcdef"

// start is the time of the clock in these tests.
var start = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// member is a peer with its membership.
type member struct {
	overlaytest.Peer
	membership admission.Membership
	issuer     *admission.Issuer
}

func (m *member) invite(
	t *testing.T, change func(*admission.Invitation),
) []byte {
	t.Helper()
	v := admission.Invitation{Network: network, Expires: start.Add(time.Hour), Uses: 1}
	if change != nil {
		change(&v)
	}
	sealed, err := admission.NewInvitation(m.Key, v)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

// family returns peers of a network with one founder, the first; the others are not members.
func family(t *testing.T, mode admission.Mode) (admission.Rules, []*member) {
	t.Helper()
	all := overlaytest.Identities(7, 7, func(id peer.ID, key crypto.PrivKey) *member {
		return &member{Peer: overlaytest.Peer{ID: id, Key: key}}
	})
	rules := admission.Rules{Network: network, Mode: mode, Founders: []peer.ID{all[0].ID}}
	for _, m := range all {
		m.issuer = &admission.Issuer{Rules: rules, Key: m.Key,
			File:  filepath.Join(t.TempDir(), "invitations"),
			Clock: clock.Of(func() time.Time { return start })}
	}
	return rules, all
}

// admit makes b a member by an invitation of a.
func admit(t *testing.T, a, b *member) {
	t.Helper()
	m, err := a.issuer.Redeem(b.ID, a.invite(t, func(v *admission.Invitation) {
		v.Peer = b.ID
	}))
	if err != nil {
		t.Fatal(err)
	}
	b.membership = m
}

func TestMembership(t *testing.T) {
	rules, all := family(t, admission.Invite)
	founder, a, b := all[0], all[1], all[2]
	admit(t, founder, a)
	admit(t, founder, b)
	for i, m := range []*member{founder, a, b} {
		if err := rules.Check(m.ID, m.membership); err != nil {
			t.Errorf("Check(member %d) = %v", i, err)
		}
	}
	other := rules
	other.Network = "other-0123456789abcdef"
	noFounder := rules
	noFounder.Founders = []peer.ID{all[5].ID}
	forged, forger := family(t, admission.Invite) // the same peers
	forged.Founders = []peer.ID{forger[4].ID}
	forger[4].issuer.Rules = forged
	admit(t, forger[4], forger[5])

	// A member says that it is a founder, to sign.
	liar := admission.Issuer{Rules: rules, Key: a.Key, File: a.issuer.File, Clock: a.issuer.Clock}
	liar.Rules.Founders = []peer.ID{a.ID}
	byMember, err := liar.Redeem(all[5].ID, a.invite(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.issuer.Redeem(all[5].ID, a.invite(t, nil)); !errors.Is(err,
		admission.ErrMayNotInvite) {
		t.Errorf("invitation by a member: Redeem() = %v, want ErrMayNotInvite", err)
	}

	spoiled := slices.Clone(a.membership)
	spoiled[len(spoiled)-1] ^= 1
	for name, tt := range map[string]struct {
		rules admission.Rules
		p     peer.ID
		m     admission.Membership
		want  error
	}{
		"none":               {rules, all[4].ID, nil, admission.ErrNoMember},
		"of another peer":    {rules, all[4].ID, a.membership, admission.ErrMembership},
		"of the inviter":     {rules, a.ID, b.membership, admission.ErrMembership},
		"another network":    {other, a.ID, a.membership, admission.ErrMembership},
		"another founder":    {noFounder, a.ID, a.membership, admission.ErrMembership},
		"self-made founder":  {rules, all[5].ID, forger[5].membership, admission.ErrMembership},
		"signed by a member": {rules, all[5].ID, byMember, admission.ErrMembership},
		"changed":            {rules, a.ID, spoiled, admission.ErrMembership},
	} {
		if err := tt.rules.Check(tt.p, tt.m); !errors.Is(err, tt.want) {
			t.Errorf("%s: Check() = %v, want %v", name, err, tt.want)
		}
	}
	if err := (admission.Rules{}).Check(all[4].ID, nil); err != nil {
		t.Errorf("open network: Check() = %v", err)
	}
}

func TestRedeem(t *testing.T) {
	_, all := family(t, admission.Invite)
	founder, a, b, c := all[0], all[1], all[2], all[3]
	two := founder.invite(t, func(v *admission.Invitation) { v.Uses = 2 })
	for _, p := range []*member{a, b, a, b} { // again: a joining peer may have lost the answer
		if _, err := founder.issuer.Redeem(p.ID, two); err != nil {
			t.Errorf("Redeem() = %v", err)
		}
	}
	if _, err := founder.issuer.Redeem(c.ID, two); !errors.Is(err, admission.ErrUsedUp) {
		t.Errorf("third peer: Redeem() = %v, want ErrUsedUp", err)
	}
	restarted := &member{Peer: founder.Peer}
	restarted.issuer = &admission.Issuer{Rules: founder.issuer.Rules, Key: founder.Key,
		File: founder.issuer.File, Clock: founder.issuer.Clock}
	if _, err := restarted.issuer.Redeem(c.ID, two); !errors.Is(err, admission.ErrUsedUp) {
		t.Errorf("after a restart: Redeem() = %v, want ErrUsedUp", err)
	}
	spoiled := slices.Clone(two)
	spoiled[len(spoiled)/2] ^= 1
	for name, tt := range map[string]struct {
		sealed []byte
		want   error
	}{
		"expired": {founder.invite(t, func(v *admission.Invitation) { v.Expires = start }),
			admission.ErrExpired},
		"another network": {founder.invite(t, func(v *admission.Invitation) { v.Network = "x" }),
			admission.ErrInvitation},
		"another peer": {founder.invite(t, func(v *admission.Invitation) { v.Peer = a.ID }),
			admission.ErrInvitation},
		"signed by another peer": {a.invite(t, nil), admission.ErrInvitation},
		"changed":                {spoiled, admission.ErrInvitation},
		"empty":                  {nil, admission.ErrInvitation},
	} {
		if _, err := founder.issuer.Redeem(c.ID, tt.sealed); !errors.Is(err, tt.want) {
			t.Errorf("%s: Redeem() = %v, want %v", name, err, tt.want)
		}
	}
	if err := os.WriteFile(founder.issuer.File, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if m, err := founder.issuer.Redeem(c.ID, founder.invite(t, nil)); err == nil {
		t.Errorf("Redeem() = %v with an unreadable file of uses", m)
	}
}

// A clock that is set back makes an expired invitation valid, but those who have used it count.
func TestClockSetBack(t *testing.T) {
	_, all := family(t, admission.Invite)
	founder, a, b := all[0], all[1], all[2]
	now := start
	founder.issuer.Clock = clock.Of(func() time.Time { return now })
	one := founder.invite(t, nil)
	for _, step := range []struct {
		after  time.Duration
		by     *member
		sealed []byte
		want   error
	}{
		{0, a, one, nil},
		{25 * time.Hour, b, one, admission.ErrExpired},
		{25 * time.Hour, b, founder.invite(t, func(v *admission.Invitation) {
			v.Expires = start.Add(100 * time.Hour)
		}), nil},
		{0, b, one, admission.ErrUsedUp},
	} {
		now = start.Add(step.after)
		if _, err := founder.issuer.Redeem(step.by.ID, step.sealed); !errors.Is(err, step.want) {
			t.Errorf("Redeem() after %v = %v, want %v", step.after, err, step.want)
		}
	}
}

// noAddrs is the Peers of a Door that knows none.
type noAddrs struct{}

func (noAddrs) JoinAddrs() []string { return nil }

// A stranger is told why it is refused, but nothing of the files of the peer.
func TestRefusal(t *testing.T) {
	rules, all := family(t, admission.Invite)
	founder := all[0]
	h := overlaytest.HostOf(t, founder.Key)
	door := &admission.Door{Host: h, Protocol: "/join", Rules: rules, Profile: []byte("profile"),
		Issuer: founder.issuer, Peers: noAddrs{}}
	server := door.Serve()
	defer server.Close()
	ask := func(invitation []byte) error {
		_, err := admission.Ask(t.Context(), overlaytest.Host(t),
			peer.AddrInfo{ID: h.ID(), Addrs: h.Addrs()}, "/join", invitation)
		return err
	}
	if err := ask(nil); !errors.Is(err, admission.ErrRefused) ||
		!strings.Contains(err.Error(), "has no invitation") {
		t.Errorf("without an invitation: %v", err)
	}
	if err := os.WriteFile(founder.issuer.File, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ask(founder.invite(t, nil)); !errors.Is(err, admission.ErrRefused) ||
		strings.Contains(err.Error(), founder.issuer.File) {
		t.Errorf("with an unreadable file of uses: %v", err)
	}
}

func TestClosed(t *testing.T) {
	rules, all := family(t, admission.Closed)
	founder, a, b := all[0], all[1], all[2]
	if _, err := founder.issuer.Redeem(a.ID, founder.invite(t, nil)); !errors.Is(err,
		admission.ErrMayNotInvite) {
		t.Errorf("invitation for any peer: Redeem() = %v, want ErrMayNotInvite", err)
	}
	admit(t, founder, a)
	if err := rules.Check(a.ID, a.membership); err != nil {
		t.Error(err)
	}
	_, err := a.issuer.Redeem(b.ID, a.invite(t, func(v *admission.Invitation) { v.Peer = b.ID }))
	if !errors.Is(err, admission.ErrMayNotInvite) {
		t.Errorf("invitation by a member: Redeem() = %v, want ErrMayNotInvite", err)
	}
}
