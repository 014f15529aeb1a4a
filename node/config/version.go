package config

import (
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
)

// release is the version of builds that are not of a tagged module version.
const release = "0.1.0"

// Version is the version of this program in the User-Agent, in beacons and in archives: the
// version of the module if it is tagged, else the release under development.
var Version = ReadBuild().Version

// Build describes the build of the running program.
type Build struct {
	Version  string `json:"version"`
	Module   string `json:"module_version"` // as the go command names it; "" if unknown
	Revision string `json:"revision"`       // of the version control system; "" if unknown
	Time     string `json:"revision_time"`  // RFC 3339; "" if unknown
	Modified bool   `json:"modified"`       // the source differs from Revision
	Go       string `json:"go_version"`
	Platform string `json:"platform"` // operating system and architecture
}

// ReadBuild returns the description that the go command put into the program.
func ReadBuild() Build {
	info, _ := debug.ReadBuildInfo()
	return buildOf(info)
}

// pseudo matches versions that the go command derives from a revision.
var pseudo = regexp.MustCompile(`[-.]\d{14}-[0-9a-f]{12}(\+|$)`)

func buildOf(info *debug.BuildInfo) Build {
	b := Build{
		Version: release, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if info == nil {
		return b
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.Module = v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	if b.Module != "" && !pseudo.MatchString(b.Module) {
		b.Version = strings.TrimPrefix(b.Module, "v")
	}
	return b
}

// UserAgent returns the User-Agent that is sent to web servers (RFC 9110, section 10.1.5):
// product, version and, if it is set, the contact URL.
func UserAgent(contact string) string {
	if contact == "" {
		return "peerd/" + Version
	}
	return "peerd/" + Version + " (+" + contact + ")"
}
