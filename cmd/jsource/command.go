package main

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"slices"

	"github.com/urfave/cli/v3"

	"github.com/levelstream/jsource/jsource"
)

// command is the whole command line.
func command(out, errOut io.Writer) *cli.Command {
	filters := []cli.Flag{
		&cli.StringFlag{Name: "stream", Usage: "only letters of events in this stream"},
		&cli.StringFlag{Name: "durable", Usage: "only letters of this durable"},
		&cli.StringFlag{
			Name: "reason", Usage: "only letters for this reason: undecodable, terminal, attempts or deliveries",
			Validator: func(s string) error {
				if !slices.Contains([]string{
					jsource.ReasonUndecodable, jsource.ReasonTerminal, jsource.ReasonAttempts, jsource.ReasonDeliveries,
				}, s) {
					return fmt.Errorf("it is %q, and should be undecodable, terminal, attempts or deliveries", s)
				}
				return nil
			},
		},
	}
	all := append([]cli.Flag{
		&cli.BoolFlag{Name: "all", Usage: "every letter that the filters let through, instead of IDs"},
	}, filters...)
	return &cli.Command{
		Name:      "jsource",
		Version:   version(),
		Usage:     "durables and dead letters of jsource sources",
		Writer:    out,
		ErrWriter: errOut,
		// An error is printed once, by main.
		ExitErrHandler: func(context.Context, *cli.Command, error) {},
		Flags: append(connection(), &cli.StringFlag{
			Name: "output", Aliases: []string{"o"}, Value: "table", Usage: "table or json",
			Validator: func(s string) error {
				if s != "table" && s != "json" {
					return fmt.Errorf("it is %q, and should be table or json", s)
				}
				return nil
			},
		}),
		Commands: []*cli.Command{
			{
				Name: "status", Usage: "how durables are doing, and which requests hold what is unsettled",
				ArgsUsage: "[STREAM DURABLE]",
				Description: "Without arguments: every durable that a source made. With them: that one, whoever made it. Requests are named " +
					"by the replicas that run now; a replica that may not subscribe to jsource.status.> names none.",
				Action: with(status),
			},
			{
				Name: "dead", Usage: "dead letters: events, or requests of them, that were given up",
				Commands: []*cli.Command{
					{Name: "list", Usage: "list dead letters, oldest first", Flags: filters, Action: with(list), Description: asJSON},
					{Name: "show", Usage: "show all of some dead letters", ArgsUsage: "ID…", Action: with(show), Description: asJSON},
					{
						Name: "replay", Usage: "publish the events of dead letters again, and drop the letters", ArgsUsage: "ID… | --all", Flags: all,
						Description: "Every durable on the event's topic receives it. May be run again when it was interrupted.",
						Action:      with(replay),
					},
					{
						Name: "drop", Usage: "drop dead letters for good", ArgsUsage: "ID… | --all", Flags: all,
						Action: with(drop),
					},
				},
			},
		},
	}
}

const asJSON = "With -o json one object for each letter: its payload if that is JSON, else its data in base64."

// version is the module's, as it was built.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}

// task is one run of a command.
type task struct {
	*cli.Command
	admin *jsource.Admin
	out   io.Writer
	json  bool
}

// with makes a command's action of do: with an Admin on the connection that the flags name.
func with(do func(context.Context, *task) error) cli.ActionFunc {
	return func(ctx context.Context, cmd *cli.Command) error {
		conn, admin, err := connect(cmd)
		if err != nil {
			return err
		}
		defer conn.Close()
		return do(ctx, &task{Command: cmd, admin: admin, out: cmd.Root().Writer, json: cmd.String("output") == "json"})
	}
}
