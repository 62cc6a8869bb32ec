// Package rolloutsapi holds AnalysisRun, with just the fields that the fleet Stage controller touches. Its group is of
// this example alone.
package rolloutsapi

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group of the kind.
var GroupVersion = schema.GroupVersion{Group: "rollouts.fleetstage.example.com", Version: "v1alpha1"}

// AddToScheme makes the kind known to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &AnalysisRun{}, &AnalysisRunList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// AnalysisRun verifies what a Stage has been promoted to.
type AnalysisRun struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   AnalysisRunSpec   `json:"spec"`
	Status AnalysisRunStatus `json:"status,omitempty"`
}

// AnalysisRunSpec says what is verified.
type AnalysisRunSpec struct {
	Stage string `json:"stage"`
}

// AnalysisRunStatus says how it goes.
type AnalysisRunStatus struct {
	Phase string `json:"phase,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (r *AnalysisRun) DeepCopyObject() runtime.Object { return r.DeepCopy() }

// DeepCopy returns a copy that shares nothing.
func (r *AnalysisRun) DeepCopy() *AnalysisRun {
	c := *r
	r.DeepCopyInto(&c.ObjectMeta)
	return &c
}

// AnalysisRunList is a list of AnalysisRuns.
type AnalysisRunList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []AnalysisRun `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *AnalysisRunList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = nil
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].DeepCopy())
	}
	return &c
}
