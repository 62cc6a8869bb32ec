package main

import (
	"fmt"
	"time"

	"github.com/nats-io/jsm.go/natscontext"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/urfave/cli/v3"

	"github.com/levelstream/jsource/jsource"
)

// connection is the flags of the nats command that say what to connect to and as whom, with its environment
// variables.
func connection() []cli.Flag {
	flag := func(name, env, usage string, aliases ...string) cli.Flag {
		f := &cli.StringFlag{Name: name, Aliases: aliases, Usage: usage}
		if env != "" {
			f.Sources = cli.EnvVars(env)
		}
		return f
	}
	return []cli.Flag{
		flag("context", "NATS_CONTEXT", "context of the nats command to use; default: the one that is selected there"),
		flag("server", "NATS_URL", "URLs of servers, separated by commas; default: the context's, else "+natsgo.DefaultURL, "s"),
		flag("user", "NATS_USER", "user, or token if there is no password"),
		flag("password", "NATS_PASSWORD", "password"),
		flag("creds", "NATS_CREDS", "credentials file"),
		flag("nkey", "NATS_NKEY", "file with the seed of an nkey"),
		flag("tlscert", "NATS_CERT", "file with the client's TLS certificate"),
		flag("tlskey", "NATS_KEY", "file with its key"),
		flag("tlsca", "NATS_CA", "file with the certificate authority to trust"),
		flag("js-domain", "", "JetStream domain"),
		flag("js-api-prefix", "", "prefix of the JetStream API's subjects"),
		&cli.DurationFlag{Name: "timeout", Sources: cli.EnvVars("NATS_TIMEOUT"), Value: 5 * time.Second, Usage: "how long to wait for each answer"},
	}
}

// connect connects as the flags say, on top of what the context says.
func connect(cmd *cli.Command) (*natsgo.Conn, *jsource.Admin, error) {
	auth := natscontext.WithUser(cmd.String("user"))
	if cmd.String("password") == "" {
		auth = natscontext.WithToken(cmd.String("user"))
	}
	c, err := natscontext.New(cmd.String("context"), true,
		auth,
		natscontext.WithServerURL(cmd.String("server")),
		natscontext.WithPassword(cmd.String("password")),
		natscontext.WithCreds(cmd.String("creds")),
		natscontext.WithNKey(cmd.String("nkey")),
		natscontext.WithCertificate(cmd.String("tlscert")),
		natscontext.WithKey(cmd.String("tlskey")),
		natscontext.WithCA(cmd.String("tlsca")),
		natscontext.WithJSDomain(cmd.String("js-domain")),
		natscontext.WithJSAPIPrefix(cmd.String("js-api-prefix")),
	)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the context of the nats command: %w", err)
	}
	timeout := cmd.Duration("timeout")
	conn, err := c.Connect(natsgo.Name("jsource command"), natsgo.Timeout(timeout))
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to %s: %w", c.ServerURL(), err)
	}
	admin, err := administer(conn, c, timeout)
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, admin, nil
}

func administer(conn *natsgo.Conn, c *natscontext.Context, timeout time.Duration) (*jsource.Admin, error) {
	var (
		js  jetstream.JetStream
		err error
	)
	switch wait := jetstream.WithDefaultTimeout(timeout); {
	case c.JSAPIPrefix() != "":
		js, err = jetstream.NewWithAPIPrefix(conn, c.JSAPIPrefix(), wait)
	case c.JSDomain() != "":
		js, err = jetstream.NewWithDomain(conn, c.JSDomain(), wait)
	default:
		js, err = jetstream.New(conn, wait)
	}
	if err != nil {
		return nil, fmt.Errorf("making a JetStream context: %w", err)
	}
	return jsource.NewAdmin(conn, jsource.PublisherJetStream(js), jsource.PublisherTimeout(timeout))
}
