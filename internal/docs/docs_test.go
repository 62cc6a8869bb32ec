// Package docs keeps what the pages say true: the Go that they show is compiled, the tests that they name exist, and
// their links lead somewhere.
package docs

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// files are all files of the module, its nested modules included, that end in ext.
func files(t *testing.T, ext string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && strings.HasPrefix(d.Name(), ".") && d.Name() != "..":
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ext:
			return nil
		}
		data, err := os.ReadFile(path)
		found[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 5 {
		t.Fatalf("only %d files *%s found", len(found), ext)
	}
	return found
}

var block = regexp.MustCompile("(?ms)^ *```go\n(.*?)^ *```")

// Every block of Go stands, line by line, in a file that is compiled. A line of … leaves something out.
func TestGoIsCompiled(t *testing.T) {
	code := map[string]string{}
	for path, text := range files(t, ".go") {
		code[path] = squeeze(text)
	}
	blocks := 0
	for page, text := range files(t, ".md") {
		for _, m := range block.FindAllStringSubmatch(text, -1) {
			blocks++
			parts := strings.Split(squeeze(m[1]), "…\n")
			if !slices.ContainsFunc(slices.Collect(maps.Values(code)), func(c string) bool {
				return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(c, part) })
			}) {
				t.Errorf("%s shows Go that stands in no file that is compiled:\n%s", page, m[1])
			}
		}
	}
	if blocks == 0 {
		t.Error("no block of Go was found")
	}
}

var space = regexp.MustCompile(`\s+`)

// squeeze takes out what layout adds, and comments.
func squeeze(code string) string {
	var lines []string
	for line := range strings.Lines(code) {
		line = strings.TrimSpace(line)
		if i := strings.Index(line, "// "); i >= 0 {
			line = line[:i]
		}
		if line = space.ReplaceAllString(strings.TrimSpace(line), " "); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

var named = regexp.MustCompile("`(Test[A-Za-z0-9_]+)`")

func TestNamedTestsExist(t *testing.T) {
	defined := map[string]bool{}
	for path, text := range files(t, ".go") {
		if strings.HasSuffix(path, "_test.go") {
			for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(text, -1) {
				defined[m[1]] = true
			}
		}
	}
	n := 0
	for page, text := range files(t, ".md") {
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			if n++; !defined[m[1]] {
				t.Errorf("%s names %s, and there is no such test", page, m[1])
			}
		}
	}
	if n < 50 {
		t.Errorf("only %d tests are named", n)
	}
}

var fenced = regexp.MustCompile("(?ms)^ *```.*?^ *```")

var link = regexp.MustCompile(`\]\(([^)#]+)(#[^)]*)?\)`)

func TestLinksLeadSomewhere(t *testing.T) {
	for page, text := range files(t, ".md") {
		for _, m := range link.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			}
		}
	}
}
