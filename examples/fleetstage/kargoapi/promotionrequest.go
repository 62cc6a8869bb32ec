package kargoapi

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Phases of a PromotionRequest, wherever it is kept.
const (
	PhasePending   = "Pending"
	PhaseRunning   = "Running"
	PhaseSucceeded = "Succeeded"
	PhaseFailed    = "Failed"
)

// Terminal reports whether a PromotionRequest in this phase has ended.
func Terminal(phase string) bool { return phase == PhaseSucceeded || phase == PhaseFailed }

// PromotionRequest asks for Freight to be promoted to a Stage, which owns it.
type PromotionRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   PromotionRequestSpec   `json:"spec"`
	Status PromotionRequestStatus `json:"status,omitempty"`
}

// PromotionRequestSpec is what is asked for.
type PromotionRequestSpec struct {
	Stage   string `json:"stage"`
	Freight string `json:"freight"`
}

// PromotionRequestStatus says how far it has come.
type PromotionRequestStatus struct {
	Phase string `json:"phase,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (r *PromotionRequest) DeepCopyObject() runtime.Object { return r.DeepCopy() }

// DeepCopy returns a copy that shares nothing.
func (r *PromotionRequest) DeepCopy() *PromotionRequest {
	c := *r
	r.DeepCopyInto(&c.ObjectMeta)
	return &c
}

// PromotionRequestList is a list of PromotionRequests.
type PromotionRequestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []PromotionRequest `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *PromotionRequestList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = copyAll(l.Items, (*PromotionRequest).DeepCopy)
	return &c
}
