package kube_test

import (
	"testing"

	"github.com/levelstream/jsource/internal/kubetest"
)

func TestMain(m *testing.M) {
	kubetest.Main(m, map[string]func(){leaderChild: leader})
}
