package runner

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
)

// realSSH starts an ssh server that runs commands as sshd does, by the user's shell, and returns
// how the system's ssh reaches it; nil if there is no ssh.
func realSSH(t *testing.T) Command {
	t.Helper()
	client, err := exec.LookPath("ssh")
	if err != nil {
		t.Log("ssh is not installed: only a program that takes its arguments apart as ssh does")
		return nil
	}
	dir := t.TempDir()
	key, _ := newKey(t)
	user, private := newKey(t)
	identity, known := filepath.Join(dir, "id"), filepath.Join(dir, "known_hosts")
	if err := os.WriteFile(identity, private, 0o600); err != nil { // ssh refuses any other mode
		t.Fatal(err)
	}
	conf := &ssh.ServerConfig{
		PublicKeyCallback: func(_ ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
			if string(k.Marshal()) != string(user.PublicKey().Marshal()) {
				return nil, errors.New("unknown key")
			}
			return nil, nil
		},
	}
	conf.AddHostKey(key)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { serveSSH(c, conf) })
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	port := l.Addr().(*net.TCPAddr).Port
	write(t, known, fmt.Sprintf("[127.0.0.1]:%d %s", port,
		ssh.MarshalAuthorizedKey(key.PublicKey())))
	return Command{client, "-F", "none", "-p", fmt.Sprint(port), "-i", identity,
		"-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes",
		"-o", "UserKnownHostsFile=" + known, "user@127.0.0.1"}
}

// newKey returns a key, and its private part as ssh reads it from a file.
func newKey(t *testing.T) (s ssh.Signer, file []byte) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	if s, err = ssh.NewSignerFromKey(private); err != nil {
		t.Fatal(err)
	}
	return s, pem.EncodeToMemory(block)
}

// serveSSH serves one connection: its sessions run commands, and nothing else is granted.
func serveSSH(c net.Conn, conf *ssh.ServerConfig) {
	defer c.Close()
	_, channels, requests, err := ssh.NewServerConn(c, conf)
	if err != nil {
		return
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { ssh.DiscardRequests(requests) })
	for n := range channels {
		if n.ChannelType() != "session" {
			_ = n.Reject(ssh.UnknownChannelType, "only sessions")
			continue
		}
		ch, asked, err := n.Accept()
		if err != nil {
			return
		}
		wg.Go(func() { serveSession(ch, asked) })
	}
}

// serveSession runs the command of a session and sends its exit status.
func serveSession(ch ssh.Channel, asked <-chan *ssh.Request) {
	defer ch.Close()
	for r := range asked {
		var command struct{ Line string }
		if r.Type != "exec" || ssh.Unmarshal(r.Payload, &command) != nil {
			_ = r.Reply(false, nil)
			continue
		}
		_ = r.Reply(true, nil)
		go ssh.DiscardRequests(asked)
		cmd := exec.Command("sh", "-c", command.Line)
		cmd.Stdout, cmd.Stderr = ch, ch.Stderr()
		in, err := cmd.StdinPipe()
		if err != nil || cmd.Start() != nil {
			return
		}
		go func() { // ends with the channel
			_, _ = io.Copy(in, ch)
			in.Close()
		}()
		var exit *exec.ExitError
		status := struct{ Code uint32 }{}
		if errors.As(cmd.Wait(), &exit) {
			status.Code = uint32(exit.ExitCode())
		}
		_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(status))
		return
	}
}
