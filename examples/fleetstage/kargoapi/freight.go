package kargoapi

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Freight is something that can be promoted.
type Freight struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Origin string        `json:"origin"` // the Warehouse that has made it
	Status FreightStatus `json:"status,omitempty"`
}

// FreightStatus says how far it has come. The keys are names of Stages.
type FreightStatus struct {
	VerifiedIn  map[string]bool `json:"verifiedIn,omitempty"`
	ApprovedFor map[string]bool `json:"approvedFor,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (f *Freight) DeepCopyObject() runtime.Object { return f.DeepCopy() }

// DeepCopy returns a copy that shares nothing.
func (f *Freight) DeepCopy() *Freight {
	c := *f
	f.DeepCopyInto(&c.ObjectMeta)
	c.Status.VerifiedIn, c.Status.ApprovedFor = maps.Clone(f.Status.VerifiedIn), maps.Clone(f.Status.ApprovedFor)
	return &c
}

// FreightList is a list of Freight.
type FreightList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Freight `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *FreightList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = copyAll(l.Items, (*Freight).DeepCopy)
	return &c
}
