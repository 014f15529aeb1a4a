package mirror

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/overlaytest"
	"peerd/overlay/peers"
	"peerd/overlay/wire"
	"peerd/store/warc"
)

// A copy follows its archive, goes on from where it was when either end was away, and repairs what
// differs.
func TestFollow(t *testing.T) {
	k := keeper(t, 1<<30)
	s := sender(t, k)
	add(t, s, 0, 9)
	stop := running(t, s)
	untilCopied(t, s, k)
	add(t, s, 9, 1)
	c := untilCopied(t, s, k)
	overlaytest.Until(t, "the mirror follows", func() bool {
		n, behind := s.State()
		return n == 1 && behind == 0
	})
	stop()
	if n, _ := s.State(); n != 0 {
		t.Errorf("%d mirrors follow after the end", n)
	}
	overlaytest.Until(t, "the conversation is over", c.idle)
	if n, err := OpenNaming(c.Naming(), network, time.Now()); err != nil ||
		n.Mirror != k.Host.ID() || n.Owner != s.Host.ID() {
		t.Errorf("named %+v, %v", n, err)
	}

	if err := k.Open(); err != nil { // as after a restart
		t.Fatal(err)
	}
	if c := copyOf(k); c == nil || !c.Whole() || time.Since(c.spoke()) > time.Hour {
		t.Fatalf("%+v after a restart", c)
	}
	index := copyOf(k).IndexDir()
	add(t, s, 10, 5)
	stop = running(t, s)
	untilCopied(t, s, k)
	stop()
	if again := copyOf(k).IndexDir(); again != index {
		t.Errorf("the copy was replaced: %s", again)
	}

	overlaytest.Until(t, "the conversation is over", copyOf(k).idle)
	files, err := filepath.Glob(filepath.Join(k.Dir, "*", "archive", "*.warc.gz.open"))
	if err != nil || len(files) < 3 {
		t.Fatalf("files %v, %v", files, err)
	}
	damage(t, files[0], func(b []byte) []byte { b[len(b)-9] ^= 1; return b })
	damage(t, files[1], func(b []byte) []byte { return append(b, 1, 2, 3) })
	if err := os.Rename(files[2], strings.Replace(files[2], "peerd", "other", 1)); err != nil {
		t.Fatal(err)
	}
	if err := k.Open(); err != nil {
		t.Fatal(err)
	}
	stop = running(t, s)
	untilCopied(t, s, k)
	stop()
	if again := copyOf(k).IndexDir(); again == index {
		t.Errorf("the index of what was copied before is kept: %s", again)
	}
}

func damage(t *testing.T, name string, change func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err == nil {
		err = os.WriteFile(name, change(b), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A peer without room, or for which the archive is too large, refuses, and another one is chosen;
// so it is when it has no more room later. What it has is not whole then.
func TestRefused(t *testing.T) {
	none, small, large := keeper(t, 0), keeper(t, 100), keeper(t, 1<<30)
	full := keeper(t, 1<<30)
	full.Space = disk{errors.New("the disk is full")}
	s := sender(t, none, small, full, large)
	add(t, s, 0, 3)
	stop := running(t, s)
	untilCopied(t, s, large)
	stop()
	if got, _ := s.Choice.Load(); !slices.Equal(got, []peer.ID{large.Host.ID()}) {
		t.Errorf("chose %v, want %s", got, large.Host.ID())
	}

	end, err := s.Archive.Position(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	limited := keeper(t, 2*sum(end)+100)
	s = sender(t, limited)
	add(t, s, 0, 3)
	stop = running(t, s)
	untilCopied(t, s, limited)
	add(t, s, 3, 20)
	overlaytest.Until(t, "the mirror refuses", func() bool {
		got, _ := s.Choice.Load()
		return len(got) == 0
	})
	stop()
	if c := copyOf(limited); c.Bytes() > limited.Bytes/2 || c.Whole() {
		t.Errorf("%d bytes of %d copied, whole: %v", c.Bytes(), limited.Bytes/2, c.Whole())
	}
	limited.Bytes = 0 // after a restart with other settings
	if _, err := limited.take(s.Host.ID(), 0); err == nil {
		t.Error("a peer that keeps no copies any more goes on with one")
	}
}

// A mirror that cannot read or write its copy says so, and closes the stream: a reset could
// overtake what it says.
func TestRefusalArrives(t *testing.T) {
	k := keeper(t, 1<<30)
	owner := overlaytest.Peers(2, 1)[0]
	h := overlaytest.HostOf(t, owner.Key)
	overlaytest.Introduce(h, k.Host)
	wire.Meet(k.Host.Peerstore(), h.ID())
	naming, err := SealNaming(Naming{Mirror: k.Host.ID(), At: time.Now()}, network, owner.Key)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(k.Dir, h.ID().String())
	replace := func(name string, by func(string) error) {
		t.Helper()
		if err := errors.Join(os.RemoveAll(name), by(name)); err != nil {
			t.Fatal(err)
		}
	}
	offered := func() (*wire.Conn, held) {
		t.Helper()
		c, err := wire.Dial(t.Context(), h, k.Host.ID(),
			wire.Limits{MaxMsg: maxHeld, Timeout: 20 * time.Second}, protocolID)
		if err != nil {
			t.Fatal(err)
		}
		var has held
		if err := errors.Join(c.Send(offer{Naming: naming}), c.Recv(&has)); err != nil {
			t.Fatal(err)
		}
		return c, has
	}
	closed := func(c *wire.Conn) {
		t.Helper()
		defer c.Reset()
		if err := c.Recv(&ack{}); !errors.Is(err, io.EOF) {
			t.Errorf("after a refusal Recv() = %v, want %v", err, io.EOF)
		}
	}

	c, _ := offered()
	var a ack
	if err := errors.Join(c.Send(piece{}), c.Recv(&a)); err != nil { // the copy is whole
		t.Fatal(err)
	}
	// No state can be stored in the place of a directory.
	replace(filepath.Join(dir, "state"), func(name string) error { return os.Mkdir(name, 0o700) })
	err = errors.Join(c.Send(piece{File: "a.warc.gz", At: 9, Data: []byte("x")}), c.Recv(&a))
	if err != nil || a.Refused == "" {
		t.Fatalf("a piece that cannot be stored is answered with %+v, %v", a, err)
	}
	closed(c)

	overlaytest.Until(t, "the conversation is over", copyOf(k).idle)
	replace(filepath.Join(dir, "state"), func(string) error { return nil })
	replace(filepath.Join(dir, "archive"), func(name string) error {
		return os.WriteFile(name, nil, 0o600)
	})
	c, has := offered()
	if has.Refused == "" {
		t.Fatalf("an offer for a copy that cannot be read is answered with %+v", has)
	}
	closed(c)
}

// The index of what a copy was before is deleted in a folder with any name.
func TestRemoveOldIndexes(t *testing.T) {
	c := newCopy(filepath.Join(t.TempDir(), "[a]"), "p")
	old := c.IndexDir()
	c.state.Version++
	if err := errors.Join(os.MkdirAll(old, 0o700), os.Mkdir(c.IndexDir(), 0o700),
		c.RemoveOldIndexes()); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(c.dir)
	if err != nil || len(left) != 1 || left[0].Name() != filepath.Base(c.IndexDir()) {
		t.Errorf("%v remains, %v; want only the present index", left, err)
	}
}

// No peer but its owner changes a copy, and the owner only as a mirror expects.
func TestHostileOwner(t *testing.T) {
	k := keeper(t, 1<<30)
	other := overlaytest.Peers(2, 1)[0]
	h := overlaytest.HostOf(t, other.Key)
	overlaytest.Introduce(h, k.Host)
	wire.Meet(k.Host.Peerstore(), h.ID())
	key := overlaytest.Peers(1, 1)[0].Key
	named := func(n Naming, by overlaytest.Peer) []byte {
		raw, err := SealNaming(n, network, by.Key)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	now := time.Now()
	self := k.Host.ID()
	good := named(Naming{Mirror: self, At: now}, other)
	by := overlaytest.Peer{Key: key}
	// ask sends messages and returns whether all were answered without a refusal.
	ask := func(o offer, pieces ...piece) bool {
		c, err := wire.Dial(t.Context(), h, k.Host.ID(),
			wire.Limits{MaxMsg: maxHeld, Timeout: 20 * time.Second}, protocolID)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Reset()
		var has held
		if errors.Join(c.Send(o), c.Recv(&has)) != nil || has.Refused != "" {
			return false
		}
		for _, p := range pieces {
			var a ack
			if errors.Join(c.Send(p), c.Recv(&a)) != nil || a.Refused != "" {
				return false
			}
		}
		return true
	}
	for name, o := range map[string]offer{
		"no naming":         {},
		"of another mirror": {Naming: named(Naming{Mirror: h.ID(), At: now}, other)},
		"of another peer":   {Naming: named(Naming{Mirror: self, At: now}, by)},
		"old":               {Naming: named(Naming{Mirror: self, At: now.Add(-2 * MaxAge)}, other)},
		"of the future":     {Naming: named(Naming{Mirror: self, At: now.Add(time.Hour)}, other)},
		"too large":         {Naming: good, Bytes: 1 << 40},
		"negative":          {Naming: good, Bytes: -1},
	} {
		if ask(o) {
			t.Errorf("accepted an offer: %s", name)
		}
		k.limiter = wire.Limiter{}
	}
	a := piece{File: "a.warc.gz", Data: []byte("abc")}
	if !ask(offer{Naming: good}, a, piece{File: a.File, At: 3, Data: []byte("d")}, piece{}) {
		t.Fatal("refused an owner")
	}
	for name, p := range map[string]piece{
		"behind the end":  {File: a.File, At: 9, Data: a.Data},
		"before the end":  {File: a.File, At: 1, Data: a.Data},
		"another folder":  {File: "../" + a.File, Data: a.Data},
		"no archive":      {File: "state", Data: a.Data},
		"no file":         {Data: a.Data},
		"too long":        {File: a.File, At: 4, Data: make([]byte, pieceSize+1)},
		"gone, with data": {File: a.File, Data: a.Data, Gone: true},
		"negative":        {File: a.File, At: -1},
	} {
		k.limiter = wire.Limiter{}
		if ask(offer{Naming: good}, p) {
			t.Errorf("accepted a piece: %s", name)
		}
	}
	k.limiter = wire.Limiter{}
	if !ask(offer{Naming: good}, piece{File: "b.warc.gz"}, piece{File: "b.warc.gz", Gone: true}) {
		t.Error("refused to delete a file")
	}
	parts, err := copyOf(k).parts()
	if err != nil || len(parts) != 1 || parts[a.File].Size != 4 {
		t.Errorf("copied %+v, %v", parts, err)
	}
}

// An owner cannot have any number of files created.
func TestManyFiles(t *testing.T) {
	c := newCopy(t.TempDir(), "p")
	c.sizes = map[string]int64{"a.warc.gz": 5}
	for i := range warc.MaxFiles - 1 {
		c.sizes[fmt.Sprint(i)] = 1
	}
	if err := c.prepare(&piece{File: "a.warc.gz", At: 5}); err != nil {
		t.Error(err)
	}
	if err := c.prepare(&piece{File: "b.warc.gz"}); err == nil {
		t.Error("accepted a file more")
	}
}

// The mirrors remain the same while they answer. Copies are spread over all peers.
func TestChoose(t *testing.T) {
	all := overlaytest.Identities(3, 60, func(id peer.ID, _ crypto.PrivKey) peer.ID { return id })
	state := map[peer.ID]fitness{}
	pick := func(self peer.ID, count int, now, candidates []peer.ID) []peer.ID {
		return choose(self, count, now, candidates, func(p peer.ID) fitness { return state[p] })
	}
	load := map[peer.ID]int{}
	for _, self := range all {
		got := pick(self, 2, nil, all)
		if len(got) != 2 || got[0] == got[1] || slices.Contains(got, self) {
			t.Fatalf("chose %v for %s", got, self)
		}
		for _, p := range got {
			load[p]++
		}
	}
	for p, n := range load {
		if n > 10 {
			t.Errorf("%s keeps %d copies of 120 at 60 peers", p, n)
		}
	}
	self, few := all[0], all[1:4]
	now := pick(self, 2, nil, few)
	if got := pick(self, 2, now, all); !slices.Equal(got, now) {
		t.Errorf("replaced %v by %v although they answer", now, got)
	}
	if got := pick(self, 2, now, nil); !slices.Equal(got, now) {
		t.Errorf("%v remains of %v", got, now)
	}
	if got := pick(self, 1, now, all); !slices.Equal(got, now[:1]) {
		t.Errorf("chose %v, want one of %v", got, now)
	}
	state[now[0]] = silent
	if got := pick(self, 2, now, now); !slices.Equal(got, []peer.ID{now[1], now[0]}) {
		t.Errorf("chose %v of %v, of which the first is silent and no other is known", got, now)
	}
	if got := pick(self, 2, now, few); slices.Contains(got, now[0]) || got[0] != now[1] {
		t.Errorf("chose %v in place of %v, of which the first is silent", got, now)
	}
	state[now[1]] = refuses
	if got := pick(self, 2, now, few); slices.Contains(got, now[1]) {
		t.Errorf("chose %v, of which %s refuses", got, now[1])
	}
}

// A copy is searched while its owner is absent, and deleted when it is of no use.
func TestAbsenceAndSweep(t *testing.T) {
	k := keeper(t, 1<<30)
	owners := overlaytest.Peers(4, 5)
	for _, o := range owners {
		c, err := k.take(o.ID, 5)
		if err != nil {
			t.Fatal(err)
		}
		c.sizes, c.state.WasWhole = map[string]int64{"a.warc.gz": 5}, true
	}
	now := time.Now()
	k.started = now.Add(-time.Hour)
	k.Lives = lives{
		owners[0].ID: {State: peers.Dead},
		owners[1].ID: {State: peers.Suspect, Heard: now.Add(-time.Minute)},
		owners[2].ID: {State: peers.Suspect, Heard: now.Add(-time.Second)},
		owners[3].ID: {State: peers.Unknown},
	}
	absent := func() (all []int) {
		for _, c := range k.Absent() {
			all = append(all, slices.IndexFunc(owners, func(o overlaytest.Peer) bool {
				return o.ID == c.Owner
			}))
		}
		slices.Sort(all)
		return all
	}
	if got := absent(); !slices.Equal(got, []int{0, 1, 3}) {
		t.Errorf("absent: %v", got)
	}
	for _, c := range k.All()[:3] {
		c.state.Spoke = now.Add(-lostFor).Unix()
	}
	lost := map[peer.ID]bool{}
	for _, c := range k.Lost() {
		lost[c.Owner] = true
	}
	for _, c := range k.All() {
		want := k.Lives.Liveness(c.Owner).State != peers.Alive || c.spoke().After(now.Add(-lostFor))
		if lost[c.Owner] != want {
			t.Errorf("%v is lost: %v", k.Lives.Liveness(c.Owner), !want)
		}
		c.touch()
	}
	k.started = now.Add(-time.Minute)
	if got := absent(); !slices.Equal(got, []int{0, 1}) {
		t.Errorf("absent soon after the start: %v", got)
	}
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{dropAfter - time.Hour, 5}, {dropAfter + time.Hour, 4}, {MaxAge - time.Hour, 4},
		{MaxAge + time.Hour, 0}} {
		k.sweep(now.Add(step.after))
		if got := len(k.All()); got != step.want {
			t.Errorf("%d copies after %v, want %d", got, step.after, step.want)
		}
	}
	if left, err := os.ReadDir(k.Dir); err == nil && len(left) > 0 {
		t.Errorf("%d folders are left", len(left))
	}
	k.deleting[owners[0].ID] = true // a folder is being deleted
	if _, err := k.take(owners[0].ID, 5); err == nil {
		t.Error("a copy began in a folder that is being deleted")
	}
	if _, err := k.take(owners[1].ID, 5); err != nil {
		t.Errorf("after the copies were deleted: %v", err)
	}
}

// The deletion of a copy that was interrupted is finished at the next start: its files would count
// for no limit. Anything else that is no copy is left alone.
func TestInterruptedDeletion(t *testing.T) {
	k := keeper(t, 1<<30)
	owners := overlaytest.Peers(4, 2)
	for _, o := range owners {
		c, err := k.take(o.ID, 5)
		if err != nil {
			t.Fatal(err)
		}
		if _, leave, err := c.enter(t.Context(), nil); err != nil {
			t.Fatal(err)
		} else {
			leave()
		}
		if _, err := c.parts(); err != nil {
			t.Fatal(err)
		}
		if err := c.store(&piece{File: "a.warc.gz", Data: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	deleted := k.copies[owners[0].ID]
	if err := os.Remove(deleted.stateFile()); err != nil { // the first thing that remove does
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(k.Dir, "notes"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := k.Open(); err != nil {
		t.Fatal(err)
	}
	if c := copyOf(k); c == nil || c.Owner != owners[1].ID {
		t.Errorf("copies %v, want that of %v", k.All(), owners[1].ID)
	}
	if _, err := os.Stat(deleted.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the rest of the deleted copy is still there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(k.Dir, "notes")); err != nil {
		t.Error(err)
	}
}

// A copy that stays empty or was never whole is deleted earlier, but not during a conversation.
func TestSweepOfUnfilled(t *testing.T) {
	k := keeper(t, 1<<30)
	now := time.Now()
	k.started = now.Add(-time.Hour)
	unknown := lives{}
	names := map[peer.ID]string{}
	for i, name := range []string{"empty", "talking", "part", "once whole"} {
		o := overlaytest.Peers(4, 4)[i]
		c, err := k.take(o.ID, 5)
		if err != nil {
			t.Fatal(err)
		}
		names[o.ID], unknown[o.ID] = name, peers.Liveness{State: peers.Unknown}
		if name == "talking" {
			_, leave, err := c.enter(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer leave()
			continue
		}
		if _, err := c.parts(); err != nil {
			t.Fatal(err)
		}
		p := piece{File: "a.warc.gz", Data: []byte("x"), Behind: maxBehind}
		switch name {
		case "empty": // although it says that it is whole
			err = c.store(&piece{})
		case "part":
			err = c.store(&p)
		case "once whole":
			err = errors.Join(c.store(&piece{}), c.store(&p), c.behind(maxBehind+1))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	k.Lives = unknown
	for _, step := range []struct {
		after time.Duration
		want  []string
	}{
		{emptyAfter - time.Minute, []string{"empty", "once whole", "part", "talking"}},
		{emptyAfter + time.Minute, []string{"once whole", "part", "talking"}},
		{dropAfter - time.Minute, []string{"once whole", "part", "talking"}},
		{dropAfter + time.Minute, []string{"once whole", "talking"}},
		{MaxAge + time.Minute, []string{"talking"}},
	} {
		k.sweep(now.Add(step.after))
		var got []string
		for _, c := range k.All() {
			got = append(got, names[c.Owner])
		}
		if slices.Sort(got); !slices.Equal(got, step.want) {
			t.Errorf("after %v: %v, want %v", step.after, got, step.want)
		}
	}
}

// A naming is of one network and for some time.
func TestNaming(t *testing.T) {
	p := overlaytest.Peers(1, 2)
	now := time.Now()
	raw, err := SealNaming(Naming{Mirror: p[1].ID, At: now}, network, p[0].Key)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := OpenNaming(raw, network, now.Add(MaxAge-time.Minute)); err != nil ||
		n.Owner != p[0].ID || n.Mirror != p[1].ID {
		t.Errorf("%+v, %v", n, err)
	}
	if _, err := OpenNaming(raw, network, now.Add(MaxAge+time.Minute)); err == nil {
		t.Error("accepted an old naming")
	}
	if _, err := OpenNaming(raw, "other", now); err == nil {
		t.Error("accepted a naming of another network")
	}
	if _, err := OpenNaming(bytes.Replace(raw, []byte(p[1].ID), []byte(p[0].ID), 1), network,
		now); err == nil {
		t.Error("accepted a naming that was changed")
	}
}

// FuzzMessages reads messages: what passes the checks is within bounds.
func FuzzMessages(f *testing.F) {
	raw, err := SealNaming(Naming{Mirror: overlaytest.Peers(1, 1)[0].ID, At: time.Now()}, network,
		overlaytest.Peers(1, 1)[0].Key)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	for _, v := range []any{offer{raw, 5}, held{Files: map[string]warc.Part{"a.warc.gz": {Size: 5,
		Sum: []byte("x")}}}, piece{File: "a.warc.gz", At: 5, Data: []byte("x"), Whole: true},
		ack{"no"}} {
		raw, err := wire.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var p piece
		if wire.Unmarshal(raw, &p) == nil && p.check() == nil && (p.At < 0 ||
			p.File != "" && filepath.Base(p.File) != p.File || len(p.Data) > pieceSize) {
			t.Fatalf("accepted %+v", p)
		}
		var h held
		if wire.Unmarshal(raw, &h) == nil && h.check() == nil {
			for name, part := range h.Files {
				if part.Size < 0 || filepath.Base(name) != name {
					t.Fatalf("accepted %s, %+v", name, part)
				}
			}
		}
		var o offer
		_ = wire.Unmarshal(raw, &o)
		_, _ = OpenNaming(raw, network, time.Now())
	})
}
