package top

import (
	"context"
	"errors"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"

	"peerd/node/admin"
)

// retryAfter is the time until the next try to reach a peer that does not answer.
const retryAfter = 2 * time.Second

// Run shows a peer on a terminal until the user quits, or ctx ends. It uses no colors unless they
// are wanted. The environment says what the terminal can do.
func Run(
	ctx context.Context, c *admin.Client, in io.Reader, out io.Writer, environ []string,
	colors bool,
) error {
	m := newModel(colors)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m.read = func(v view, s admin.Selection) tea.Msg { return readRows(ctx, c, v, s) }
	p := tea.NewProgram(m, tea.WithInput(in), tea.WithOutput(out), tea.WithContext(ctx),
		tea.WithEnvironment(environ), tea.WithoutSignalHandler(), tea.WithFPS(20))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		follow(ctx, c, p.Send)
	}()
	_, err := p.Run()
	cancel()
	<-ended
	if errors.Is(err, tea.ErrProgramKilled) && errors.Is(err, context.Canceled) {
		return nil // the signal that ends the program has ended ctx
	}
	return err
}

// follow sends what happens at the peer, and tries again when it does not answer, until ctx ends.
func follow(ctx context.Context, c *admin.Client, send func(tea.Msg)) {
	last := uint64(0)
	for {
		err := c.Follow(ctx, last, func(h admin.Happening) {
			switch {
			case h.Status != nil:
				send(statusMsg{*h.Status, time.Now()})
			case h.Event != nil:
				last = h.Event.Seq
				send(eventMsg(*h.Event))
			case h.Missed != nil:
				send(missedMsg(h.Missed.Events))
			}
		})
		if ctx.Err() != nil {
			return
		}
		send(lostMsg{err})
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryAfter):
		}
	}
}

func readRows(ctx context.Context, c *admin.Client, v view, s admin.Selection) rowsMsg {
	msg := rowsMsg{view: v, offset: s.Offset}
	switch v {
	case viewPeers:
		msg.rows, msg.total, msg.err = cells(peerCells)(c.SomePeers(ctx, s))
	case viewSubnets:
		msg.rows, msg.total, msg.err = cells(subnetCells)(c.SomeSubnets(ctx, s))
	case viewQueue:
		msg.rows, msg.total, msg.err = cells(hostCells)(c.SomeHosts(ctx, s))
	}
	return msg
}

// cells returns a function that converts a part of a list.
func cells[T any](of func(T) []string) func([]T, int, error) ([][]string, int, error) {
	return func(all []T, total int, err error) (rows [][]string, _ int, _ error) {
		for _, v := range all {
			rows = append(rows, of(v))
		}
		return rows, total, err
	}
}
