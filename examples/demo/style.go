package main

import (
	"os"
	"strings"

	"golang.org/x/term"
)

// style colours text, if it is on.
type style struct{ on bool }

const (
	escape = "\x1b["
	reset  = escape + "0m"
)

func (s style) wrap(code, text string) string {
	if !s.on {
		return text
	}
	return escape + code + "m" + text + reset
}

func (s style) bold(text string) string  { return s.wrap("1", text) }
func (s style) dim(text string) string   { return s.wrap("2", text) }
func (s style) red(text string) string   { return s.wrap("1;31", text) }
func (s style) green(text string) string { return s.wrap("1;32", text) }

// uncoloured is text without its colours.
func uncoloured(text string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(text, escape)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		_, text, _ = strings.Cut(after, "m")
	}
}

// terminal is what is known of where the demo prints.
type terminal struct {
	redraws bool // the cursor can be moved
	style   style
	width   func() int
}

// terminalOf looks at where out goes to, and at what the environment says of it.
func terminalOf(out *os.File) terminal {
	t := terminal{width: func() int { return 100 }}
	fd := int(out.Fd())
	if !term.IsTerminal(fd) || os.Getenv("TERM") == "dumb" {
		return t
	}
	t.redraws = true
	t.style.on = os.Getenv("NO_COLOR") == ""
	t.width = func() int {
		if w, _, err := term.GetSize(fd); err == nil && w > 0 {
			return w
		}
		return 80
	}
	return t
}
