package kargoapi

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Stage is a place that Freight is promoted to. One with selectors governs the Targets that match them.
type Stage struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   StageSpec   `json:"spec"`
	Status StageStatus `json:"status,omitempty"`
}

// StageSpec is what its author wants.
type StageSpec struct {
	RequestedFreight []FreightRequest `json:"requestedFreight,omitempty"`
	// PromotionSteps are none in a control flow Stage, which only passes Freight on.
	PromotionSteps []string `json:"promotionSteps,omitempty"`
	// TargetSelectors choose Targets by their labels; a Stage without any is not target-aware.
	TargetSelectors []metav1.LabelSelector `json:"targetSelectors,omitempty"`
}

// FreightRequest says which Freight a Stage takes.
type FreightRequest struct {
	Origin string   `json:"origin"`           // the Warehouse it comes from
	Direct bool     `json:"direct,omitempty"` // straight from there
	Stages []string `json:"stages,omitempty"` // once one of these has verified it
}

// StageStatus is what the controller says.
type StageStatus struct {
	ObservedGeneration int64    `json:"observedGeneration,omitempty"`
	HandledRefresh     string   `json:"handledRefresh,omitempty"`
	OpenRequests       int      `json:"openRequests"` // PromotionRequests that have not ended
	LastRequest        string   `json:"lastRequest,omitempty"`
	AvailableFreight   []string `json:"availableFreight,omitempty"`
	Targets            []string `json:"targets,omitempty"` // what it governs, as "<name> <params>"
	Verification       string   `json:"verification,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (s *Stage) DeepCopyObject() runtime.Object { return s.DeepCopy() }

// DeepCopy returns a copy that shares nothing.
func (s *Stage) DeepCopy() *Stage {
	c := *s
	s.DeepCopyInto(&c.ObjectMeta)
	c.Spec.RequestedFreight = slices.Clone(s.Spec.RequestedFreight)
	for i := range c.Spec.RequestedFreight {
		c.Spec.RequestedFreight[i].Stages = slices.Clone(c.Spec.RequestedFreight[i].Stages)
	}
	c.Spec.PromotionSteps = slices.Clone(s.Spec.PromotionSteps)
	c.Spec.TargetSelectors = slices.Clone(s.Spec.TargetSelectors)
	for i := range c.Spec.TargetSelectors {
		s.Spec.TargetSelectors[i].DeepCopyInto(&c.Spec.TargetSelectors[i])
	}
	c.Status.AvailableFreight = slices.Clone(s.Status.AvailableFreight)
	c.Status.Targets = slices.Clone(s.Status.Targets)
	return &c
}

// StageList is a list of Stages.
type StageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Stage `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *StageList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = copyAll(l.Items, (*Stage).DeepCopy)
	return &c
}

// copyAll copies the items of a list.
func copyAll[T any](items []T, deepCopy func(*T) *T) []T {
	if items == nil {
		return nil
	}
	c := make([]T, len(items))
	for i := range items {
		c[i] = *deepCopy(&items[i])
	}
	return c
}
