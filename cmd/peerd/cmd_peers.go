package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/node/admin"
)

func newPeersCommand() *cobra.Command {
	var why string
	ask := func(c *admin.Client, ctx context.Context) ([]admin.Peer, error) {
		all, err := c.Peers(ctx)
		if why == "" || err != nil {
			return all, err
		}
		i := slices.IndexFunc(all, func(p admin.Peer) bool { return p.PeerID == why })
		if i < 0 {
			return nil, fmt.Errorf("peer %s: not known; run: peerd peers", why)
		}
		return all[i : i+1], nil
	}
	cmd := newViewCommand("peers", "List the other peers that the running peer knows", ask,
		func(w io.Writer, peers []admin.Peer) error {
			if why != "" {
				return showChecks(w, peers[0])
			}
			return showPeers(w, peers)
		})
	cmd.Flags().StringVar(&why, "why", "",
		"show what the checks of the reports of the `peer` have found")
	return cmd
}

func connected(p admin.Peer) string {
	if p.Relayed {
		return "relayed"
	}
	return yesNo(p.Connected)
}

func showPeers(w io.Writer, peers []admin.Peer) error {
	t := cli.NewTable(w, "PEER", "CONNECTED", "RTT", "DISTANCE", "WAIT", "CAPACITY", "VERSION",
		"SEEN", "REPORTS", "ADDRESS")
	for _, p := range peers {
		rtt, addr := "", ""
		if p.RTTMs > 0 {
			rtt = ms(p.RTTMs)
		}
		if len(p.Addrs) > 0 {
			addr = p.Addrs[0]
		}
		t.Row(p.PeerID, connected(p), rtt, ms(p.DistanceMs), ms(p.WaitMs), p.Capacity,
			p.Version, seconds(p.LastSeenS), p.Trust, addr)
	}
	return t.Flush()
}

// showChecks shows the checks of what a peer has reported.
func showChecks(w io.Writer, p admin.Peer) error {
	t := cli.NewTable(w, "AT", "RESULT", "URL", "REPORTED", "FOUND")
	for _, x := range p.Checks {
		result := "differs"
		if x.Agrees {
			result = "agrees"
		}
		t.Row(x.At.Local().Format(time.DateTime), result, x.URL, x.Said, x.Found)
	}
	return t.Flush()
}
