package kubetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// patience is how long the two programs may take to start and to stop. They need five seconds and one; the
// machine may be slow.
const patience = 2 * time.Minute

// Cluster is the API server of a test binary.
type Cluster struct {
	// Config connects as an administrator.
	Config   *rest.Config
	env      *envtest.Environment
	lifeline *lifeline
}

var (
	mu      sync.Mutex
	running *Cluster
	failed  error // the first attempt to start it
)

// Start returns the test binary's API server, which the first call starts. It fails the test if there is none.
func Start(tb testing.TB) *Cluster {
	tb.Helper()
	mu.Lock()
	defer mu.Unlock()
	if running == nil && failed == nil {
		running, failed = start()
	}
	if failed != nil {
		tb.Fatal(failed)
	}
	return running
}

func start() (*Cluster, error) {
	dir, err := assets()
	if err != nil {
		return nil, err
	}
	env := &envtest.Environment{
		BinaryAssetsDirectory:    dir,
		ControlPlaneStartTimeout: patience,
		ControlPlaneStopTimeout:  patience,
	}
	cfg, err := env.Start()
	if err != nil {
		return nil, fmt.Errorf("starting kube-apiserver and etcd: %w", err)
	}
	l, err := newLifeline("kube-apiserver", "etcd")
	if err != nil {
		return nil, errors.Join(err, env.Stop())
	}
	return &Cluster{Config: cfg, env: env, lifeline: l}, nil
}

// stop stops the API server if a test has started it.
func stop() error {
	mu.Lock()
	defer mu.Unlock()
	if running == nil {
		return nil
	}
	err := running.env.Stop()
	running.lifeline.cut()
	running = nil
	return err
}

// Kubeconfig writes the administrator's kubeconfig into a file of the test, for a child process.
func (c *Cluster) Kubeconfig(tb testing.TB) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, c.env.KubeConfig, 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

// Client is a client without a cache that knows scheme; nil means Kubernetes' own kinds.
func (c *Cluster) Client(tb testing.TB, scheme *runtime.Scheme) client.Client {
	tb.Helper()
	cl, err := client.New(c.Config, client.Options{Scheme: scheme})
	if err != nil {
		tb.Fatalf("making a client: %v", err)
	}
	return cl
}

// Namespace makes a namespace for the test alone. It stays: no controller would clear it up.
func (c *Cluster) Namespace(tb testing.TB) string {
	tb.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.Client(tb, nil).Create(ctx, ns); err != nil {
		tb.Fatalf("making a namespace: %v", err)
	}
	return ns.Name
}

// User returns the configuration of a user who may do nothing but look around (system:discovery), until a role
// says otherwise.
func (c *Cluster) User(tb testing.TB, name string) *rest.Config {
	tb.Helper()
	user, err := c.env.AddUser(envtest.User{Name: name, Groups: []string{"system:authenticated"}}, c.Config)
	if err != nil {
		tb.Fatalf("adding user %s: %v", name, err)
	}
	return user.Config()
}
