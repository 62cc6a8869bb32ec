// Package kubetest runs a real Kubernetes API server for tests: kube-apiserver and etcd, built from their modules
// by `make kubernetes`, on loopback, one for each test binary. There are no nodes, no scheduler and no garbage
// collector: objects are stored, validated, watched and listed, and leases are held.
//
// A package's TestMain calls [Main]; a test asks for the server with [Start], which is quick from the second time
// on, and keeps its objects in a [Cluster.Namespace] of its own. Nothing is skipped where the two programs are
// missing: the test fails and says how to build them.
package kubetest
