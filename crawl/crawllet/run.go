package crawllet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// copyFunc copies the output of a process, and calls stop before it returns an error. An error
// other than OutputLimit means that the client has gone.
type copyFunc func(out io.Reader, stop func()) (written uint64, err error)

// selfProgram is this program, also after its file was replaced by another version.
const selfProgram = "/proc/self/exe"

// execute runs the process of a job in a program, with an input, and returns how it ended. An error
// means that it could not be started.
func execute(
	ctx context.Context, program string, j job, input io.Reader, copyOut copyFunc,
) (End, error) {
	// The process is killed with the thread that started it, see processAttributes.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ctx, cancel := context.WithTimeout(ctx, time.Duration(j.Limits.Wall)*time.Second)
	defer cancel()
	start, err := appendJob(nil, j)
	if err != nil {
		return End{}, err
	}
	reports, reportTo, err := os.Pipe()
	if err != nil {
		return End{}, err
	}
	defer reports.Close()
	var stderr head
	cmd := exec.CommandContext(ctx, program)
	cmd.Args, cmd.Env, cmd.Dir = []string{processName}, []string{"GOTRACEBACK=none"}, "/"
	cmd.Stdin = io.MultiReader(bytes.NewReader(start), input)
	cmd.Stderr, cmd.ExtraFiles = &stderr, []*os.File{reportTo}
	cmd.SysProcAttr = processAttributes()
	// The process has no children that could keep its pipes open.
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	reportTo.Close()
	if err != nil {
		return End{}, fmt.Errorf("start process: %w", err)
	}
	began := time.Now()
	written, copyErr := copyOut(out, cancel)
	rep, repErr := readReport(reports)
	_ = cmd.Wait() // the state says more
	end := End{Usage: Usage{
		CPU:  (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Milliseconds(),
		Wall: time.Since(began).Milliseconds(), Memory: rep.Memory, Pages: rep.Pages,
		Output: written,
	}}
	end.Reason, end.Detail = verdict(ctx, cmd.ProcessState, j, copyErr, rep, repErr)
	if end.Reason != "" {
		end.Detail = strings.TrimSpace(end.Detail + " " + stderr.String())
	}
	return end, nil
}

// compileModule compiles the module in a directory, in a process of its own, and returns what it
// has used.
func compileModule(ctx context.Context, program, dir string) (End, error) {
	// The processor time is limited as well. A busy host may give it little of a processor.
	limits := Limits{Memory: 1, Wall: 10 * compileCPU}
	end, err := execute(ctx, program, job{Dir: dir, Limits: limits}, bytes.NewReader(nil),
		func(io.Reader, func()) (uint64, error) { return 0, nil })
	switch {
	case err != nil:
		return end, err
	case end.Reason == CPULimit || end.Reason == Deadline || end.Reason == Killed:
		return end, fail(BadModule, "it took too much to compile: "+string(end.Reason))
	}
	return end, end.err()
}

// verdict names the reason of the end of a process.
func verdict(
	ctx context.Context, s *os.ProcessState, j job, copyErr error, rep report, repErr error,
) (Reason, string) {
	status, _ := s.Sys().(syscall.WaitStatus)
	cpu := s.UserTime() + s.SystemTime()
	switch {
	case errors.Is(copyErr, OutputLimit):
		return OutputLimit, fmt.Sprintf("%d bytes", j.Limits.Output)
	case repErr == nil:
		return rep.Reason, rep.Detail
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return Deadline, fmt.Sprintf("%d s", j.Limits.Wall)
	case ctx.Err() != nil:
		return Killed, "the connection ended"
	case status.Signaled() && cpu >= time.Duration(j.Limits.CPU)*time.Second:
		return CPULimit, fmt.Sprintf("%d s", j.Limits.CPU)
	}
	return Killed, s.String()
}

// readReport reads the report of a process, which is missing if it was killed.
func readReport(r io.Reader) (report, error) {
	var rep report
	b, err := io.ReadAll(io.LimitReader(r, maxReply))
	if err != nil {
		return rep, err
	}
	return rep, decMode.Unmarshal(b, &rep)
}

// head keeps the beginning of what is written to it.
type head struct{ b []byte }

// Write implements io.Writer.
func (h *head) Write(p []byte) (int, error) {
	h.b = append(h.b, p[:min(len(p), 512-len(h.b))]...)
	return len(p), nil
}

// String returns the text in one line.
func (h *head) String() string {
	return strings.ToValidUTF8(strings.Join(strings.Fields(string(h.b)), " "), "?")
}
