package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"
	"time"
)

const (
	// binaryVariable names the environment variable that says where Jaeger's binary is; the Makefile sets it.
	binaryVariable = "JAEGER_BINARY"
	// patience bounds each wait for something that takes moments, also on a machine that is very busy.
	patience = 90 * time.Second
	// starts is how often Jaeger is started, in case somebody took one of its ports in the meantime.
	starts = 3
)

// page is the UI that Jaeger serves.
//
//go:embed ui/index.html
var page embed.FS

// jaeger is a running Jaeger: one of ours, or somebody's.
type jaeger struct {
	url  string // of its UI and its HTTP API, without a slash at the end
	otlp string // host:port of OTLP/gRPC

	cmd    *exec.Cmd // nil if it is somebody's
	exited chan struct{}
	log    *tail
}

// endpointOf guesses the OTLP/gRPC endpoint of the Jaeger at base.
func endpointOf(base string) (string, error) {
	u, err := url.Parse(base)
	if err != nil {
		return "", err
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return "", fmt.Errorf("%q is no URL like http://localhost:16686", base)
	}
	return net.JoinHostPort(u.Hostname(), "4317"), nil
}

// useJaeger uses somebody's Jaeger.
func useJaeger(ctx context.Context, base, otlp string) (*jaeger, error) {
	j := &jaeger{url: strings.TrimRight(base, "/"), otlp: otlp}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := j.services(ctx); err != nil {
		return nil, fmt.Errorf("%w; this takes a Jaeger 2 (or 1.40 and newer), whose HTTP API has /api/v3", err)
	}
	return j, nil
}

// startJaeger starts a Jaeger that keeps traces in memory, reachable from this machine only, with its files in dir.
func startJaeger(ctx context.Context, dir string) (*jaeger, error) {
	binary := os.Getenv(binaryVariable)
	if _, err := os.Stat(binary); err != nil || binary == "" {
		return nil, fmt.Errorf("starting Jaeger: there is no binary %q (environment variable %s); 'make jaeger-server' builds it, "+
			"and so do 'make jaeger' and 'make test', which set the variable", binary, binaryVariable)
	}
	if err := os.CopyFS(dir, page); err != nil {
		return nil, fmt.Errorf("writing Jaeger's page to %s: %w", dir, err)
	}
	var failed error
	for range starts {
		j, err := launch(ctx, binary, dir)
		if err == nil {
			return j, nil
		}
		if failed = err; ctx.Err() != nil {
			break
		}
	}
	return nil, failed
}

// launch starts Jaeger on ports that are free now and waits until it answers.
func launch(ctx context.Context, binary, dir string) (*jaeger, error) {
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	var conf bytes.Buffer
	if err := configuration.Execute(&conf, map[string]any{
		"HTTP": ports[0], "GRPC": ports[1], "OTLP": ports[2], "Assets": filepath.Join(dir, "ui"),
	}); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "jaeger.yaml")
	if err := os.WriteFile(file, conf.Bytes(), 0o600); err != nil {
		return nil, fmt.Errorf("writing Jaeger's configuration: %w", err)
	}
	j := &jaeger{url: "http://" + ports[0], otlp: ports[2], exited: make(chan struct{}), log: new(tail)}
	j.cmd = exec.Command(binary, "--config", file)
	j.cmd.Stdout, j.cmd.Stderr = j.log, j.log
	if err := j.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting Jaeger (%s): %w", binary, err)
	}
	go func() {
		_ = j.cmd.Wait() // its log says more
		close(j.exited)
	}()
	if err := j.ready(ctx); err != nil {
		return nil, errors.Join(err, j.close())
	}
	return j, nil
}

// ready waits until Jaeger answers.
func (j *jaeger) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return poll(ctx, "waiting for Jaeger to answer", func() (bool, error) {
		select {
		case <-j.exited:
			return false, fmt.Errorf("jaeger ended while it started; the end of its log:\n%s", j.log)
		default:
		}
		_, err := j.services(ctx)
		return err == nil, nil
	})
}

// close stops Jaeger, if it is ours.
func (j *jaeger) close() error {
	if j.cmd == nil {
		return nil
	}
	_ = j.cmd.Process.Signal(os.Interrupt) // fails only if it is gone already
	select {
	case <-j.exited:
		return nil
	case <-time.After(10 * time.Second):
	}
	_ = j.cmd.Process.Kill()
	<-j.exited
	return nil
}

// link is where the trace is shown: on our page, or in the UI of somebody's Jaeger.
func (j *jaeger) link(traceID string) string {
	if j.cmd == nil {
		return j.url + "/trace/" + traceID
	}
	return j.url + "/#trace=" + traceID
}

// freePorts returns n addresses of this machine that nobody listens on now.
func freePorts(n int) ([]string, error) {
	addresses := make([]string, n)
	for i := range addresses {
		// They stay open until all are known, so that no two are the same.
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("looking for a free port: %w", err)
		}
		defer l.Close() //nolint:revive // see above
		addresses[i] = l.Addr().String()
	}
	return addresses, nil
}

// configuration is Jaeger's. There is no batch processor: what was exported can be found at once. Jaeger's own
// metrics are off, since they have a port of their own.
var configuration = template.Must(template.New("").Parse(`service:
  extensions: [jaeger_storage, jaeger_query]
  pipelines:
    traces:
      receivers: [otlp]
      exporters: [jaeger_storage_exporter]
  telemetry:
    metrics:
      level: none
    logs:
      level: warn
extensions:
  jaeger_storage:
    backends:
      memory:
        memory:
          max_traces: 200000
  jaeger_query:
    storage:
      traces: memory
    ui:
      assets_path: {{printf "%q" .Assets}}
    http:
      endpoint: {{.HTTP}}
    grpc:
      endpoint: {{.GRPC}}
receivers:
  otlp:
    protocols:
      grpc:
        endpoint: {{.OTLP}}
        max_recv_msg_size_mib: 64
exporters:
  jaeger_storage_exporter:
    trace_storage: memory
`))
