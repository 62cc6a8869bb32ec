// Command licenses writes a page with the modules that come with packages of this one, and the licences of each. It
// reads the go command's lists and the licence files in the module cache, nothing else. It fails if it finds a licence that
// is not on its list, or none:
//
//	go -C tools/licenses run . ./jsource ./reconciler/...
package main

import (
	"errors"
	"fmt"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-licenses/v2/licenses"
)

// root is the module whose packages are meant.
const root = "../.."

// allowed are licences that go with Apache-2.0 and ask for no more than that their text is passed on.
var allowed = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT"}

// systems are those whose imports count.
var systems = []string{"linux", "darwin", "windows"}

const head = `# Licences

The modules that come with this one, on Linux, macOS and Windows: what its packages and its command import. What only its
tests, benchmarks, examples and tools need is not here. A program of yours holds those of them whose packages it imports. The
licences are those that github.com/google/go-licenses recognizes in the files of each.

All of these licences go with Apache-2.0. None asks for the source; whoever passes on a binary passes on their texts, and the
NOTICE file of a module that has one.

`

func main() {
	log.SetFlags(0)
	text, err := page(os.Args[1:])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(text)
}

// page is what there is to say about what packages import.
func page(packages []string) (string, error) {
	found := map[string]map[string]bool{} // the licences of each module
	classifier, err := licenses.NewClassifier()
	if err != nil {
		return "", err
	}
	var errs []error
	seen := map[string]bool{}
	for _, system := range systems {
		dirs, err := imported(system, packages)
		if err != nil {
			return "", err
		}
		for _, d := range dirs {
			if found[d.module] == nil {
				found[d.module] = map[string]bool{}
			}
			files, err := licenses.FindCandidates(d.dir, d.root)
			if err != nil {
				return "", err
			}
			for _, file := range files {
				if seen[file] || !isLicence(file) {
					continue
				}
				seen[file] = true
				list, err := classifier.Identify(file)
				if err != nil {
					return "", err
				}
				if len(list) == 0 {
					errs = append(errs, fmt.Errorf("%s: no licence is recognized in %s", d.module, filepath.Base(file)))
				}
				for _, l := range list {
					found[d.module][l.Name] = true
				}
			}
		}
	}

	var table strings.Builder
	for _, module := range slices.Sorted(maps.Keys(found)) {
		names := slices.Sorted(maps.Keys(found[module]))
		if len(names) == 0 {
			errs = append(errs, fmt.Errorf("%s: it has no licence file", module))
		}
		for _, name := range names {
			if !slices.Contains(allowed, name) {
				errs = append(errs, fmt.Errorf("%s: %s is not one of %s", module, name, strings.Join(allowed, ", ")))
			}
		}
		fmt.Fprintf(&table, "| %s | %s |\n", module, strings.Join(names, ", "))
	}
	return head + "| module | licences |\n| --- | --- |\n" + table.String(), errors.Join(errs...)
}

// isLicence reports whether a file, found by its name, holds a licence: others may just name one, or be code.
func isLicence(file string) bool {
	name := strings.ToUpper(filepath.Base(file))
	return !strings.HasPrefix(name, "README") && !strings.HasPrefix(name, "NOTICE") && filepath.Ext(name) != ".GO"
}

// folder is where a package is.
type folder struct{ module, root, dir string }

// imported lists the packages of other modules that packages import, directly or not, without the standard library.
func imported(system string, packages []string) (dirs []folder, err error) {
	cmd := exec.Command("go", append([]string{ //nolint:gosec // make says which packages
		"list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Dir}}\t{{$.Dir}}{{end}}{{end}}",
	}, packages...)...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH=amd64", "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		if f := strings.Split(strings.TrimSpace(line), "\t"); len(f) == 3 {
			dirs = append(dirs, folder{f[0], f[1], f[2]})
		}
	}
	return dirs, nil
}
