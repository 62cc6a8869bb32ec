package jsource_test

import (
	"testing"

	"github.com/levelstream/jsource/internal/natstest"
)

// children are what this test binary can be started as, by name: files that need one add it in init.
var children = map[string]func(){}

func TestMain(m *testing.M) { natstest.Main(m, children) }
