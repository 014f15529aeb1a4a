package runner

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"peerd/lab/emulate"
	"peerd/node/config"
)

// The limits of an experiment.
const (
	maxMachines = 1000
	maxPeers    = 4000 // of all machines together
	maxSteps    = 1000
	maxFor      = 30 * 24 * time.Hour
)

// A File describes an experiment. docs/experiments.md explains its keys.
type File struct {
	Name     string          `toml:"name"`
	Peerd    string          `toml:"peerd"` // relative to the file
	Seeds    []string        `toml:"seeds"`
	Peers    int             `toml:"peers"` // on each machine
	Port     int             `toml:"port"`
	Seed     uint64          `toml:"seed"`
	For      config.Duration `toml:"for"`
	Until    string          `toml:"until"`
	Look     config.Duration `toml:"look"`
	FanOut   int             `toml:"fan_out"`
	Timeout  config.Duration `toml:"timeout"`
	Keep     bool            `toml:"keep"`
	Limits   Limits          `toml:"limits"`
	Emulate  *Emulate        `toml:"emulate"`
	Profile  config.Profile  `toml:"profile"`
	Settings config.Config   `toml:"settings"`
	Machines []MachineSpec   `toml:"machine"`
	Steps    []Step          `toml:"step"`

	digest string // SHA-256
}

// Limits are what a machine must keep to take part; 0: anything (Malet 2009, 4.4.3).
type Limits struct {
	Load      float64         `toml:"load"`      // processes per processor, in the last minute
	Clock     config.Duration `toml:"clock"`     // from that of this machine
	Bandwidth config.Size     `toml:"bandwidth"` // bytes per second from this machine
	RTT       config.Duration `toml:"rtt"`
}

// Emulate asks for sites of the experiment's own and for emulated links, all on loopback.
type Emulate struct {
	Sites     int             `toml:"sites"`
	Pages     int             `toml:"pages"`
	MinDelay  config.Duration `toml:"min_delay"`
	TimeScale float64         `toml:"time_scale"`
}

// MachineSpec is a machine of the file.
type MachineSpec struct {
	Name    string   `toml:"name"`
	Command []string `toml:"command"`
	Address string   `toml:"address"` // by which others reach it; "": what the machine says
	Peers   int      `toml:"peers"`   // 0: File.Peers
	Port    int      `toml:"port"`    // of its first peer; 0: File.Port
	Dir     string   `toml:"dir"`
}

// Step is something that happens to peers.
type Step struct {
	At   config.Duration `toml:"at"` // since the seeds were given
	Do   string          `toml:"do"`
	Of   float64         `toml:"of"`   // per cent of the peers
	For  config.Duration `toml:"for"`  // length of a pause
	Rate config.Size     `toml:"rate"` // of slow, bytes per second; 0: no limit
	Text string          `toml:"text"` // of a mark
}

// actions are the values of Step.Do, with what must hold of a peer before.
var actions = map[string][]State{
	"stop": {Running, Paused}, "kill": {Running, Paused}, "start": {Stopped},
	"restart": {Running, Paused}, "pause": {Running}, "slow": {Running, Paused}, "mark": nil,
}

// Read reads the file of an experiment. Errors name line and column and match config.ErrInvalid.
func Read(name string) (*File, error) {
	f := defaults()
	if err := config.Load(name, f); err != nil {
		return nil, err
	}
	if !filepath.IsAbs(f.Peerd) {
		f.Peerd = filepath.Join(filepath.Dir(name), f.Peerd)
	}
	var err error
	f.digest, _, err = digest(name)
	return f, err
}

func defaults() *File {
	settings := config.Default()
	settings.Events.Enabled = true
	return &File{
		Peers: 1, Port: 4101, Seed: 1, FanOut: 3,
		Look: config.Duration{Duration: 20 * time.Second}, Peerd: "peerd",
		Timeout: config.Duration{Duration: time.Minute}, Profile: config.NewProfile(),
		Settings: settings,
	}
}

// namePattern restricts names that become names of files.
var namePattern = regexp.MustCompile(`^[a-z][a-z0-9.-]{0,31}$`)

// Validate fills in what is not given and returns all faults, one a line.
func (f *File) Validate() error {
	var faults []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	between := func(key string, d config.Duration, low, high time.Duration) {
		fault(d.Duration < low || d.Duration > high, "%s is %s, want %s to %s", key, d, low, high)
	}
	fault(!namePattern.MatchString(f.Name), "name is %q, want 1 to 32 of a-z, 0-9, . and -, "+
		"starting with a letter", f.Name)
	fault(f.Peers < 1, "peers is %d, want 1 or more", f.Peers)
	fault(f.FanOut < 1 || f.FanOut > 100, "fan_out is %d, want 1 to 100", f.FanOut)
	fault(f.Until != "" && f.Until != "idle", "until is %q, want \"idle\" or nothing", f.Until)
	between("for", f.For, time.Second, maxFor)
	between("look", f.Look, time.Second, time.Hour)
	between("timeout", f.Timeout, time.Second, time.Hour)
	fault(!(f.Limits.Load >= 0), "limits.load is %v, want 0 or more", f.Limits.Load)
	between("limits.clock", f.Limits.Clock, 0, time.Hour)
	between("limits.rtt", f.Limits.RTT, 0, time.Minute)
	fault(len(f.Machines) < 1 || len(f.Machines) > maxMachines,
		"machine: %d tables [[machine]], want 1 to %d", len(f.Machines), maxMachines)
	fault(len(f.Steps) > maxSteps, "step: %d tables [[step]], want at most %d", len(f.Steps),
		maxSteps)
	f.checkMachines(fault)
	f.checkSteps(fault, between)
	if e := f.Emulate; e != nil {
		fault(e.Sites < 1 || e.Sites > 2000, "emulate.sites is %d, want 1 to 2000", e.Sites)
		fault(e.Pages < e.Sites || e.Pages > 1_000_000,
			"emulate.pages is %d, want at least one a site and at most 1000000", e.Pages)
		fault(!(e.TimeScale >= 0 && e.TimeScale <= 1), "emulate.time_scale is %v, want 0 to 1",
			e.TimeScale)
		between("emulate.min_delay", e.MinDelay, 0, time.Minute)
		fault(len(f.Seeds) > 0, "seeds has no effect with [emulate]")
		f.Settings.Crawl.MinDelay, f.Settings.NAT = e.MinDelay, false
		f.Settings.Crawl.AllowNet = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		if f.Profile.Scope.Mode == "" {
			f.Profile.Scope.Mode = "any"
		}
		f.Profile.Politeness.DelayFactor = 0 // emulated delays are no sign of a busy server
	} else {
		fault(len(f.Seeds)+len(f.Profile.Seeds) == 0, "seeds is missing: what is to be crawled")
		fault(f.Settings.Contact == "", "settings.contact is missing: a URL where owners of web "+
			"sites find out who crawls them")
	}
	for _, s := range f.Seeds {
		u, err := url.Parse(s)
		fault(err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "",
			"seeds: %q is not the URL of a web page", s)
	}
	return errors.Join(append(faults, f.checkNetwork()...)...)
}

// checkNetwork checks profile and settings.
func (f *File) checkNetwork() (faults []error) {
	if f.Profile.Name == "" {
		f.Profile.Name = strings.ReplaceAll(f.Name, ".", "-")
	}
	p := f.Profile
	if p.Admission == "invite" && len(p.Founders) == 0 {
		p.Admission = "open" // the first peer becomes the founder
	}
	if p.Admission != "open" || len(p.Bootstrap) > 0 {
		faults = append(faults, errors.New("profile: want admission \"open\", or \"invite\" "+
			"without founders, and no bootstrap"))
	}
	for prefix, err := range map[string]error{
		"profile.": p.Validate(), "settings.": f.Settings.Validate(),
	} {
		if err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				faults = append(faults, errors.New(prefix+line))
			}
		}
	}
	if !f.Settings.Events.Enabled {
		faults = append(faults, errors.New("settings.events.enabled is false: the report is made "+
			"from the event logs"))
	}
	return faults
}

func (f *File) checkMachines(fault func(bool, string, ...any)) {
	names, peers := map[string]bool{}, 0
	for i := range f.Machines {
		m, key := &f.Machines[i], "machine["+strconv.Itoa(i+1)+"]"
		if m.Name == "" {
			m.Name = "m" + strconv.Itoa(i+1)
		}
		if m.Peers == 0 {
			m.Peers = f.Peers
		}
		if m.Port == 0 {
			m.Port = f.Port
		}
		if m.Dir == "" {
			m.Dir = "peerd-experiments/" + f.Name + "/" + m.Name
		}
		fault(!namePattern.MatchString(m.Name), "%s.name is %q, want 1 to 32 of a-z, 0-9, . and "+
			"-, starting with a letter", key, m.Name)
		fault(names[m.Name], "%s.name %q is that of another machine, too", key, m.Name)
		fault(len(m.Command) == 0 || slices.Contains(m.Command, ""), "%s.command is missing, want "+
			`one such as ["ssh", "user@host"], ["sh", "-c"] or ["docker", "exec", "-i", "name"]`,
			key)
		fault(strings.ContainsAny(m.Address, " /\n"), "%s.address is %q, want an IP address or a "+
			"host name", key, m.Address)
		fault(m.Peers < 1, "%s.peers is %d, want 1 or more", key, m.Peers)
		fault(m.Port < 1 || m.Port+m.Peers > 65536, "%s.port is %d, want 1 to 65535, also for "+
			"the last peer", key, m.Port)
		fault(strings.ContainsRune(m.Dir, '\n') || filepath.Clean(m.Dir) == "/" ||
			filepath.Clean(m.Dir) == ".", "%s.dir is %q, want a directory of its own", key, m.Dir)
		names[m.Name], peers = true, peers+m.Peers
	}
	most := maxPeers
	if f.Emulate != nil {
		most = emulate.MaxPeers
	}
	fault(peers > most, "machine: %d peers, want at most %d", peers, most)
}

func (f *File) checkSteps(
	fault func(bool, string, ...any),
	between func(string, config.Duration, time.Duration, time.Duration),
) {
	last := time.Duration(0)
	for i, s := range f.Steps {
		key := "step[" + strconv.Itoa(i+1) + "]"
		_, known := actions[s.Do]
		fault(!known, "%s.do is %q, want stop, kill, start, restart, pause, slow or mark", key,
			s.Do)
		between(key+".at", s.At, last, f.For.Duration)
		last = s.At.Duration
		fault(s.Do != "mark" && !(s.Of > 0 && s.Of <= 100), "%s.of is %v, want more than 0 and at "+
			"most 100 per cent of the peers", key, s.Of)
		fault(s.Do == "mark" && s.Text == "", "%s.text is missing", key)
		between(key+".for", s.For, 0, maxFor)
		fault(s.Rate < 0 || s.Rate > 0 && s.Rate < 20_000, "%s.rate is %d, want 0 or at least 20kB",
			key, s.Rate)
	}
}
