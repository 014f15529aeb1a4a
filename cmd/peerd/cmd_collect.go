package main

import (
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/node/config"
	"peerd/node/join"
)

const collectHelp = `Runs a peer that fetches nothing itself and copies what the other peers of its
network archive, of all hosts or of some, into its own archive and index. What it has can be
searched and exported; see "peerd search" and "peerd export". It can be stopped and
started again at any time, and continues where it was.

The directory is the home of the peer, and is created unless it exists. --network joins
the network of a line that "peerd invite" printed; it is needed at the first start only,
unless --profile names the rules of an open network. The settings collect, archive,
search and crawl.hours are written to config.toml there, so "peerd run" collects, too.
The other options are those of "peerd run".`

func newCollectCommand() *cobra.Command {
	var o runOptions
	var line string
	var hosts, topics []string
	cmd := &cobra.Command{
		Use:   "collect [--network LINE] [--to DIR]",
		Short: "Copy what other peers crawl",
		Long:  collectHelp,
		Args:  cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := prepareCollector(cmd, o.home, line, hosts, topics); err != nil {
				return err
			}
			return runRun(cmd, &o)
		},
	}
	o.add(cmd)
	f := cmd.Flags()
	f.StringVar(&o.home, "to", "",
		"`directory` of the collector (default $PEERD_HOME, or ~/.local/share/peerd)")
	_ = cmd.MarkFlagDirname("to") // the flag exists
	f.StringVar(&line, "network", "", "join by this `line`, which \"peerd invite\" printed")
	f.StringArrayVar(&hosts, "host", nil,
		"collect only pages of this `host`; repeatable (default: what config.toml says)")
	f.StringArrayVar(&topics, "topic", nil,
		"collect only pages that this `query` finds, beside those of --host; repeatable")
	return cmd
}

// prepareCollector creates the home, joins the network, and writes the settings of a collector.
func prepareCollector(cmd *cobra.Command, dir, text string, hosts, topics []string) error {
	dir, err := homeDir(cmd, "--to", dir)
	if err != nil {
		return err
	}
	var line join.Line
	if text != "" {
		if line, err = join.ParseLine(text); err != nil {
			return cli.Usagef(cmd, "--network: %w", err)
		}
	}
	home, err := initHome(cmd, dir)
	if err != nil {
		return err
	}
	if err := checkCollector(home, hosts, topics); err != nil {
		return err
	}
	if text != "" {
		if _, err := join.Join(cmd.Context(), home, line); err != nil {
			return err
		}
	}
	return setCollector(home, hosts, topics)
}

// checkCollector returns an error if the settings of a collector would not be valid. Nothing is
// done then: a peer that crawled goes on when it is started.
func checkCollector(home config.Home, hosts, topics []string) error {
	c, err := home.Load()
	if err != nil {
		return err
	}
	c.Archive.Enabled, c.Search.Enabled, c.Collect.Enabled = true, true, true
	c.Crawl.Hours = config.Never
	if len(hosts) > 0 {
		c.Collect.Hosts = hosts
	}
	if len(topics) > 0 {
		c.Collect.Topics = topics
	}
	return c.Validate()
}

// setCollector writes the settings that are not in config.toml yet.
func setCollector(home config.Home, hosts, topics []string) error {
	old, err := home.Load()
	if err != nil {
		return err
	}
	for _, s := range []struct {
		key, value string
		needed     bool
	}{
		{"archive.enabled", "true", !old.Archive.Enabled},
		{"search.enabled", "true", !old.Search.Enabled},
		{"crawl.hours", string(config.Never), old.Crawl.Hours != config.Never},
		{"collect.hosts", tomlList(hosts), len(hosts) > 0},
		{"collect.topics", tomlList(topics), len(topics) > 0},
		{"collect.enabled", "true", !old.Collect.Enabled},
	} {
		if !s.needed {
			continue
		}
		if err := home.Set(s.key, s.value); err != nil {
			return fmt.Errorf("set %s: %w", s.key, err)
		}
	}
	return nil
}

// tomlList returns a list as config.toml has it.
func tomlList(all []string) string {
	text, err := toml.Marshal(map[string][]string{"list": all})
	if err != nil {
		return "" // strings can be encoded
	}
	_, value, _ := strings.Cut(strings.TrimSpace(string(text)), "= ")
	return value
}
