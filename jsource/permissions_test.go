package jsource_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"

	"github.com/levelstream/jsource/consumer"
	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler"
)

const permissionsPage = "../docs/permissions.md"

// documented is the server configuration that the page on permissions shows, as it stands there.
func documented(tb testing.TB) string {
	tb.Helper()
	page, err := os.ReadFile(permissionsPage)
	if err != nil {
		tb.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(page), "```conf\n")
	block, _, end := strings.Cut(rest, "```")
	if !ok || !end {
		tb.Fatalf("%s has no configuration", permissionsPage)
	}
	return block
}

// withAdmin adds a user for the test itself, and takes without from what user may do.
func withAdmin(user, without string) func(*server.Options) {
	return func(o *server.Options) {
		for _, u := range o.Users {
			if u.Username == user {
				for _, side := range []*server.SubjectPermission{u.Permissions.Publish, u.Permissions.Subscribe} {
					side.Allow = slices.DeleteFunc(side.Allow, func(s string) bool { return s == without })
					if len(side.Allow) == 0 {
						side.Deny = []string{">"} // no list at all would allow everything
					}
				}
				if strings.HasPrefix(without, "$JS.ACK.") {
					u.Permissions.Response = nil // a settlement is a response too
				}
			}
		}
		o.Users = append(o.Users, &server.User{Username: "admin", Password: "admin"})
		o.NoAuthUser = "admin"
	}
}

// granted gives user back what withAdmin took.
func granted(user, without string) func(*server.Options) {
	return func(o *server.Options) {
		for _, u := range o.Users {
			if u.Username != user {
				continue
			}
			if strings.HasPrefix(without, "_INBOX") {
				u.Permissions.Subscribe.Deny = nil
				u.Permissions.Subscribe.Allow = append(u.Permissions.Subscribe.Allow, without)
			} else {
				u.Permissions.Publish.Allow = append(u.Permissions.Publish.Allow, without)
			}
		}
	}
}

// grant gives user what it lacks.
func (w *world) grant(user, lacks string) {
	w.tb.Helper()
	w.srv.Stop() // messages may be read: see Reconfigure
	w.srv.Reconfigure(granted(user, lacks))
	w.srv.Restart()
}

func as(user string) natsgo.Option { return natsgo.UserInfo(user, "change-me-"+user) }

// lines are what the page allows user, one by one.
func lines(tb testing.TB, user string) (list []string) {
	tb.Helper()
	opts := new(server.Options)
	if err := opts.ProcessConfigString(documented(tb)); err != nil {
		tb.Fatal(err)
	}
	for _, u := range opts.Users {
		if u.Username == user {
			list = append(append(list, u.Permissions.Publish.Allow...), u.Permissions.Subscribe.Allow...)
		}
	}
	if len(list) == 0 {
		tb.Fatalf("the page has no user %q", user)
	}
	return list
}

// unlessBad gives up "bad" and reconciles everything else.
func unlessBad(_ context.Context, key string) (res reconciler.Result, err error) {
	if key == "bad" {
		err = reconciler.TerminalError(errors.New("it is bad"))
	}
	return res, err
}

// Exactly what the page allows is enough for every part, dead letters and recovery included, and none of the
// parts asks for anything else.
func TestLeastPermissions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, natstest.WithConfigText(documented(t)), natstest.WithConfig(withAdmin("", "")))
	conns := map[string]*natsgo.Conn{}
	for _, user := range []string{"publisher", "controller", "bound", "reader", "operator"} {
		conns[user] = w.srv.Conn(as(user))
	}
	var err error
	if w.pub, err = jsource.NewPublisher(conns["publisher"]); err != nil {
		t.Fatal(err)
	}
	wait := func(r jsource.Receipt) error {
		return jsource.WaitReconciled(t.Context(), conns["reader"], widgetDurable, r)
	}
	w.publish("before")
	a := w.join(through(conns["controller"]), doing(unlessBad))
	receipts := w.publish("good", "bad")
	if err := wait(receipts[0]); err != nil {
		t.Error(err)
	}
	var dead *jsource.DeadLetterError
	if err := wait(receipts[1]); !errors.As(err, &dead) {
		t.Errorf("waiting for what became a dead letter: %v", err)
	}
	if err := w.js.DeleteConsumer(t.Context(), widgetStream, widgetDurable); err != nil {
		t.Fatal(err)
	}
	w.publish("after it was deleted")
	a.waitDone(t, "before", "good", "after it was deleted")
	w.settled()
	a.stop()
	a.wait()

	b := w.join(through(conns["bound"]), doing(unlessBad), withSource(func(s *widgetSource) { s.Bind() }))
	if err := wait(w.publish("bound")[0]); err != nil {
		t.Error(err)
	}
	w.publish("bad")
	w.settled()
	b.waitDone(t, "bound")

	operator, err := jsource.NewAdmin(conns["operator"])
	if err != nil {
		t.Fatal(err)
	}
	if r := w.report(operator, widgetStream, widgetDurable); len(r.Replicas) != 1 || r.Dead != 2 {
		t.Errorf("the operator sees %+v", r)
	}
	if list, err := operator.Reports(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("the operator sees %+v, %v", list, err)
	}
	for i, l := range w.dead(operator, jsource.LetterFilter{}) {
		if i == 0 {
			err = operator.Drop(t.Context(), l)
		} else {
			_, err = operator.Replay(t.Context(), l)
		}
		if err != nil {
			t.Error(err)
		}
	}
	w.settled()
	for user, conn := range conns {
		if err := conn.LastError(); err != nil {
			t.Errorf("%s: %v", user, err)
		}
	}
}

// deprived is a world in which user lacks one permission. What is made beforehand is there, except where it is
// the making that is not allowed.
func deprived(t *testing.T, user, lacks string) *world {
	t.Helper()
	w := newWorld(t, natstest.WithConfigText(documented(t)), natstest.WithConfig(withAdmin(user, lacks)))
	if strings.Contains(lacks, "CREATE") {
		return w
	}
	m := w.join(doing(unlessBad))
	w.publish("bad", "earlier")
	w.settled()
	m.stop()
	m.wait()
	return w
}

// names checks that err says what is denied, and what for.
func names(t *testing.T, err error, lacks string) {
	t.Helper()
	var denied *consumer.DeniedError
	if !errors.As(err, &denied) {
		t.Errorf("got %v, want a DeniedError", err)
		return
	}
	subject := strings.TrimRight(lacks, ".>*")
	if !strings.HasPrefix(denied.Subject, subject) || denied.Need == "" || !strings.Contains(err.Error(), subject) {
		t.Errorf("it lacks %s, and the error says: %v", lacks, err)
	}
}

// Each permission that is missing is named: from Start, or from Healthy if it shows later. Nothing is lost, and
// once it is granted everything goes on.
func TestPermissionMissing(t *testing.T) {
	t.Parallel()
	for _, user := range []string{"controller", "bound"} {
		for _, lacks := range lines(t, user) {
			if strings.HasPrefix(lacks, "jsource.status.") {
				continue // it works without, as the page says
			}
			t.Run(user+" "+lacks, func(t *testing.T) {
				t.Parallel()
				w := deprived(t, user, lacks)
				conn := w.srv.Conn(as(user))
				bind := withSource(func(s *widgetSource) {
					if user == "bound" {
						s.Bind()
					}
				})
				m := w.begin(through(conn), doing(unlessBad), bind)
				keys := []string{"good", "bad"}
				published := false
				natstest.Until(t, "it says so", natstest.Patience, func() bool {
					if m.returned() {
						return true
					}
					select {
					case <-m.running:
						if !published {
							w.publish(keys...)
							published = true
						}
						var denied *consumer.DeniedError
						return errors.As(m.source.Healthy(), &denied)
					default:
						return false
					}
				})
				if m.returned() {
					names(t, m.err, lacks)
				} else {
					names(t, m.source.Healthy(), lacks)
				}
				w.grant(user, lacks)
				if m.returned() {
					// What the client asked to listen to, and may not, it asks for again with a new connection.
					conn = w.srv.Conn(as(user))
					m = w.join(through(conn), doing(unlessBad), bind)
				}
				if !published {
					w.publish(keys...)
				}
				m.waitDone(t, "good")
				w.settled()
				natstest.Eventually(t, "healthy", natstest.Patience, m.source.Healthy)
			})
		}
	}
}

// What a Publisher lacks is named by the publish, at once, and the next one succeeds when it is granted.
func TestPermissionMissingToPublish(t *testing.T) {
	t.Parallel()
	publish := map[string]func(*jsource.Publisher) error{
		"shop.widgets.created": func(p *jsource.Publisher) error { return widgets.PublishCreated(p, "key", widget{}) },
		"shop.widgets.updated": func(p *jsource.Publisher) error { return widgets.PublishUpdated(p, "key", widget{}, widget{}) },
		"shop.widgets.deleted": func(p *jsource.Publisher) error { return widgets.PublishDeleted(p, "key", widget{}) },
	}
	for _, lacks := range lines(t, "publisher") {
		t.Run(lacks, func(t *testing.T) {
			t.Parallel()
			w := deprived(t, "publisher", lacks)
			pub, err := jsource.NewPublisher(w.srv.Conn(as("publisher")))
			if err != nil {
				t.Fatal(err)
			}
			do := publish[lacks]
			if do == nil {
				do = publish["shop.widgets.created"]
			}
			names(t, do(pub), lacks)
			w.grant("publisher", lacks)
			natstest.Eventually(t, "it publishes", natstest.Patience, func() error { return do(pub) })
		})
	}
}

// What a reader lacks is named by WaitReconciled.
func TestPermissionMissingToWait(t *testing.T) {
	t.Parallel()
	for _, lacks := range lines(t, "reader") {
		t.Run(lacks, func(t *testing.T) {
			t.Parallel()
			w := deprived(t, "reader", lacks)
			a := w.join(doing(unlessBad), holding("held"))
			held := w.publish("held", "good", "bad")
			a.waitBegun(t, "held")
			conn := w.srv.Conn(as("reader"))
			ctx, cancel := context.WithTimeout(t.Context(), natstest.Patience)
			defer cancel()
			// While one is held the stream is read; once it is not, the dead letters are.
			if strings.Contains(lacks, "-dead") || strings.Contains(lacks, "NAMES") {
				a.release("held")
			}
			names(t, jsource.WaitReconciled(ctx, conn, widgetDurable, held[2]), lacks)
			if !strings.Contains(lacks, "-dead") && !strings.Contains(lacks, "NAMES") {
				a.release("held")
			}
			w.grant("reader", lacks)
			conn = w.srv.Conn(as("reader"))
			var dead *jsource.DeadLetterError
			natstest.Until(t, "it learns of the dead letter", natstest.Patience, func() bool {
				return errors.As(jsource.WaitReconciled(ctx, conn, widgetDurable, held[2]), &dead)
			})
		})
	}
}
