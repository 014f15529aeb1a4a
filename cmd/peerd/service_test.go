package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The filter of system calls of peerd.service permits what a peer needs, whatever the groups of
// this version of systemd have: Landlock, the renaming of log files, and the limits of plug-ins.
// What it does not permit fails and kills no process.
func TestServiceFilter(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd is not installed")
	}
	unit, err := os.ReadFile("../../docs/systemd/peerd.service")
	if err != nil {
		t.Fatal(err)
	}
	permitted := map[string]bool{}
	var set func(names string, on bool)
	set = func(names string, on bool) {
		for _, name := range strings.Fields(names) {
			if !strings.HasPrefix(name, "@") {
				permitted[name] = on
				continue
			}
			out, err := exec.Command(analyze, "syscall-filter", name).Output()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for line := range strings.Lines(string(out)) {
				if line = strings.TrimSpace(line); line != name && !strings.HasPrefix(line, "#") {
					set(line, on)
				}
			}
		}
	}
	set("@default", true)
	fails := false
	for line := range strings.Lines(string(unit)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "SystemCallFilter":
			names, excluded := strings.CutPrefix(value, "~")
			set(names, !excluded)
		case "SystemCallErrorNumber":
			fails = value == "EPERM"
		}
	}
	for _, name := range strings.Fields("landlock_create_ruleset landlock_add_rule " +
		"landlock_restrict_self chown fchownat prlimit64 clone clone3 pidfd_send_signal") {
		if !permitted[name] {
			t.Errorf("%s is not permitted", name)
		}
	}
	if permitted["reboot"] || permitted["setpriority"] || !fails {
		t.Error("other calls are permitted, or kill the process")
	}
}
