package node

import (
	"errors"
	"path/filepath"
	"testing"

	"peerd/node/admin"
	"peerd/node/config"
	"peerd/store"
)

func TestHostName(t *testing.T) {
	for text, want := range map[string]string{
		"A.example": "a.example", "Bücher.example": "xn--bcher-kva.example", "::1": "::1",
		"[::1]": "::1", "192.0.2.1": "192.0.2.1", "a.example:8080": "a.example",
		"": "", "a b": "", "a/b": "", "http://a.example": "", "u@a.example": "",
	} {
		got, err := HostName(text)
		if got != want || (want == "") != errors.Is(err, admin.ErrBadRequest) {
			t.Errorf("HostName(%q) = %q, %v, want %q", text, got, err, want)
		}
	}
}

// URLs that were given up are listed and queued again by any form of the name of their host.
func TestGivenUpOfHost(t *testing.T) {
	home, err := config.Init(filepath.Join(t.TempDir(), "home"))
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(home.StoreDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *store.Tx) error {
		return tx.GiveUp(store.GivenUp{URL: "http://xn--bcher-kva.example/",
			Outcome: store.OutcomeTimeout})
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	listed := 0
	err = GivenUp(t.Context(), home, "BÜCHER.example", func(admin.GivenUp) error {
		listed++
		return nil
	})
	if listed != 1 || err != nil {
		t.Errorf("GivenUp() lists %d URLs, %v, want one", listed, err)
	}
	res, err := Retry(t.Context(), home, admin.RetryRequest{Host: "bücher.example"})
	if res.Queued != 1 || err != nil {
		t.Errorf("Retry() = %+v, %v, want one URL", res, err)
	}
	what, err := retried(admin.RetryRequest{Host: "bücher.example"})
	if what.Host != "xn--bcher-kva.example" || err != nil {
		t.Errorf("retried() = %+v, %v", what, err)
	}
	_, err = Retry(t.Context(), home, admin.RetryRequest{Host: "a b"})
	if !errors.Is(err, admin.ErrBadRequest) {
		t.Errorf("Retry(a b) = %v, want ErrBadRequest", err)
	}
}
