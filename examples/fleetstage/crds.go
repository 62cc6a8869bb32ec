package main

import (
	"embed"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"
)

//go:embed crds/*.yaml
var crdFiles embed.FS

// installCRDs installs the kinds in a cluster, or updates them, and waits until it serves them. Whoever runs this on a
// cluster of theirs finds them there afterwards: other replicas may use them.
func installCRDs(cfg *rest.Config) error {
	files, err := crdFiles.ReadDir("crds")
	if err != nil {
		return err
	}
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, file := range files {
		text, err := crdFiles.ReadFile("crds/" + file.Name())
		if err != nil {
			return err
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(text, crd); err != nil {
			return fmt.Errorf("%s: %w", file.Name(), err)
		}
		crds = append(crds, crd)
	}
	if _, err := envtest.InstallCRDs(cfg, envtest.CRDInstallOptions{CRDs: crds, MaxTime: bound}); err != nil {
		return fmt.Errorf("installing the CRDs: %w", err)
	}
	return nil
}
