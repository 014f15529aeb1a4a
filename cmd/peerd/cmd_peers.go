package main

import (
	"io"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/node/admin"
)

func newPeersCommand() *cobra.Command {
	return newViewCommand("peers", "List the other peers that the running peer knows",
		(*admin.Client).Peers, showPeers)
}

func connected(p admin.Peer) string {
	if p.Relayed {
		return "relayed"
	}
	return yesNo(p.Connected)
}

func showPeers(w io.Writer, peers []admin.Peer) error {
	t := cli.NewTable(w, "PEER", "CONNECTED", "RTT", "DISTANCE", "WAIT", "CAPACITY", "VERSION",
		"SEEN", "ADDRESS")
	for _, p := range peers {
		rtt, addr := "", ""
		if p.RTTMs > 0 {
			rtt = ms(p.RTTMs)
		}
		if len(p.Addrs) > 0 {
			addr = p.Addrs[0]
		}
		t.Row(p.PeerID, connected(p), rtt, ms(p.DistanceMs), ms(p.WaitMs), p.Capacity,
			p.Version, seconds(p.LastSeenS), addr)
	}
	return t.Flush()
}
