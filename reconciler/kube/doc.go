// Package kube joins reconciler controllers and Kubernetes, through controller-runtime. It is the only package
// that imports it.
//
//	kube.Kind, kube.Keyed   a Kubernetes kind as a source of a reconciler controller
//	kube.Runnable           a reconciler controller in a controller-runtime manager
//	kube.Source             any source of this module in a plain controller-runtime controller;
//	kube.Wrap, kube.Drain   what a durable source needs there besides
package kube
