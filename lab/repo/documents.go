package repo

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A Command is a line of a code block that calls one of the programs.
type Command struct {
	File string // relative to the root of the repository
	Line int    // from 1
	Args []string
}

// Commands returns the command lines in the code blocks of all documents below
// root that call program, such as "peerd". Comments are removed. "|" between two
// words separates alternatives; the first one is taken. Words in brackets are
// optional and left out.
func Commands(root, program string) ([]Command, error) {
	files, err := Documents(root)
	if err != nil {
		return nil, err
	}
	var all []Command
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return nil, err
		}
		for i, line := range codeLines(string(text)) {
			if args, ok := call(line, program); ok {
				all = append(all, Command{File: file, Line: i + 1, Args: args})
			}
		}
	}
	return all, nil
}

// Documents returns the Markdown files below root, relative to it.
func Documents(root string) (files []string, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (d.Name()[0] == '.' || d.Name() == "testdata"):
			return filepath.SkipDir
		case !d.IsDir() && strings.HasSuffix(path, ".md"):
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			files = append(files, filepath.ToSlash(rel))
		}
		return nil
	})
	return files, err
}

// codeLines returns text line by line. Lines that are not in a code block are empty.
func codeLines(text string) []string {
	lines := strings.Split(text, "\n")
	fenced := false
	for i, line := range lines {
		switch {
		case strings.HasPrefix(line, "```"):
			fenced = !fenced
			lines[i] = ""
		case !fenced && !strings.HasPrefix(line, "    "):
			lines[i] = ""
		}
	}
	return lines
}

// call returns the arguments of line if it calls program.
func call(line, program string) (args []string, ok bool) {
	line, _, _ = strings.Cut(line, " #")
	for strings.Contains(line, "[") { // optional words
		before, rest, _ := strings.Cut(line, "[")
		_, after, closed := strings.Cut(rest, "]")
		if !closed {
			break
		}
		line = before + after
	}
	words := split(line)
	for len(words) > 0 && strings.Contains(words[0], "=") {
		words = words[1:] // variables of the environment
	}
	switch {
	case len(words) >= 3 && words[0] == "go" && words[1] == "run" && words[2] == "./cmd/"+program:
		words = words[3:]
	case len(words) >= 1 && (words[0] == program || words[0] == "./"+program):
		words = words[1:]
	default:
		return nil, false
	}
	for i, w := range words {
		if w == "&" || w == "|" || w == ">" {
			words = words[:i]
			break
		}
		if !strings.Contains(w, "://") && !strings.HasPrefix(w, "/") {
			words[i], _, _ = strings.Cut(w, "|")
		}
	}
	return words, true
}

// split splits line at blanks outside single quotes.
func split(line string) (words []string) {
	quoted := false
	for _, part := range strings.FieldsFunc(line, func(r rune) bool {
		if r == '\'' {
			quoted = !quoted
		}
		return r == ' ' && !quoted
	}) {
		words = append(words, strings.Trim(part, "'"))
	}
	return words
}
