package main

import (
	"errors"
	"fmt"

	"peerd/node"
	"peerd/node/admin"
	"peerd/node/config"
)

// unfit are the errors about settings, homes and arguments, after which nothing was done.
var unfit = []error{config.ErrInvalid, config.ErrNoHome, config.ErrKey, node.ErrOtherNetwork,
	node.ErrStrategy, node.ErrDenyRule, admin.ErrBadRequest, config.ErrOtherProfile}

// adviseRun adds what to do if no peer runs with home.
func adviseRun(home config.Home, err error) error {
	if errors.Is(err, admin.ErrNotRunning) {
		return fmt.Errorf("%w; start one with: peerd run --home %s", err, home.Dir)
	}
	return err
}
