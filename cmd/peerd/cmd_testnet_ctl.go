package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/lab/testnet"
)

func newTestnetCtlCommand() *cobra.Command {
	cmd := cli.NewGroup("ctl", "Change the distances in a testnet of containers while it runs",
		`Changes the emulated distances between the containers of docker-compose.yml while
they run. A container is named by its service and its number, such as peer-3 or
site-7, or by its address. Changes take effect within a second, and also at peers
that start later. It runs in a container:

  docker-compose exec site /peerd testnet ctl show
  docker-compose exec site /peerd testnet ctl slow peer-3 10
  docker-compose exec site /peerd testnet ctl load site-7 500ms
  docker-compose exec site /peerd testnet ctl cut peer-1 peer-2
  docker-compose exec site /peerd testnet ctl heal`)
	order := func(cmd *cobra.Command, o testnet.Order, names []string) error {
		c, err := testnet.NewControl(cmd.Context())
		if err != nil {
			return err
		}
		return c.Order(cmd.Context(), o, names)
	}
	add := func(use, short string, least, most int,
		run func(cmd *cobra.Command, args []string) error) {
		verb := strings.Fields(use)[0]
		cmd.AddCommand(&cobra.Command{Use: use, Short: short,
			Args: func(cmd *cobra.Command, args []string) error {
				if len(args) < least || len(args) > most {
					return cli.Usagef(cmd, "%s: want %s", verb, use)
				}
				return nil
			}, RunE: run})
	}
	const any = 1 << 10
	add("show", "List the containers with their places and changes", 0, 0, showContainers)
	add("slow PLACE N", "Divide the bandwidth of a container by N", 2, 2,
		func(cmd *cobra.Command, args []string) error {
			by, err := strconv.ParseFloat(args[1], 64)
			if err != nil {
				return cli.Usagef(cmd, "slow: %q is no number", args[1])
			}
			return order(cmd, testnet.Order{Verb: "slow", By: by}, args[:1])
		})
	add("load PLACE TIME", "Add a time to every round trip of a container", 2, 2,
		func(cmd *cobra.Command, args []string) error {
			by, err := time.ParseDuration(args[1])
			if err != nil {
				return cli.Usagef(cmd, "load: %q is no time such as 500ms", args[1])
			}
			return order(cmd, testnet.Order{Verb: "load", Delay: by}, args[:1])
		})
	for _, c := range []struct {
		use, short string
		least      int
	}{
		{"cut PLACE...", "Cut containers off from all others, but not from each other", 1},
		{"heal [PLACE...]", "Undo the changes of containers, or of all", 0},
		{"restart PEER...", "Restart peers, as after a crash", 1},
	} {
		verb, _, _ := strings.Cut(c.use, " ")
		add(c.use, c.short, c.least, any, func(cmd *cobra.Command, args []string) error {
			return order(cmd, testnet.Order{Verb: verb}, args)
		})
	}
	return cmd
}

func showContainers(cmd *cobra.Command, _ []string) error {
	c, err := testnet.NewControl(cmd.Context())
	if err != nil {
		return err
	}
	return printContainers(cmd.OutOrStdout(), c.Containers)
}

func printContainers(out io.Writer, all []testnet.Container) error {
	t := cli.NewTable(out, "CONTAINER", "ADDRESS", "CITY", "CHANGES")
	for _, c := range all {
		var changes []string
		if c.Divisor > 1 {
			changes = append(changes, fmt.Sprintf("bandwidth / %g", c.Divisor))
		}
		if c.Delay > 0 {
			changes = append(changes, fmt.Sprintf("round trips + %s", c.Delay))
		}
		if c.Part > 0 {
			changes = append(changes, fmt.Sprintf("cut off, part %d", c.Part))
		}
		if c.Restarts > 0 {
			changes = append(changes, fmt.Sprintf("restarted %d times", c.Restarts))
		}
		t.Row(c.Name, c.Addr, c.City, strings.Join(changes, ", "))
	}
	return t.Flush()
}
