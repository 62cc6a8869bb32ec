package natstest

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Cluster is a JetStream cluster inside the test process. Every route between two servers goes
// through a [Proxy] of its own, so that any server can be cut off from the others.
//
// Servers do not tell clients of each other: a client knows the URLs it was given, and one that came
// through a proxy does not find a way around it.
type Cluster struct {
	tb      testing.TB
	servers []*Server
	// routes[i][j] is what server i connects to in order to reach server j; nil for i == j.
	routes [][]*Proxy
	// nowhere is the address servers give to others who ask for a route: those have theirs, through
	// the proxies, and must find no other.
	nowhere *Proxy

	mu       sync.Mutex
	bothWays bool
	addrs    []string // where each server listens for routes
	isolated map[*Server]bool
}

// clusterSettings is what makes a server part of a cluster.
type clusterSettings struct {
	cluster *Cluster
	index   int
}

// StartCluster runs n servers, with opts applied to each, and stops them at cleanup. When it returns
// they have a meta leader and all are current: replicated streams can be made at once.
func StartCluster(tb testing.TB, n int, opts ...Option) *Cluster {
	tb.Helper()
	c := &Cluster{tb: tb, isolated: make(map[*Server]bool), nowhere: newProxy(tb, nil)}
	c.nowhere.Refuse(true)
	c.nowhere.Retarget(loopback + ":0")
	c.routes, c.addrs = make([][]*Proxy, n), make([]string, n)
	for i := range n {
		c.routes[i] = make([]*Proxy, n)
		for j := range n {
			if i != j {
				c.routes[i][j] = newProxy(tb, nil)
			}
		}
	}
	for i := range n {
		s := newServer(tb, fmt.Sprintf("server-%d", i), opts)
		s.route = &clusterSettings{cluster: c, index: i}
		c.servers = append(c.servers, s)
	}
	tb.Cleanup(c.stop)
	for _, s := range c.servers {
		s.launch()
	}
	c.WaitCurrent()
	c.openBothWays()
	return c
}

func (cs *clusterSettings) apply(opts *server.Options) {
	c, i := cs.cluster, cs.index
	opts.Cluster = server.ClusterOpts{
		Name:        "natstest",
		Host:        loopback,
		Port:        -1,
		Advertise:   c.nowhere.Addr(),
		NoAdvertise: true,
		// One route for all accounts: three would be more to start, and nothing more to test.
		PoolSize: -1,
	}
	opts.Routes = nil
	for _, p := range c.routes[i] {
		if p != nil {
			opts.Routes = append(opts.Routes, &url.URL{Scheme: "nats", Host: p.Addr()})
		}
	}
}

// aim tells the proxies where server j listens for routes this time.
//
// At the first start only the later of two servers gets through to the earlier: if both do at once,
// they may each keep the other's connection, close both and try again a second later.
func (c *Cluster) aim(j int, addr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addrs[j] = addr
	for i, from := range c.routes {
		if i > j || i != j && c.bothWays {
			from[j].Retarget(addr)
		}
	}
}

// openBothWays lets the earlier of two servers through to the later as well: after a restart either
// may be the one that has to make the route.
func (c *Cluster) openBothWays() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bothWays = true
	for i, from := range c.routes {
		for j := i + 1; j < len(from); j++ {
			from[j].Retarget(c.addrs[j])
		}
	}
}

// stop stops all servers at once: each alone would wait for the others to take over what it leads.
func (c *Cluster) stop() {
	var all sync.WaitGroup
	for _, s := range c.servers {
		all.Go(s.Stop)
	}
	all.Wait()
}

// Servers are all servers, by number, whether they run or not.
func (c *Cluster) Servers() []*Server { return c.servers }

// URLs is a list of every server's address as [Connect] takes it.
func (c *Cluster) URLs() string {
	urls := make([]string, 0, len(c.servers))
	for _, s := range c.servers {
		urls = append(urls, s.URL())
	}
	return strings.Join(urls, ",")
}

// Conn connects a client that tries the servers in their order until one answers, now and whenever it
// reconnects, and never gives up.
func (c *Cluster) Conn(opts ...nats.Option) *nats.Conn {
	c.tb.Helper()
	return Connect(c.tb, c.URLs(), append([]nats.Option{nats.DontRandomize()}, opts...)...)
}

// JetStream is JetStream on a new connection, apart from the one under test.
func (c *Cluster) JetStream(opts ...nats.Option) jetstream.JetStream {
	c.tb.Helper()
	js, err := jetstream.New(c.Conn(opts...))
	if err != nil {
		c.tb.Fatalf("jetstream: %v", err)
	}
	return js
}

// Watch is the package's [Watch] from a connection of its own, and returns when it hears what is sent
// to any of the servers that can be reached. It is deaf from the moment its server stops until it has
// reconnected: where a test stops servers, use [Proxy.Watch].
func (c *Cluster) Watch(stream, durable string, opts ...nats.Option) *Witness {
	c.tb.Helper()
	w := Watch(c.tb, c.Conn(opts...), stream, durable)
	for _, s := range c.reachable() {
		conn := s.Conn(opts...)
		w.Reach(c.tb, conn)
		conn.Close()
	}
	return w
}

// MetaLeader waits until the cluster has a meta leader and returns it.
func (c *Cluster) MetaLeader() *Server {
	c.tb.Helper()
	return c.leader("the cluster", func(s *server.Server, _ string) bool { return s.JetStreamIsLeader() })
}

// StreamLeader waits until the stream has a leader and returns it. A stream of one replica is led by
// the server that has it.
func (c *Cluster) StreamLeader(stream string) *Server {
	c.tb.Helper()
	return c.leader("stream "+stream, func(s *server.Server, account string) bool {
		return s.JetStreamIsStreamLeader(account, stream)
	})
}

// ConsumerLeader waits until the durable has a leader and returns it.
func (c *Cluster) ConsumerLeader(stream, durable string) *Server {
	c.tb.Helper()
	return c.leader("consumer "+durable, func(s *server.Server, account string) bool {
		return s.JetStreamIsConsumerLeader(account, stream, durable)
	})
}

// Follower returns a running server that does not lead the stream.
func (c *Cluster) Follower(stream string) *Server {
	c.tb.Helper()
	leader := c.StreamLeader(stream)
	for _, s := range c.reachable() {
		if s != leader {
			return s
		}
	}
	c.tb.Fatalf("nobody but the leader of %s is running", stream)
	return nil
}

// leader finds who leads, among the servers that run and are not cut off: one that is may believe
// for a while that it still does.
func (c *Cluster) leader(of string, leads func(s *server.Server, account string) bool) *Server {
	c.tb.Helper()
	var found *Server
	Until(c.tb, "a leader of "+of, Patience, func() bool {
		for _, s := range c.reachable() {
			for _, account := range s.accounts() {
				if leads(s.Server(), account) {
					found = s
					return true
				}
			}
		}
		return false
	})
	return found
}

// StepDownStream makes the stream's leader give up leadership and waits for another to have it. No
// connection is lost.
func (c *Cluster) StepDownStream(stream string) (successor *Server) {
	c.tb.Helper()
	return c.stepDown("stream "+stream, c.StreamLeader(stream), func() *Server { return c.StreamLeader(stream) },
		func(s *server.Server, account string) error { return s.JetStreamStepdownStream(account, stream) })
}

// StepDownConsumer makes the durable's leader give up leadership and waits for another to have it.
// No connection is lost.
func (c *Cluster) StepDownConsumer(stream, durable string) (successor *Server) {
	c.tb.Helper()
	return c.stepDown("consumer "+durable, c.ConsumerLeader(stream, durable),
		func() *Server { return c.ConsumerLeader(stream, durable) },
		func(s *server.Server, account string) error {
			return s.JetStreamStepdownConsumer(account, stream, durable)
		})
}

func (c *Cluster) stepDown(
	of string, old *Server, leader func() *Server, order func(*server.Server, string) error,
) *Server {
	c.tb.Helper()
	var err error
	for _, account := range old.accounts() {
		if err = order(old.Server(), account); err == nil {
			break
		}
	}
	if err != nil {
		c.tb.Fatalf("make %s step down from %s: %v", old.name, of, err)
	}
	var successor *Server
	Until(c.tb, "another leader of "+of, Patience, func() bool {
		successor = leader()
		return successor != old
	})
	return successor
}

// WaitCurrent waits until every server that runs and is not cut off is healthy (its streams and
// consumers caught up) and known to the meta leader as a place for replicas.
func (c *Cluster) WaitCurrent() {
	c.tb.Helper()
	Eventually(c.tb, "every server of the cluster is current", Patience, func() error {
		want := c.reachable()
		for _, s := range want {
			if err := s.healthy(); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			if !s.Server().JetStreamIsCurrent() {
				return fmt.Errorf("%s is not current", s.name)
			}
		}
		for _, s := range want {
			if !s.Server().JetStreamIsLeader() {
				continue
			}
			if peers := s.Server().JetStreamClusterPeers(); len(peers) < len(want) {
				return fmt.Errorf("the leader %s knows only %v", s.name, peers)
			}
			return nil
		}
		return fmt.Errorf("no meta leader among %d", len(want))
	})
}

// Partition cuts server i off from the other servers: its routes stay open but nothing passes them,
// in either direction, and new ones are as dead. Clients still reach it. What it led has a new leader
// elsewhere after an election, 4 to 9 seconds by the server's own clock; it notices by itself
// after 10.
func (c *Cluster) Partition(i int) { c.setPartition(i, true) }

// Heal lets the routes of server i flow again, first with what was held back, as after a network's
// outage. [Cluster.WaitCurrent] waits for the rest.
func (c *Cluster) Heal(i int) { c.setPartition(i, false) }

func (c *Cluster) setPartition(i int, cutOff bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isolated[c.servers[i]] = cutOff
	for a, from := range c.routes {
		for b, route := range from {
			if route == nil {
				continue
			}
			if c.isolated[c.servers[a]] || c.isolated[c.servers[b]] {
				route.Stall(ClientToServer)
				route.Stall(ServerToClient)
			} else {
				route.Resume(ClientToServer)
				route.Resume(ServerToClient)
			}
		}
	}
}

// Index is the number of a server, as Partition and Heal take it.
func (c *Cluster) Index(s *Server) int { return slices.Index(c.servers, s) }

// reachable are the servers that run and are not cut off.
func (c *Cluster) reachable() []*Server {
	c.mu.Lock()
	isolated := maps.Clone(c.isolated)
	c.mu.Unlock()
	var up []*Server
	for _, s := range c.servers {
		if s.Running() && !isolated[s] {
			up = append(up, s)
		}
	}
	return up
}

// canCatchUp reports whether s reaches enough servers to have a leader with them.
func (c *Cluster) canCatchUp(s *Server) bool {
	up := c.reachable()
	return slices.Contains(up, s) && len(up) > len(c.servers)/2
}
