package node

import (
	"context"
	"errors"
	"log/slog"

	"peerd/node/config"
	"peerd/node/replay"
)

// openReplay opens the socket at which the archived pages are shown.
func (n *Node) openReplay() (err error) {
	addr := n.opts.Config.Replay.Listen
	if addr == "" || n.archive == nil || n.opts.Alone {
		return nil
	}
	n.replay, err = replay.Listen(addr, replay.Config{Archive: &n.archive.Reader,
		Source: "peer " + n.net.Self().String(), Logger: n.log})
	if err == nil {
		n.log.Info("opened replay of archived pages", "url", n.replay.URL())
		n.parts = append(n.parts, n.replay.Run)
	}
	return err
}

// replayURL returns the URL of the archived pages; "": they are not shown.
func (n *Node) replayURL() string {
	if n.replay == nil {
		return ""
	}
	return n.replay.URL()
}

// Replay shows the archived pages of a home at a loopback address until ctx ends. It calls ready
// with the URL first. The error matches ErrNoArchive or replay.ErrAddr where these apply.
func Replay(
	ctx context.Context, home config.Home, addr string, log *slog.Logger,
	ready func(url string) error,
) error {
	r, err := Archive(home)
	if err != nil {
		return err
	}
	s, err := replay.Listen(addr, replay.Config{Archive: r, Logger: log})
	if err != nil {
		return err
	}
	if err := ready(s.URL()); err != nil {
		return errors.Join(err, s.Close())
	}
	return s.Run(ctx)
}
