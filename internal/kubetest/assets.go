package kubetest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// assetsVariable is envtest's: the folder with kube-apiserver and etcd.
const assetsVariable = "KUBEBUILDER_ASSETS"

// pins is the module that says which versions they have, and marks the root of the checkout.
var pins = filepath.Join("tools", "kubernetes", "go.mod")

// Assets is the folder with both programs, for a test of a program that starts them itself. It fails the test if
// they are missing.
func Assets(tb testing.TB) string {
	tb.Helper()
	dir, err := assets()
	if err != nil {
		tb.Fatal(err)
	}
	return dir
}

// assets is the folder that holds both programs: what KUBEBUILDER_ASSETS says, or what the Makefile has built.
func assets() (string, error) {
	dir := os.Getenv(assetsVariable)
	if dir == "" {
		var err error
		if dir, err = built(); err != nil {
			return "", err
		}
	}
	for _, name := range []string{"kube-apiserver", "etcd"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return "", fmt.Errorf("there is no real API server for this test; 'make kubernetes' builds one, "+
				"which takes minutes, once (or set %s to a folder with kube-apiserver and etcd): %w", assetsVariable, err)
		}
	}
	return dir, nil
}

// built is the folder into which the Makefile builds: the versions in the pins are in its name.
func built() (string, error) {
	root, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		mod, err := os.ReadFile(filepath.Join(root, pins))
		if err == nil {
			name := version(string(mod), "k8s.io/kubernetes") + "-etcd-" + version(string(mod), "go.etcd.io/etcd/server/v3")
			return filepath.Join(root, ".cache", "kubernetes", name), nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
		parent := filepath.Dir(root)
		if parent == root {
			return "", fmt.Errorf("no %s in any folder above: set %s", pins, assetsVariable)
		}
		root = parent
	}
}

// version is the version of a module that a go.mod requires.
func version(mod, module string) string {
	for line := range strings.Lines(mod) {
		fields := strings.Fields(strings.TrimPrefix(line, "require "))
		if len(fields) >= 2 && fields[0] == module && strings.HasPrefix(fields[1], "v") {
			return fields[1]
		}
	}
	return ""
}
