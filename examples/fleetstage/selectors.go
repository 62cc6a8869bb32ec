package main

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/levelstream/jsource/examples/fleetstage/kargoapi"
)

// targetSelectorsForStage returns what chooses a Stage's Targets.
func targetSelectorsForStage(stage *kargoapi.Stage) ([]labels.Selector, error) {
	var selectors []labels.Selector
	for i := range stage.Spec.TargetSelectors {
		s, err := metav1.LabelSelectorAsSelector(&stage.Spec.TargetSelectors[i])
		if err != nil {
			return nil, fmt.Errorf("target selector %d of Stage %s: %w", i+1, stage.Name, err)
		}
		selectors = append(selectors, s)
	}
	return selectors, nil
}

// anySelectorMatches reports whether one of the selectors matches.
func anySelectorMatches(selectors []labels.Selector, set map[string]string) bool {
	return slices.ContainsFunc(selectors, func(s labels.Selector) bool { return s.Matches(labels.Set(set)) })
}
