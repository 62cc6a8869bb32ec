//go:build unix

package chaos_test

import (
	"testing"

	"github.com/levelstream/jsource/internal/chaos"
	"github.com/levelstream/jsource/internal/natstest"
)

func TestMain(m *testing.M) {
	chaos.RunChild()
	natstest.Main(m, nil)
}
