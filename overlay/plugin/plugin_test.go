package plugin

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"go.uber.org/goleak"
	"golang.org/x/time/rate"

	"peerd/overlay/overlaytest"
	"peerd/overlay/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var module = bytes.Repeat([]byte("module"), 10_000)

func sign(t *testing.T, key crypto.PrivKey, name string, version uint64, code []byte) []byte {
	t.Helper()
	pkg, err := Sign(key, name, version, code)
	if err != nil {
		t.Fatal(err)
	}
	return pkg
}

// Every byte of a package is covered by the signature or by the digest.
func TestForged(t *testing.T) {
	key, id := overlaytest.Identity(1)
	pkg := sign(t, key, "links", 3, []byte("code"))
	s, code, err := Open(pkg)
	if err != nil || s.Publisher != id || s.Name != "links" || s.Version != 3 ||
		string(code) != "code" {
		t.Fatalf("%+v, %q, %v", s, code, err)
	}
	for i := range pkg {
		b := bytes.Clone(pkg)
		b[i] ^= 1
		got, _, err := Open(b)
		if err == nil && (got.Publisher == id || i > len(pkg)-5) {
			t.Errorf("a package with another byte %d is accepted", i)
		}
		if _, _, err := Open(pkg[:i]); err == nil {
			t.Errorf("the first %d bytes of a package are accepted", i)
		}
	}
	for _, name := range []string{"", "../x", "A", "a.b", "a/b", "-a"} {
		if _, err := Sign(key, name, 1, module); !errors.Is(err, ErrPlugin) {
			t.Errorf("name %q: %v", name, err)
		}
	}
	if _, err := Sign(key, "big", 1, make([]byte, MaxModule+1)); !errors.Is(err, ErrPlugin) {
		t.Errorf("large module: %v", err)
	}
}

func TestFolder(t *testing.T) {
	key, id := overlaytest.Identity(1)
	stranger, _ := overlaytest.Identity(2)
	// The name of a folder may have characters that mean something in a pattern.
	f := Folder{Dir: filepath.Join(t.TempDir(), "[my] *", "plugins"), Publishers: []peer.ID{id}}
	if all, err := f.List(); len(all) > 0 || err != nil {
		t.Fatalf("a folder that does not exist has %d plug-ins, %v", len(all), err)
	}
	if _, err := f.Put(sign(t, stranger, "links", 9, module)); !errors.Is(err, ErrNotTrusted) {
		t.Fatalf("plug-in of a stranger: %v", err)
	}
	put := func(version uint64, want uint64) Entry {
		t.Helper()
		if _, err := f.Put(sign(t, key, "links", version, module)); err != nil {
			t.Fatal(err)
		}
		all, err := f.List()
		if err != nil || len(all) != 1 || all[0].Version != want || !all[0].Trusted ||
			all[0].Off != "" {
			t.Fatalf("%+v, %v, want version %d", all, err, want)
		}
		return all[0]
	}
	put(2, 2)
	for _, pkg := range [][]byte{sign(t, key, "links", 1, module),
		sign(t, key, "links", 2, module[1:])} {
		if _, err := f.Put(pkg); !errors.Is(err, ErrOld) {
			t.Errorf("a package that is not newer: %v, want ErrOld", err)
		}
	}
	put(2, 2)
	e := put(3, 3)
	if code, err := f.Module(e); err != nil || !bytes.Equal(code, module) {
		t.Errorf("module of %d bytes, %v", len(code), err)
	}
	if err := f.SwitchOff(e.Signed, errors.New("it\nloops")); err != nil {
		t.Fatal(err)
	}
	if all, err := f.List(); err != nil || all[0].Off != "it loops" {
		t.Errorf("%+v, %v, want it off", all, err)
	}
	put(3, 3)

	// A module that was replaced, and a package that was put there, are not trusted.
	pkg := sign(t, key, "links", 3, module)
	pkg[len(pkg)-1]++
	if err := os.WriteFile(f.path(&e.Signed), pkg, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Module(e); !errors.Is(err, ErrPlugin) {
		t.Errorf("replaced module: %v", err)
	}
	other := Folder{Dir: f.Dir}
	if all, err := other.List(); err != nil || len(all) != 1 || all[0].Trusted {
		t.Errorf("%+v, %v, want one that is not trusted", all, err)
	} else if _, err := other.Module(all[0]); !errors.Is(err, ErrNotTrusted) {
		t.Errorf("module that is not trusted: %v", err)
	}
	for i := range MaxPlugins {
		_, err := f.Put(sign(t, key, string(rune('a'+i)), 1, module))
		if full := i == MaxPlugins-1; (err != nil) != full {
			t.Errorf("plug-in %d: %v", i, err)
		}
	}
}

// A plug-in, and its next version, reach the peer that trusts the publisher, also over a third one;
// not the one that does not.
func TestSpread(t *testing.T) {
	key, id := overlaytest.Identity(1)
	trust := []peer.ID{id}
	services := make([]*Service, 4)
	var infos []peer.AddrInfo
	for i := range services {
		h := overlaytest.Host(t)
		infos = append(infos, peer.AddrInfo{ID: h.ID(), Addrs: h.Addrs()})
		services[i] = &Service{Host: h, Protocol: "/peerd/test/plugin/1.0.0",
			Folder: Folder{Dir: t.TempDir(), Publishers: trust},
			Every:  20 * time.Millisecond, Timeout: time.Minute, Logger: overlaytest.Log(t)}
		server := services[i].Serve()
		t.Cleanup(server.Close)
	}
	services[3].Folder.Publishers = nil
	for i, s := range services { // each knows the one before
		s.Peers = peersFunc(func() []peer.AddrInfo { return infos[max(0, i-1):i] })
	}
	services[3].Peers = services[1].Peers
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	defer run.Wait()
	defer cancel()
	for _, s := range services {
		run.Go(func() { _ = s.Run(ctx) })
	}
	for version := range uint64(2) {
		if _, err := services[0].Folder.Put(sign(t, key, "links", version+1, module)); err != nil {
			t.Fatal(err)
		}
		overlaytest.Until(t, "the plug-in has come to the third peer", func() bool {
			all, err := services[2].Folder.List()
			return err == nil && len(all) == 1 && all[0].Version == version+1
		})
	}
	if all, err := services[3].Folder.List(); err != nil || len(all) > 0 {
		t.Errorf("a peer that trusts no publisher has %+v, %v", all, err)
	}
}

// A plug-in that is switched off is not passed on. The rate at which modules are sent is limited
// for all peers together.
func TestServe(t *testing.T) {
	key, id := overlaytest.Identity(1)
	s := &Service{Host: overlaytest.Host(t), Protocol: "/peerd/test/plugin/1.0.0",
		Folder:  Folder{Dir: t.TempDir(), Publishers: []peer.ID{id}},
		Timeout: time.Minute, Logger: overlaytest.Log(t)}
	server := s.Serve()
	t.Cleanup(server.Close)
	on, err := s.Folder.Put(sign(t, key, "on", 1, module))
	if err != nil {
		t.Fatal(err)
	}
	off, err := s.Folder.Put(sign(t, key, "off", 1, module[1:]))
	if err == nil {
		err = s.Folder.SwitchOff(off, errors.New("it loops"))
	}
	if err != nil {
		t.Fatal(err)
	}
	to := peer.AddrInfo{ID: s.Host.ID(), Addrs: s.Host.Addrs()}
	ask := func(q request) (reply, error) {
		client := &Service{Host: overlaytest.Host(t), Protocol: s.Protocol, Timeout: time.Minute}
		return client.ask(t.Context(), to, q)
	}
	a, err := ask(request{Publishers: []string{id.String()}})
	if err != nil || len(a.Manifests) != 1 || !bytes.Equal(a.Manifests[0], on.sealed) {
		t.Errorf("got %d manifests, %v, want that of the plug-in that is on", len(a.Manifests), err)
	}
	if a, err := ask(request{Digest: off.Digest}); err != nil || len(a.Module) > 0 {
		t.Errorf("a plug-in that is off: %d bytes, %v", len(a.Module), err)
	}
	s.modules = rate.NewLimiter(0, 1)
	if a, err := ask(request{Digest: make([]byte, 32)}); err != nil || len(a.Module) > 0 {
		t.Errorf("a plug-in that it does not have: %d bytes, %v", len(a.Module), err)
	}
	if a, err := ask(request{Digest: on.Digest}); err != nil || !bytes.Equal(a.Module, module) {
		t.Errorf("a plug-in that is on: %d bytes, %v", len(a.Module), err)
	}
	if a, err := ask(request{Digest: on.Digest}); err == nil {
		t.Errorf("more modules than are allowed: %d bytes, want a refusal", len(a.Module))
	}
}

type peersFunc func() []peer.AddrInfo

func (f peersFunc) Infos() []peer.AddrInfo { return f() }

// A peer that sends something else than it was asked for, or that is not signed, changes nothing.
func TestHostile(t *testing.T) {
	key, id := overlaytest.Identity(1)
	stranger, _ := overlaytest.Identity(2)
	good, bad := sign(t, key, "links", 1, module), sign(t, stranger, "links", 1, module)
	sealed := func(pkg []byte) []byte { return pkg[2 : len(pkg)-len(module)] }
	for name, answers := range map[string][2]reply{
		"stranger":     {{Manifests: [][]byte{sealed(bad)}}, {Module: module}},
		"other module": {{Manifests: [][]byte{sealed(good)}}, {Module: module[1:]}},
		"no module":    {{Manifests: [][]byte{sealed(good)}}, {}},
		"nonsense":     {{Manifests: [][]byte{{1, 2, 3}}}, {Module: module}},
		"many":         {{Manifests: make([][]byte, MaxPlugins+1)}, {}},
	} {
		h := overlaytest.Host(t)
		server := wire.Serve(h, "/peerd/test/plugin/1.0.0", wire.Limits{MaxMsg: maxRequest,
			Timeout: time.Minute}, nil, func(_ context.Context, c *wire.Conn) error {
			var q request
			if err := c.Recv(&q); err != nil {
				return err
			}
			if q.Digest != nil {
				return c.SendZ(answers[1])
			}
			return c.SendZ(answers[0])
		})
		t.Cleanup(server.Close)
		s := &Service{Host: overlaytest.Host(t), Protocol: "/peerd/test/plugin/1.0.0",
			Folder:  Folder{Dir: t.TempDir(), Publishers: []peer.ID{id}},
			Timeout: time.Minute, Logger: overlaytest.Log(t)}
		err := s.update(t.Context(), peer.AddrInfo{ID: h.ID(), Addrs: h.Addrs()})
		if all, _ := s.Folder.List(); err == nil || len(all) > 0 {
			t.Errorf("%s: %v, and %d plug-ins", name, err, len(all))
		}
	}
}

// What cannot be stored does not keep others from being updated.
func TestUpdateAll(t *testing.T) {
	key, id := overlaytest.Identity(1)
	service := func() *Service {
		return &Service{Host: overlaytest.Host(t), Protocol: "/peerd/test/plugin/1.0.0",
			Folder:  Folder{Dir: t.TempDir(), Publishers: []peer.ID{id}},
			Timeout: time.Minute, Logger: overlaytest.Log(t)}
	}
	from, to := service(), service()
	put := func(s *Service, name string, version uint64) {
		t.Helper()
		if _, err := s.Folder.Put(sign(t, key, name, version, module)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range MaxPlugins {
		put(to, string(rune('b'+i)), 1)
	}
	put(from, "a", 1) // there is no space for it
	put(from, "c", 2)
	server := from.Serve()
	t.Cleanup(server.Close)
	err := to.update(t.Context(), peer.AddrInfo{ID: from.Host.ID(), Addrs: from.Host.Addrs()})
	if err == nil {
		t.Error("a plug-in too many: no error")
	}
	all, err := to.Folder.List()
	if err != nil || len(all) != MaxPlugins || all[1].Name != "c" || all[1].Version != 2 {
		t.Errorf("%+v, %v, want version 2 of c", all, err)
	}
}

func FuzzOpen(f *testing.F) {
	key, _ := overlaytest.Identity(1)
	pkg, err := Sign(key, "links", 1, []byte("code"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(pkg)
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, code, err := Open(b); err == nil && (s.check() != nil || len(code) != s.Size) {
			t.Errorf("%+v with %d bytes is accepted", s, len(code))
		}
	})
}
