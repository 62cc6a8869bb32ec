package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
)

// profile is the file for the profile of run n.
func (s *settings) profile(n int, c *Contender) string {
	if s.profiles == "" {
		return ""
	}
	return filepath.Join(s.profiles, fmt.Sprintf("%02d-%s.prof", n, c.Name))
}

// startProfile writes a CPU profile to file until stop is called; without a file it does nothing.
func startProfile(file string) (stop func(), err error) {
	if file == "" {
		return func() {}, nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, fmt.Errorf("making the folder for the CPU profiles: %w", err)
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, fmt.Errorf("making the file for a CPU profile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("starting a CPU profile: %w", err)
	}
	return func() {
		pprof.StopCPUProfile()
		f.Close()
	}, nil
}
