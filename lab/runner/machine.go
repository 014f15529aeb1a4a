package runner

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// A Machine runs scripts.
type Machine interface {
	// Run runs a script of the POSIX shell. Its standard input is in, nil for none, and its
	// standard output goes to out. The error has what the script wrote to standard error. When ctx
	// ends, Run returns soon, though the script may run on.
	Run(ctx context.Context, script string, in io.Reader, out io.Writer) error
}

// Command is a Machine that is reached by a command, to which the argument "sh" is added:
// ssh user@host, sh -c, docker exec -i name. The script goes to the standard input of that shell,
// so that no shell on the way takes it apart.
type Command []string

// ready is what a shell writes when it has read the script, which is one compound command, and
// everything that follows on its standard input is for the script. What comes before are messages
// of the login.
const ready = "peerd-lab: ready"

// wrap makes one compound command of a script.
func wrap(script string) string {
	return "{\necho '" + ready + "'\n" + script + "\nexit\n}\n"
}

// maxMessage is how much is kept of what a script writes to standard error.
const maxMessage = 2000

// Run implements Machine.
func (c Command) Run(ctx context.Context, script string, in io.Reader, out io.Writer) error {
	cmd := exec.CommandContext(ctx, c[0], append(append([]string{}, c[1:]...), "sh")...)
	// A group of its own, so that nothing is left of a command that hangs, and so that Ctrl-C does
	// not reach it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	said := &tail{}
	cmd.Stderr = said
	to, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	from, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	// A process that was left behind may hold the pipe.
	defer context.AfterFunc(ctx, func() { from.Close() })()
	talked := talk(to, bufio.NewReader(from), wrap(script), in, out)
	if talked != nil && ctx.Err() == nil && !errors.Is(talked, io.ErrUnexpectedEOF) {
		_ = cmd.Cancel() // otherwise it may wait for input
	}
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		err = fmt.Errorf("no answer in time: %w", ctx.Err())
	case err == nil || errors.Is(err, exec.ErrWaitDelay):
		err = talked
	}
	if text := strings.TrimSpace(said.String()); err != nil && text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	return err
}

// talk gives the shell its script and then the input, and copies what it writes.
func talk(to io.WriteCloser, from *bufio.Reader, script string, in io.Reader, out io.Writer) error {
	go func() { // ends with the process at the latest
		_, _ = io.WriteString(to, script) // a failure shows in what is read
	}()
	for {
		line, err := from.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			to.Close()
			return fmt.Errorf("the shell did not start: %w", io.ErrUnexpectedEOF)
		}
		if strings.TrimRight(string(line), "\r\n") == ready {
			break
		}
	}
	sent := make(chan error, 1)
	go func() {
		var err error
		if in != nil {
			_, err = io.Copy(to, in)
		}
		to.Close() // the exit status tells whether all was read
		sent <- err
	}()
	if out == nil {
		out = io.Discard
	}
	_, err := io.Copy(out, from)
	if c, ok := in.(io.Closer); ok && in != nil {
		c.Close() // so that a copy that waits for input ends
	}
	if e := <-sent; err == nil && !errors.Is(e, syscall.EPIPE) && !errors.Is(e, io.ErrClosedPipe) {
		err = e
	}
	return err
}

// tail keeps the last bytes that were written to it.
type tail struct{ bytes.Buffer }

func (t *tail) Write(b []byte) (int, error) {
	n := len(b)
	t.Buffer.Write(b[max(0, n-maxMessage):])
	if over := t.Len() - maxMessage; over > 0 {
		t.Next(over)
	}
	return n, nil
}

// quote returns s as one word of the shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// words returns a command as words of the shell.
func words(command []string) string {
	all := make([]string, len(command))
	for i, c := range command {
		all[i] = quote(c)
	}
	return strings.Join(all, " ")
}
