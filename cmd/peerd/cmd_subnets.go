package main

import (
	"io"
	"time"

	"github.com/spf13/cobra"

	"peerd/node/admin"
)

func newSubnetsCommand() *cobra.Command {
	return newViewCommand("subnets", "List the parts of the web that the running peer owns", (*admin.Client).Subnets, showSubnets)
}

func showSubnets(w io.Writer, subnets []admin.Subnet) error {
	t := newTable(w, "SUBNET", "EPOCH", "STATE", "HOSTS", "PENDING", "ESTIMATIONS", "SINCE", "PROXY COORDINATE")
	for _, s := range subnets {
		proxy := ""
		if s.Proxy != nil {
			proxy = place(s.Proxy.At)
		}
		t.row(s.Subnet, s.Epoch, s.State, s.Hosts, s.Pending, s.Estimations, s.Since.Local().Format(time.DateTime), proxy)
	}
	return t.flush()
}
