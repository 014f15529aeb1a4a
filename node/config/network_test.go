package config

import (
	"errors"
	"reflect"
	"testing"

	"peerd/overlay/admission"
	"peerd/overlay/overlaytest"
)

func invited(t *testing.T, founders ...int64) Profile {
	t.Helper()
	p := DefaultProfile()
	p.Name, p.Admission = "gardens", string(admission.Invite)
	for _, seed := range founders {
		_, id := overlaytest.Identity(seed)
		p.Founders = append(p.Founders, id.String())
	}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	return p
}

// Who may join is part of the rules; the order of founders is not.
func TestAdmissionIsPartOfTheDigest(t *testing.T) {
	open := DefaultProfile()
	open.Name = "gardens"
	unset := open
	unset.Admission = ""
	closed := invited(t, 1)
	closed.Admission = string(admission.Closed)
	all := map[string]string{}
	for name, p := range map[string]Profile{"open": open, "closed": closed,
		"one": invited(t, 1), "another": invited(t, 2), "both": invited(t, 1, 2)} {
		if other, ok := all[p.NetworkID()]; ok {
			t.Errorf("%s and %s are the same network", name, other)
		}
		all[p.NetworkID()] = name
	}
	if open.NetworkID() != unset.NetworkID() {
		t.Error("an unset admission is not open")
	}
	if a, b := invited(t, 1, 2), invited(t, 2, 1); a.NetworkID() != b.NetworkID() {
		t.Error("the order of founders changes the network")
	}
	if r := closed.AdmissionRules(); r.Mode != admission.Closed || len(r.Founders) != 1 ||
		r.Network != closed.NetworkID() {
		t.Errorf("AdmissionRules() = %+v", r)
	}
}

// A profile that was written to the home is the same when it is read.
func TestSaveNetwork(t *testing.T) {
	h, err := Init(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := h.NetworkProfile(Default(), ""); err != nil || got.Name != "peerd" {
		t.Errorf("without profile.toml: %s, %v, want the default", got.Name, err)
	}
	p, err := ParseProfile("p.toml", []byte(ProfileTemplate))
	if err != nil {
		t.Fatal(err)
	}
	want := admission.Membership("a\nb")
	for range 2 { // to write the same network again is no error
		if err := h.SaveNetwork(p, want); err != nil {
			t.Fatal(err)
		}
	}
	got, err := h.NetworkProfile(Default(), "")
	if err != nil || got.Digest() != p.Digest() || got.Name != p.Name ||
		!reflect.DeepEqual(got.Seeds, p.Seeds) {
		t.Errorf("NetworkProfile() = %+v, %v\nwant %+v", got, err, p)
	}
	if m, err := h.Membership(); err != nil || !reflect.DeepEqual(m, want) {
		t.Errorf("Membership() = %q, %v", m, err)
	}
	if err := h.SaveNetwork(invited(t, 1), nil); !errors.Is(err, ErrOtherProfile) ||
		!errors.Is(err, ErrInvalid) {
		t.Errorf("SaveNetwork(another network) = %v, want ErrOtherProfile", err)
	}
}
