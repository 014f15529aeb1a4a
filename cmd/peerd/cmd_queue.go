package main

import (
	"io"
	"time"

	"github.com/spf13/cobra"

	"peerd/node/admin"
)

func newQueueCommand() *cobra.Command {
	return newViewCommand("queue", "List the hosts whose URLs wait at the running peer", (*admin.Client).Queue, showQueue)
}

func showQueue(w io.Writer, hosts []admin.Host) error {
	t := newTable(w, "HOST", "SUBNET", "ROLE", "PENDING", "IN FLIGHT", "NEXT", "DELAY", "OWNER")
	for _, h := range hosts {
		next, delay := "", ""
		if h.NextAt != nil {
			next = h.NextAt.Local().Format(time.TimeOnly)
		}
		if h.DelayMs > 0 {
			delay = ms(h.DelayMs)
		}
		t.row(h.Host, h.Subnet, h.Role, h.Pending, h.InFlight, next, delay, h.Owner)
	}
	return t.flush()
}
