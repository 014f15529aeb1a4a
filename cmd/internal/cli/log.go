package cli

import (
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	golog "github.com/ipfs/go-log/v2"
	"github.com/libp2p/go-libp2p/gologshim"
	"github.com/spf13/cobra"
	"gopkg.in/natefinch/lumberjack.v2"
)

// A Log says where messages go, and in which form. Options of the command line come before it.
type Log struct {
	Level slog.Level
	// JSON writes one JSON object a line instead of text.
	JSON bool
	// File is appended to instead of stderr; "": stderr. At MaxSize megabytes it is renamed, with
	// the time in its name, and Backups renamed files are kept.
	File             string
	MaxSize, Backups int
}

// handler returns the handler of l at a level. The file is opened with the first message.
func (l Log) handler(stderr io.Writer, level slog.Level) slog.Handler {
	w := stderr
	if l.File != "" {
		w = &lumberjack.Logger{Filename: l.File, MaxSize: l.MaxSize, MaxBackups: l.Backups}
	}
	o := &slog.HandlerOptions{Level: level}
	if l.JSON {
		return slog.NewJSONHandler(w, o)
	}
	return slog.NewTextHandler(w, o)
}

// NewLogger returns a logger on stderr at the level of --log-level, or else at
// level. Messages of libraries are logged only if --library-log-level is given.
func NewLogger(cmd *cobra.Command, level slog.Level) (*slog.Logger, error) {
	return Log{Level: level}.New(cmd)
}

// New is NewLogger for messages that go elsewhere, or in another form.
func (l Log) New(cmd *cobra.Command) (*slog.Logger, error) {
	level := l.Level
	if _, err := levelFlag(cmd, "log-level", &level); err != nil {
		return nil, err
	}
	switch format, _ := cmd.Flags().GetString("log-format"); format {
	case "json", "text":
		l.JSON = format == "json"
	case "":
	default:
		return nil, Usagef(cmd, "--log-format %q: want text or json", format)
	}
	var libraries slog.Level
	withLibraries, err := levelFlag(cmd, "library-log-level", &libraries)
	if err != nil {
		return nil, err
	}
	if l.File != "" {
		if err := checkLogFile(l.File); err != nil {
			return nil, fmt.Errorf("log file: %w", err)
		}
	}
	log := slog.New(l.handler(cmd.ErrOrStderr(), level))
	slog.SetDefault(log)
	h := slog.DiscardHandler
	if withLibraries {
		l.File = "" // two writers of one file would rename it twice
		h = l.handler(cmd.ErrOrStderr(), libraries)
	}
	redirectLibraryLogs(slog.New(h))
	return log, nil
}

// checkLogFile returns why messages cannot be appended to a file: later they would be lost without
// a word. It creates the file, as the first message would.
func checkLogFile(name string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// levelFlag sets level to the value of a flag and reports whether the flag was given.
func levelFlag(cmd *cobra.Command, name string, level *slog.Level) (given bool, err error) {
	text, _ := cmd.Flags().GetString(name)
	if text == "" {
		return false, nil
	}
	if err := level.UnmarshalText([]byte(text)); err != nil {
		return false, Usagef(cmd, "--%s %q: want debug, info, warn or error", name, text)
	}
	return true, nil
}

// redirectLibraryLogs sends what the libp2p libraries and the standard library log on
// their own to log. Their messages are about other peers and servers, contain what
// these sent, and look like messages of peerd.
func redirectLibraryLogs(log *slog.Logger) {
	gologshim.SetDefaultHandler(log.Handler())
	golog.SetupLogging(golog.Config{Level: golog.LevelFatal})
	stdlog.SetFlags(0)
	stdlog.SetOutput(libraryWriter{log})
}

// libraryWriter is where the standard library's own logger writes.
type libraryWriter struct{ log *slog.Logger }

// Write logs a message, or what it begins with.
func (h libraryWriter) Write(text []byte) (int, error) {
	h.log.Info("library", "text", Clip(strings.TrimSpace(string(text))))
	return len(text), nil
}
