package kubetest

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"k8s.io/client-go/discovery"

	"github.com/levelstream/jsource/internal/natstest"
)

func TestMain(m *testing.M) { Main(m, map[string]func(){orphaning: orphan}) }

// orphaning is a process with an API server that it does not stop.
const orphaning = "orphaning"

func orphan() {
	c, err := start()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("serving", c.Config.Host)
	select {}
}

// A process that dies leaves no API server behind.
func TestLifeline(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no /proc")
	}
	p := natstest.Child(t, orphaning)
	host := p.WaitLine("serving ")
	u, err := url.Parse(host)
	if err != nil {
		t.Fatal(err)
	}
	p.Kill()
	natstest.Eventually(t, "nobody listens any more", natstest.Patience, func() error {
		conn, err := net.Dial("tcp", u.Host)
		if err != nil {
			return nil //nolint:nilerr // as it should be
		}
		return errors.Join(conn.Close(), errors.New("somebody does"))
	})
}

// Nothing is skipped where the API server is missing: the error says what to do.
func TestAssets_MissingSaysHowToBuildThem(t *testing.T) {
	t.Setenv(assetsVariable, t.TempDir())
	_, err := assets()
	if err == nil || !strings.Contains(err.Error(), "make kubernetes") {
		t.Errorf("error %v does not say how to build them", err)
	}
}

// A plain go test finds what the Makefile has built.
func TestAssets_FoundInTheCheckout(t *testing.T) {
	root := t.TempDir()
	t.Setenv(assetsVariable, "")
	deep := filepath.Join(root, "a", "b")
	dir := filepath.Join(root, ".cache", "kubernetes", "v1.2.3-etcd-v4.5.6")
	for _, d := range []string{deep, dir, filepath.Dir(filepath.Join(root, pins))} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		filepath.Join(root, pins):            "require (\n\tgo.etcd.io/etcd/server/v3 v4.5.6\n\tk8s.io/kubernetes v1.2.3\n)\n",
		filepath.Join(dir, "etcd"):           "",
		filepath.Join(dir, "kube-apiserver"): "",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(deep)
	got, err := assets()
	if err != nil {
		t.Fatal(err)
	}
	if want, _ := filepath.EvalSymlinks(dir); want == "" || !strings.HasSuffix(got, filepath.Base(want)) {
		t.Errorf("found %s, want %s", got, dir)
	}
}

func TestStart_ServesTheVersionThatIsPinned(t *testing.T) {
	c := Start(t)
	if Start(t) != c {
		t.Error("a second API server")
	}
	d, err := discovery.NewDiscoveryClientForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	v, err := d.ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Base(Assets(t)); os.Getenv(assetsVariable) == "" && !strings.HasPrefix(want, v.GitVersion+"-") {
		t.Errorf("it says that it is %s, in %s", v.GitVersion, want)
	}
	if ns := c.Namespace(t); !strings.HasPrefix(ns, "test-") {
		t.Errorf("namespace %q", ns)
	}
}
