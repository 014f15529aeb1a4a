package config

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"peerd/internal/bounded"

	"github.com/pelletier/go-toml/v2"
)

// maxFileBytes bounds config.toml and profiles.
const maxFileBytes = 1 << 20

// readFile returns the content of a file of at most maxFileBytes.
func readFile(path string) ([]byte, error) {
	b, err := bounded.ReadFile(path, maxFileBytes)
	if errors.Is(err, bounded.ErrTooLarge) {
		err = asInvalid(err)
	}
	return b, err
}

// Load reads a file of at most 1 MiB into v, which holds the defaults, as strictly as config.toml,
// and validates v. Faults that begin with a key of the file, as machine[2].name for the second
// table [[machine]], get its line and column. Errors about the content match ErrInvalid.
func Load(file string, v interface{ Validate() error }) error {
	text, err := readFile(file)
	if err != nil {
		return err
	}
	return Parse(file, text, v)
}

// Parse is Load for a text that did not come from a file, and is called name.
func Parse(name string, text []byte, v interface{ Validate() error }) error {
	if err := decode(name, text, v); err != nil {
		return err
	}
	return inFile(name, text, v.Validate())
}

// decode decodes TOML into v, which holds the defaults. A key that v does not have is an error.
// Every error names the file, has one line for each fault, and matches ErrInvalid.
func decode(name string, text []byte, v any) error {
	d := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields()
	err := d.Decode(v)
	var missing *toml.StrictMissingError
	var wrong *toml.DecodeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &missing):
		var f faults
		for i := range missing.Errors {
			row, col := missing.Errors[i].Position()
			f.addf("%s:%d:%d: unknown key %q", name, row, col, keyName(missing.Errors[i].Key()))
		}
		return f.err()
	case errors.As(err, &wrong):
		row, col := wrong.Position()
		key := keyName(wrong.Key())
		if key != "" {
			key += ": "
		}
		return asInvalid(fmt.Errorf("%s:%d:%d: %s%s", name, row, col, key,
			userMessage(wrong.Error())))
	}
	if s, bad := unquotedValueError(text, v); s.key != "" {
		return asInvalid(fmt.Errorf("%s%s: %s: %w", name, s.place(text), clip(s.key), bad))
	}
	return asInvalid(fmt.Errorf("%s: %s", name, userMessage(err.Error())))
}

func keyName(k toml.Key) string { return clip(strings.Join(k, ".")) }

// userMessage rewrites a message of the decoder for a reader who sees the file and not the Go
// types.
func userMessage(msg string) string {
	msg = strings.TrimPrefix(msg, "toml: ")
	rest, ok := strings.CutPrefix(msg, "cannot decode TOML ")
	if !ok {
		return strings.ReplaceAll(msg, "\n", " ")
	}
	got, typ, _ := strings.Cut(rest, " into ")
	if i := strings.LastIndex(typ, " of type "); i >= 0 { // else it is of a map
		typ = typ[i+len(" of type "):]
	}
	want := "another kind of value"
	switch {
	case typ == "string":
		want = "a string"
	case strings.HasPrefix(typ, "int"):
		want = "an integer"
	case strings.HasPrefix(typ, "float"):
		want = "a number"
	case typ == "bool":
		want = "true or false"
	case typ == "config.Hours":
		want = "a string"
	case strings.HasPrefix(typ, "[]"):
		want = `a list, such as ["a", "b"]`
	case strings.HasPrefix(typ, "map["), strings.HasPrefix(typ, "config."):
		want = "a table"
	}
	return fmt.Sprintf("got %s, want %s", got, want)
}
