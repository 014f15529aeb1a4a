package top

import (
	"fmt"
	"strconv"
	"time"

	"peerd/node/admin"
)

// An order is a field of the admin API to sort by, and its name on the screen.
type order struct{ field, name string }

// orders are the orders of the tables.
var orders = [views][]order{
	viewPeers:   {{"distance_ms", "distance"}, {"-connected", "connected"}, {"-wait_ms", "load"}},
	viewSubnets: {{"-pending", "URLs"}, {"-measured_ms", "slowest"}, {"subnet", "subnet"}},
	viewQueue:   {{"-pending", "URLs"}, {"-in_flight", "in flight"}, {"host", "host"}},
}

// A column is one of a table: its title, and its share of the width. Numbers are aligned right.
type column struct {
	title  string
	share  int
	number bool
}

// columns are those of the tables, which the functions below fill.
var columns = [views][]column{
	viewPeers: {{"PEER", 12, false}, {"CONN", 5, false}, {"RTT", 8, true},
		{"DISTANCE", 9, true}, {"LOAD", 8, true}, {"VERSION", 10, false}},
	viewSubnets: {{"SUBNET", 18, false}, {"STATE", 10, false}, {"EPOCH", 5, true},
		{"HOSTS", 5, true}, {"URLS", 8, true}, {"MEASURED", 9, true}},
	viewQueue: {{"HOST", 24, false}, {"ROLE", 10, false}, {"URLS", 8, true},
		{"NEXT IN", 9, true}},
}

func peerCells(p admin.Peer) []string {
	conn := "no"
	if p.Connected {
		conn = "yes"
	}
	return []string{shortID(p.PeerID), conn, millis(p.RTTMs), millis(p.DistanceMs),
		millis(p.WaitMs), p.Version}
}

func subnetCells(s admin.Subnet) []string {
	state := string(s.State)
	if s.Unverified {
		state = "in doubt"
	}
	return []string{s.Subnet, state, strconv.FormatUint(s.Epoch, 10), strconv.Itoa(s.Hosts),
		strconv.FormatInt(s.Pending, 10), millis(s.MeasuredMs)}
}

func hostCells(h admin.Host) []string {
	next := "now"
	switch {
	case h.InFlight > 0:
		next = "in flight"
	case h.Role != admin.HostOwn:
		next = ""
	case h.DelayMs > 0:
		next = (time.Duration(h.DelayMs) * time.Millisecond).Round(100 * time.Millisecond).String()
	}
	return []string{h.Host, string(h.Role), strconv.FormatInt(h.Pending, 10), next}
}

// shortID returns the end of a peer ID, which differs between peers.
func shortID(id string) string {
	if len(id) <= 8 {
		return id
	}
	return "…" + id[len(id)-8:]
}

func millis(v float64) string {
	if v <= 0 {
		return ""
	}
	return fmt.Sprintf("%.1f ms", v)
}
