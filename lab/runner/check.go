package runner

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// A Probe is what a machine was like when it was checked.
type Probe struct {
	System     string  `json:"system"`
	Processors int     `json:"processors"`
	Load       float64 `json:"load"`      // processes per processor, in the last minute
	Clock      float64 `json:"clock_s"`   // ahead of the clock here, to about half a second
	RTT        float64 `json:"rtt_ms"`    //
	Bandwidth  float64 `json:"bandwidth"` // bytes per second from here
}

// probeBytes is how much is sent to measure the bandwidth.
const probeBytes = 1 << 20

// probeScript prints what the shell knows, answers a line, and counts what follows.
const probeScript = `uname -sm
getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1
{ cat /proc/loadavg 2>/dev/null || uptime | sed 's/.*: *//;s/,/ /g'; } | cut -d ' ' -f 1
set -- $SSH_CONNECTION
if [ -n "$3" ]; then echo "$3"; else hostname -i 2>/dev/null || echo; fi
date +%s
read -r line && echo "$line"
wc -c
`

// probe claims the directory of an experiment on a machine and measures the machine. It returns
// the address that the machine says it has.
func probe(ctx context.Context, m Machine, claim string) (p Probe, address string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in, toScript := io.Pipe()
	fromScript, out := io.Pipe()
	ran := make(chan error, 1)
	go func() {
		err := m.Run(ctx, claim+probeScript, in, out)
		out.CloseWithError(io.EOF)
		in.CloseWithError(io.ErrClosedPipe)
		ran <- err
	}()
	told := p.measure(toScript, bufio.NewReader(io.LimitReader(fromScript, 10_000)), &address)
	if told != nil {
		cancel()
	}
	fromScript.Close()
	toScript.Close()
	if err := <-ran; err != nil && !errors.Is(err, context.Canceled) {
		return p, address, err
	}
	return p, address, told
}

func (p *Probe) measure(to io.WriteCloser, from *bufio.Reader, address *string) error {
	var lines [5]string
	for i := range lines {
		line, err := from.ReadString('\n')
		if err != nil {
			return fmt.Errorf("the answer ended after %d lines: %w", i, io.ErrUnexpectedEOF)
		}
		lines[i] = strings.TrimSpace(line)
	}
	came := time.Now()
	var err [3]error
	p.System = lines[0]
	p.Processors, err[0] = strconv.Atoi(lines[1])
	p.Load, err[1] = strconv.ParseFloat(strings.TrimRight(lines[2], ","), 64)
	*address, _, _ = strings.Cut(lines[3], " ")
	seconds, bad := strconv.ParseInt(lines[4], 10, 64)
	err[2] = bad
	if e := errors.Join(err[:]...); e != nil || p.Processors < 1 {
		return fmt.Errorf("the answer %q cannot be understood", lines)
	}
	p.Load = math.Round(100*p.Load/float64(p.Processors)) / 100
	begin := time.Now()
	if _, err := io.WriteString(to, "echo\n"); err != nil {
		return err
	}
	if line, err := from.ReadString('\n'); err != nil || line != "echo\n" {
		return fmt.Errorf("got %q for a line, want the same: %w", line, io.ErrUnexpectedEOF)
	}
	rtt := time.Since(begin)
	p.RTT = math.Round(float64(rtt.Microseconds())) / 1000
	// The machine's clock shows whole seconds.
	p.Clock = math.Round(10*(float64(seconds)+0.5-
		float64(came.Add(-rtt/2).UnixMicro())/1e6)) / 10
	begin = time.Now()
	if _, err := to.Write(make([]byte, probeBytes)); err != nil {
		return err
	}
	to.Close()
	if line, err := from.ReadString('\n'); err != nil ||
		strings.TrimSpace(line) != strconv.Itoa(probeBytes) {
		return fmt.Errorf("%q of %d bytes arrived: %w", line, probeBytes, io.ErrUnexpectedEOF)
	}
	p.Bandwidth = math.Round(probeBytes / max(time.Since(begin)-rtt, time.Millisecond).Seconds())
	return nil
}

// fault returns why a machine does not keep the limits, nil if it does.
func (l Limits) fault(p Probe) error {
	var all []error
	add := func(is, limit float64, less bool, what, unit string) {
		if limit > 0 && (is > limit) != less {
			all = append(all, fmt.Errorf("%s is %.3g%s, the limit is %.3g%[3]s", what, is, unit,
				limit))
		}
	}
	add(p.Load, l.Load, false, "load", " per processor")
	// Half a second is the error of the measurement.
	add(max(0, math.Abs(p.Clock)-0.5), l.Clock.Seconds(), false, "clock offset", " s")
	add(p.RTT, float64(l.RTT.Microseconds())/1000, false, "RTT", " ms")
	add(p.Bandwidth, float64(l.Bandwidth), true, "bandwidth", " bytes/s")
	return errors.Join(all...)
}
