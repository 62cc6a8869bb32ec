package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// embedded is one NATS server inside this process, or a cluster of three.
type embedded struct {
	servers []*server.Server
	options []*server.Options
}

const (
	loopback    = "127.0.0.1"
	serverReady = 30 * time.Second
)

// serverOptions is what the servers are like, which a child process is told.
type serverOptions struct {
	Count int    `json:"count"`
	Dir   string `json:"dir"`
	Ports []int  `json:"ports,omitempty"` // of a restart; each server has two in a cluster
}

// startEmbedded starts servers that keep their streams in o.Dir, on ports that only this machine reaches.
func startEmbedded(o serverOptions) (_ *embedded, err error) {
	if o.Ports == nil {
		if o.Ports, err = freePorts(2 * o.Count); err != nil {
			return nil, err
		}
	}
	var routes []*url.URL
	for i := range o.Count {
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("%s:%d", loopback, o.Ports[2*i+1])})
	}
	e := &embedded{servers: make([]*server.Server, o.Count)}
	for i := range o.Count {
		opts := &server.Options{
			ServerName: fmt.Sprintf("bench-%d", i), Host: loopback, Port: o.Ports[2*i],
			JetStream: true, StoreDir: filepath.Join(o.Dir, fmt.Sprintf("server-%d", i)),
			JetStreamMaxMemory: 16 << 30, JetStreamMaxStore: 256 << 30, // the run's size is the user's to choose
			DisableJetStreamBanner: true, NoLog: true, NoSigs: true,
		}
		if o.Count > 1 {
			opts.Cluster = server.ClusterOpts{Name: "bench", Host: loopback, Port: o.Ports[2*i+1], NoAdvertise: true}
			opts.Routes = routes
		}
		e.options = append(e.options, opts)
	}
	for i := range e.servers {
		if err := e.launch(i); err != nil {
			e.close()
			return nil, err
		}
	}
	if err := e.ready(); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

// freePorts finds ports that nobody listens on. They are fixed so that a server that starts again has the
// same ones.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", loopback+":0")
		if err != nil {
			return nil, fmt.Errorf("looking for a free port for a NATS server: %w", err)
		}
		defer l.Close() //nolint:revive // all at the end, so that no port is found twice
		addr, ok := l.Addr().(*net.TCPAddr)
		if !ok {
			return nil, fmt.Errorf("looking for a free port for a NATS server: %v is no TCP address", l.Addr())
		}
		ports = append(ports, addr.Port)
	}
	return ports, nil
}

func (e *embedded) launch(i int) error {
	s, err := server.NewServer(e.options[i].Clone())
	if err != nil {
		return fmt.Errorf("setting up the embedded NATS server: %w", err)
	}
	e.servers[i] = s
	s.Start()
	return nil
}

// ready waits until clients are served and, in a cluster, replicated streams can be made.
func (e *embedded) ready() error {
	deadline := time.Now().Add(serverReady)
	for _, s := range e.servers {
		for !s.ReadyForConnections(time.Second) || len(e.servers) > 1 && !s.JetStreamIsCurrent() {
			if time.Now().After(deadline) {
				return fmt.Errorf("the embedded NATS server %s is not ready after %v", s.Name(), serverReady)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	for len(e.servers) > 1 {
		for _, s := range e.servers {
			if len(s.JetStreamClusterPeers()) == len(e.servers) {
				return nil
			}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the embedded NATS servers have not found each other after %v", serverReady)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil
}

func (e *embedded) url() string {
	var urls []string
	for _, o := range e.options {
		urls = append(urls, fmt.Sprintf("nats://%s:%d", loopback, o.Port))
	}
	return strings.Join(urls, ",")
}

// restart stops a server for the length of an outage: the only one, or the first of a cluster.
func (e *embedded) restart(ctx context.Context) error {
	e.servers[0].Shutdown()
	e.servers[0].WaitForShutdown()
	wait(ctx, outage)
	if err := e.launch(0); err != nil {
		return err
	}
	if !e.servers[0].ReadyForConnections(serverReady) {
		return errors.New("the embedded NATS server did not come back")
	}
	return nil
}

// cpu is nothing of its own: it is part of what this process uses.
func (*embedded) cpu() (time.Duration, error) { return 0, nil }

func (e *embedded) close() error {
	var all sync.WaitGroup
	for _, s := range e.servers {
		if s != nil {
			all.Go(func() {
				s.Shutdown()
				s.WaitForShutdown()
			})
		}
	}
	all.Wait()
	return nil
}

// wait waits for d, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
