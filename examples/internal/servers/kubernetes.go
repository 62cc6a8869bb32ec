// Package servers gives an example the servers it runs against: somebody's, or its own, which listen on loopback and
// leave nothing behind.
package servers

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// patience is how long kube-apiserver and etcd may take to start and to stop; five seconds and one are usual.
const patience = 2 * time.Minute

// Kubernetes is an API server.
type Kubernetes struct {
	Config *rest.Config
	// Kubeconfig is a file for kubectl.
	Kubeconfig string
	env        *envtest.Environment // nil: somebody's
}

// OpenKubernetes uses the cluster of a kubeconfig, or starts kube-apiserver and etcd if that is empty: those in the
// folder KUBEBUILDER_ASSETS, with a kubeconfig in dir.
func OpenKubernetes(kubeconfig, dir string) (*Kubernetes, error) {
	if kubeconfig != "" {
		cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("reading the kubeconfig: %w", err)
		}
		return &Kubernetes{Config: cfg, Kubeconfig: kubeconfig}, nil
	}
	env := &envtest.Environment{ControlPlaneStartTimeout: patience, ControlPlaneStopTimeout: patience}
	cfg, err := env.Start()
	if err != nil {
		return nil, fmt.Errorf("starting kube-apiserver and etcd from the folder KUBEBUILDER_ASSETS (%q): %w; "+
			"'make kubernetes' builds both, the make target of this example does so by itself, and -kubeconfig takes a cluster of yours",
			os.Getenv("KUBEBUILDER_ASSETS"), err)
	}
	k := &Kubernetes{Config: cfg, Kubeconfig: filepath.Join(dir, "kubeconfig"), env: env}
	if err := os.WriteFile(k.Kubeconfig, env.KubeConfig, 0o600); err != nil {
		_ = k.Close() // the first error says more
		return nil, err
	}
	return k, nil
}

// Close stops what OpenKubernetes has started.
func (k *Kubernetes) Close() error {
	if k.env == nil {
		return nil
	}
	return k.env.Stop()
}
