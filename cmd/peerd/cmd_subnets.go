package main

import (
	"io"
	"time"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/node/admin"
)

func newSubnetsCommand() *cobra.Command {
	return newViewCommand("subnets", "List the subnets that the running peer owns",
		(*admin.Client).Subnets, showSubnets)
}

func showSubnets(w io.Writer, subnets []admin.Subnet) error {
	t := cli.NewTable(w, "SUBNET", "EPOCH", "STATE", "HOSTS", "PENDING", "ESTIMATIONS", "SINCE",
		"PROXY COORDINATE")
	for _, s := range subnets {
		proxy := ""
		if s.Proxy != nil {
			proxy = formatCoordinate(s.Proxy.At)
		}
		t.Row(s.Subnet, s.Epoch, s.State, s.Hosts, s.Pending, s.Estimations,
			s.Since.Local().Format(time.DateTime), proxy)
	}
	return t.Flush()
}
