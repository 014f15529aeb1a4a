package mirror

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/google/renameio/v2"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/wire"
	"peerd/store/warc"
)

// maxBehind is how many bytes a copy may lack that counts as whole: an archive grows always.
const maxBehind = 16 << 20

// saveEvery is how often the time when the owner was heard is stored.
const saveEvery = time.Hour

// Copy is the copy of the archive of one peer. Its folder has the files of the archive, the state,
// and whatever is derived from them.
type Copy struct {
	Owner peer.ID
	dir   string

	writing sync.Mutex // held by the conversation with the owner
	files   *warc.Copy // nil before the first conversation

	mu     sync.Mutex
	state  state
	saved  time.Time          // when state was stored
	sizes  map[string]int64   // of the files
	cancel context.CancelFunc // ends the conversation with the owner; nil: there is none
}

// state is what is stored of a copy besides the files.
type state struct {
	Naming []byte `cbor:"1,keyasint"`
	Spoke  int64  `cbor:"2,keyasint"` // Unix time in s
	// Whole says that the copy has all but maxBehind bytes of what the owner has told of.
	Whole bool `cbor:"3,keyasint"`
	// Version grows when something is removed from the files.
	Version int64 `cbor:"4,keyasint"`
	// WasWhole says that the copy is or was whole.
	WasWhole bool `cbor:"5,keyasint"`
}

func newCopy(dir string, owner peer.ID) *Copy { return &Copy{Owner: owner, dir: dir} }

// errDeleted means that the deletion of a copy has begun: a copy has a state before it has files.
var errDeleted = errors.New("mirror: the copy was being deleted")

// openCopy reads the copy in a folder.
func openCopy(dir, name string) (*Copy, error) {
	owner, err := peer.Decode(name)
	if err != nil {
		return nil, err
	}
	c := newCopy(dir, owner)
	raw, err := os.ReadFile(c.stateFile())
	if errors.Is(err, os.ErrNotExist) {
		return nil, errDeleted
	}
	if err == nil {
		err = wire.Unmarshal(raw, &c.state)
	}
	if err == nil {
		_, err = c.parts()
	}
	return c, err
}

func (c *Copy) stateFile() string { return filepath.Join(c.dir, "state") }

// Archive returns a reader of the copied archive.
func (c *Copy) Archive() (*warc.Reader, error) {
	return warc.OpenReader(filepath.Join(c.dir, "archive"))
}

// IndexDir returns the folder of the index of the copy. It is another one when something was
// removed from the copy.
func (c *Copy) IndexDir() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return filepath.Join(c.dir, "index-"+strconv.FormatInt(c.state.Version, 10))
}

// RemoveOldIndexes deletes the folders that IndexDir has returned before.
func (c *Copy) RemoveOldIndexes() error {
	now := filepath.Base(c.IndexDir())
	all, err := fs.Glob(os.DirFS(c.dir), "index-*")
	for _, name := range all {
		if name != now {
			err = errors.Join(err, os.RemoveAll(filepath.Join(c.dir, name)))
		}
	}
	return err
}

// Naming returns what shows that the owner has named this peer.
func (c *Copy) Naming() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.Naming
}

// Whole reports whether the copy has nearly all that the owner has told of.
func (c *Copy) Whole() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.Whole
}

// wasWhole reports whether the copy is or was whole.
func (c *Copy) wasWhole() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.WasWhole
}

// Bytes returns the size of the copied files.
func (c *Copy) Bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return sum(c.sizes)
}

// spoke returns when the owner was heard last in a conversation.
func (c *Copy) spoke() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Unix(c.state.Spoke, 0)
}

// touch records that the owner was just heard.
func (c *Copy) touch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Spoke = time.Now().Unix()
}

// idle reports whether there is no conversation with the owner.
func (c *Copy) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cancel == nil
}

// enter begins a conversation with the owner, after the end of an earlier one.
func (c *Copy) enter(
	ctx context.Context, naming []byte,
) (_ context.Context, leave func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	c.mu.Lock()
	if c.cancel != nil {
		c.cancel()
	}
	c.mu.Unlock()
	c.writing.Lock()
	c.mu.Lock()
	c.cancel, c.state.Naming = cancel, naming
	err = c.save(time.Now())
	c.mu.Unlock()
	leave = func() {
		cancel()
		c.mu.Lock()
		c.cancel = nil
		_ = c.save(time.Now()) // the next conversation does it again
		c.mu.Unlock()
		c.writing.Unlock()
	}
	if err != nil {
		leave()
	}
	return ctx, leave, err
}

// save stores the state. c.mu is held.
func (c *Copy) save(now time.Time) error {
	c.state.Spoke, c.saved = now.Unix(), now
	raw, err := wire.Marshal(c.state)
	if err == nil {
		err = os.MkdirAll(c.dir, 0o700)
	}
	if err == nil {
		err = renameio.WriteFile(c.stateFile(), raw, 0o600)
	}
	if err != nil {
		return fmt.Errorf("mirror: save copy: %w", err)
	}
	return nil
}

// parts returns what was copied, and counts it.
func (c *Copy) parts() (map[string]warc.Part, error) {
	files, err := warc.OpenCopy(filepath.Join(c.dir, "archive"))
	if err != nil {
		return nil, err
	}
	parts, err := files.Parts()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.files, c.sizes = files, map[string]int64{}
	for name, p := range parts {
		c.sizes[name] = p.Size
	}
	return parts, nil
}

// store stores a piece. c.writing is held.
func (c *Copy) store(p *piece) error {
	if p.File != "" {
		err := c.prepare(p)
		switch {
		case err != nil:
		case p.Gone:
			err = c.files.Remove(p.File)
		default:
			err = c.files.Write(p.File, p.At, p.Data, p.Whole)
		}
		if err != nil {
			return err
		}
		c.mu.Lock()
		c.sizes[p.File] = p.At + int64(len(p.Data))
		if p.Gone {
			delete(c.sizes, p.File)
		}
		c.mu.Unlock()
	}
	return c.behind(p.Behind)
}

// prepare discards what is derived from the files if a piece removes something.
func (c *Copy) prepare(p *piece) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	size, known := c.sizes[p.File]
	if !known && len(c.sizes) >= warc.MaxFiles {
		return fmt.Errorf("%w: more than %d files", ErrMessage, warc.MaxFiles)
	}
	if size > 0 && (p.Gone || p.At == 0) {
		c.state.Version++
		return c.save(time.Now())
	}
	return nil
}

// behind records how many bytes the copy lacks.
func (c *Copy) behind(bytes int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.state.Whole
	c.state.Whole = bytes == 0 || was && bytes <= maxBehind
	c.state.WasWhole = c.state.WasWhole || c.state.Whole
	now := time.Now()
	if c.state.Whole != was || now.Sub(c.saved) > saveEvery {
		return c.save(now)
	}
	return nil
}

// remove deletes the copy, its state first: Keeper.Open goes on with that if this process ends
// before. No conversation begins any more.
func (c *Copy) remove() error {
	if err := os.Remove(c.stateFile()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.RemoveAll(c.dir)
}
