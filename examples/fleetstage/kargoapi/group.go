// Package kargoapi holds the kinds that the fleet Stage controller works on, with just the fields it touches. Their
// group is of this example alone, so that it meets nobody in a cluster that is in use.
package kargoapi

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group of the kinds.
var GroupVersion = schema.GroupVersion{Group: "fleetstage.example.com", Version: "v1alpha1"}

// What annotations and labels say.
const (
	// ShardLabel names the controller that is responsible for an object.
	ShardLabel = "fleetstage.example.com/shard"
	// AnnotationRefresh asks for a reconcile when its value changes; so do the other two.
	AnnotationRefresh           = "fleetstage.example.com/refresh"
	AnnotationReverify          = "fleetstage.example.com/reverify"
	AnnotationAbortVerification = "fleetstage.example.com/abort-verification"
)

// AddToScheme makes the kinds known to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Stage{}, &StageList{}, &Freight{}, &FreightList{},
		&PromotionRequest{}, &PromotionRequestList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
