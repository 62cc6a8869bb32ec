package main

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"

	"github.com/levelstream/jsource/jsource"
)

const (
	hangingStage = "fleet/slow"
	failingStage = "fleet/failing"
)

// shootView makes the screenshot of jsource.View, of a controller under load.
func shootView(ctx context.Context, b *browser) (err error) {
	conn, stop, err := startNATS()
	if err != nil {
		return err
	}
	defer stop()
	c, source, err := inTrouble(conn, hangingStage, failingStage, errors.New("the cluster does not answer"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 2)
	go func() { ended <- c.Start(ctx) }()
	go func() { ended <- publish(ctx, conn) }()
	defer func() {
		cancel()
		err = errors.Join(err, <-ended, <-ended)
	}()
	page := httptest.NewServer(jsource.View(source))
	defer page.Close()
	t, err := b.openTab()
	if err != nil {
		return err
	}
	defer t.cancel()
	if _, err := loadUntil(t, page.URL, viewShown, func(v view) error {
		row, err := v.row(failingStage)
		if err != nil {
			return err
		}
		// What the server says of messages is some seconds old.
		failed, err := strconv.Atoi(row[columnFailed])
		if err != nil || failed < 5 || v.Facts["a second"] == "0.0" || strings.HasPrefix(v.Facts["unsettled, all replicas"], "0 ") {
			return fmt.Errorf("not much has happened yet: %v", v)
		}
		_, err = v.row(hangingStage)
		return err
	}); err != nil {
		return err
	}
	return t.shoot("view.png", "document.body.getBoundingClientRect().bottom")
}

// publish publishes a PromotionRequest each 10 milliseconds until ctx ends; one in a hundred is of a Stage in trouble.
func publish(ctx context.Context, conn *natsgo.Conn) error {
	pub, err := jsource.NewPublisher(conn)
	if err != nil {
		return err
	}
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for number := 1; ; number++ {
		stage := "fleet/stage-" + strconv.Itoa(number%50)
		switch number % 200 {
		case 50:
			stage = hangingStage
		case 150:
			stage = failingStage
		}
		_, err := jsource.PublishCreated(ctx, pub, promotionRequests, number, promotionRequest{Stage: stage})
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// startNATS starts a server with JetStream that only this machine reaches, and connects to it.
func startNATS() (conn *natsgo.Conn, stop func(), err error) {
	dir, err := os.MkdirTemp("", "jsource-browser-")
	if err != nil {
		return nil, nil, err
	}
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true,
	})
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	stop = func() {
		if conn != nil {
			conn.Close()
		}
		s.Shutdown()
		s.WaitForShutdown()
		os.RemoveAll(dir)
	}
	s.Start()
	if !s.ReadyForConnections(patience) {
		stop()
		return nil, nil, fmt.Errorf("the embedded NATS server is not ready after %v", patience)
	}
	if conn, err = natsgo.Connect(s.ClientURL()); err != nil {
		stop()
		return nil, nil, fmt.Errorf("connecting to the embedded NATS server: %w", err)
	}
	return conn, stop, nil
}
