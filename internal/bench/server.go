package bench

import (
	"context"
	"errors"
	"time"
)

// servers are the NATS servers of a run.
type servers interface {
	url() string
	// restart stops one of them for the length of an outage.
	restart(ctx context.Context) error
	// cpu is what they have used so far, beyond what this process has.
	cpu() (time.Duration, error)
	close() error
}

// startServers starts what the Spec asks for; its streams are kept in dir.
func startServers(s *Spec, dir string) (servers, error) {
	if s.URL != "" {
		return remote(s.URL), nil
	}
	o := serverOptions{Count: s.Replicas, Dir: dir}
	if s.Server == ownProcess {
		return startChild(o)
	}
	return startEmbedded(o)
}

// remote is a server of somebody's.
type remote string

func (r remote) url() string { return string(r) }

func (remote) restart(context.Context) error {
	return errors.New("the server of -nats is not ours to restart")
}

func (remote) cpu() (time.Duration, error) { return 0, nil }

func (remote) close() error { return nil }
