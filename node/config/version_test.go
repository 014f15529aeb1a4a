package config

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestBuildOf(t *testing.T) {
	platform := runtime.GOOS + "/" + runtime.GOARCH
	settings := []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123456789abcdef"},
		{Key: "vcs.time", Value: "2026-01-02T03:04:05Z"},
		{Key: "vcs.modified", Value: "true"},
	}
	vcs := Build{
		Version: release, Revision: "0123456789abcdef", Time: "2026-01-02T03:04:05Z",
		Modified: true, Go: runtime.Version(), Platform: platform,
	}
	pseudoVersion := vcs
	pseudoVersion.Module = "v0.2.1-0.20260102030405-0123456789ab+dirty"
	for name, c := range map[string]struct {
		info *debug.BuildInfo
		want Build
	}{
		"no build info": {nil, Build{Version: release, Go: runtime.Version(), Platform: platform}},
		"tagged": {
			&debug.BuildInfo{Main: debug.Module{Version: "v1.2.3-rc.1"}},
			Build{Version: "1.2.3-rc.1", Module: "v1.2.3-rc.1", Go: runtime.Version(),
				Platform: platform},
		},
		"checkout": {
			&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: settings}, vcs,
		},
		"pseudo-version": {
			&debug.BuildInfo{
				Main:     debug.Module{Version: pseudoVersion.Module},
				Settings: settings,
			}, pseudoVersion,
		},
	} {
		if got := buildOf(c.info); got != c.want {
			t.Errorf("%s: buildOf() = %+v, want %+v", name, got, c.want)
		}
	}
}
