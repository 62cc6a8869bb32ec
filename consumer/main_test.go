package consumer_test

import (
	"testing"

	"github.com/levelstream/jsource/internal/natstest"
)

func TestMain(m *testing.M) { natstest.Main(m, nil) }
