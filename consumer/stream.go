package consumer

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// StreamConfig is the stream this module makes when nothing holds a subject tree: file storage, kept by
// limits, messages kept for 7 days, a duplicate window of 2 minutes, one replica. root is the tree, for
// example "orders.>".
func StreamConfig(root string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        StreamName(root),
		Description: "events of " + root + ", made by jsource",
		Subjects:    []string{root},
		Retention:   jetstream.LimitsPolicy,
		Storage:     jetstream.FileStorage,
		MaxAge:      DefaultMaxAge,
		Duplicates:  DefaultDuplicates,
		Replicas:    1,
		AllowDirect: true,
	}
}

// StreamName is the name of the stream made for a subject tree: the tree without its ".>" and with "_"
// for each ".". Other characters that a name cannot hold, and "_" itself, are written "=" and two
// hexadecimal digits, so that no two trees share a name.
func StreamName(root string) string {
	return Escape(strings.TrimSuffix(root, ".>"), "-")
}

// Escape turns s into part of the name of a stream or durable, one-to-one: letters, digits and the
// characters of also stay as they are, "." becomes "_", and every other byte "=" and two hexadecimal
// digits.
func Escape(s, also string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		switch ch := s[i]; {
		case ch >= 'a' && ch <= 'z', ch >= 'A' && ch <= 'Z', ch >= '0' && ch <= '9', strings.IndexByte(also, ch) >= 0:
			b.WriteByte(ch)
		case ch == '.' && !strings.Contains(also, "_"):
			b.WriteByte('_')
		default:
			b.WriteByte('=')
			b.WriteByte(hex[ch>>4])
			b.WriteByte(hex[ch&15])
		}
	}
	return b.String()
}

// wantedStream is the stream to consume.
func (c *Consumer) wantedStream() StreamWant {
	return TopicStream(c.cfg.Stream, c.cfg.Root, c.cfg.Covers, c.cfg.Bind)
}

// TopicStream is the stream wanted for a subject tree of which covers are to be held: cfg, with its Name and
// Subjects filled in if it lacks them, or if cfg is zero whichever stream holds them, else one made by
// [StreamConfig].
func TopicStream(cfg jetstream.StreamConfig, root string, covers []string, bind bool) StreamWant {
	w := StreamWant{Covers: covers, Bind: bind, Make: cfg}
	if reflect.ValueOf(cfg).IsZero() {
		w.Make = StreamConfig(root)
		return w
	}
	setDefault(&w.Make.Name, StreamName(root))
	if len(w.Make.Subjects) == 0 {
		w.Make.Subjects = []string{root}
	}
	w.Name = w.Make.Name
	return w
}

// StreamWant says which stream is wanted.
type StreamWant struct {
	// Name is the stream's name. Default: whichever holds any of Covers.
	Name string
	// Covers are the subjects it must hold, all of them.
	Covers []string
	// Make is the stream that is made if there is none.
	Make jetstream.StreamConfig
	// Bind takes the stream as it is and makes none.
	Bind bool
}

// ProvisionStream returns the stream that w wants, and makes it if there is none. An existing stream is
// never changed; one that does not hold all that is wanted, or from which messages can vanish before they
// are settled, is refused with an error that names the field.
func ProvisionStream(ctx context.Context, js jetstream.JetStream, w StreamWant) (jetstream.Stream, error) {
	return provisionStream(ctx, permit(js), w)
}

func provisionStream(ctx context.Context, js *permitted, w StreamWant) (jetstream.Stream, error) {
	name, err := holder(ctx, js, w)
	if err != nil {
		return nil, err
	}
	if name == "" && w.Bind {
		return nil, fmt.Errorf("no stream holds %v, and Bind forbids to make one: create it", w.Covers)
	}
	if name != "" {
		stream, err := existingStream(ctx, js, name, w)
		if !errors.Is(err, jetstream.ErrStreamNotFound) {
			return stream, err
		}
		if w.Bind {
			return nil, fmt.Errorf("stream %q does not exist, and Bind forbids to make it: create it", name)
		}
	}
	if err := checkStream(&w.Make, w.Covers); err != nil {
		return nil, err
	}
	stream, err := js.CreateStream(ctx, w.Make)
	if err == nil {
		return stream, nil
	}
	// Somebody may have been faster, with other settings or under another name.
	var api *jetstream.APIError
	switch {
	case errors.Is(err, jetstream.ErrStreamNameAlreadyInUse):
		return existingStream(ctx, js, w.Make.Name, w)
	case errors.As(err, &api) && api.ErrorCode == subjectsOverlap:
		if name, lookErr := holder(ctx, js, w); lookErr == nil && name != "" && name != w.Name {
			return existingStream(ctx, js, name, w)
		}
	}
	return nil, fmt.Errorf("making stream %q for %v: %w", w.Make.Name, w.Make.Subjects, err)
}

// subjectsOverlap is the server's code for a stream whose subjects overlap with those of another.
const subjectsOverlap jetstream.ErrorCode = 10065

// holder is the name of the stream that w wants, "" if any will do and none holds the subjects.
func holder(ctx context.Context, js *permitted, w StreamWant) (string, error) {
	if w.Name != "" {
		return w.Name, nil
	}
	holders, err := streamsOf(ctx, js, w.Covers)
	switch {
	case err != nil:
		return "", fmt.Errorf("looking for the stream that holds %v: %w", w.Covers, err)
	case len(holders) > 1:
		return "", fmt.Errorf("the subjects %v are spread over the streams %v: one must hold them all; "+
			"name it with Stream", w.Covers, holders)
	case len(holders) == 0:
		return "", nil
	}
	return holders[0], nil
}

// existingStream looks a stream up and checks it.
func existingStream(ctx context.Context, js *permitted, name string, w StreamWant) (jetstream.Stream, error) {
	stream, err := js.Stream(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("looking up stream %q: %w", name, err)
	}
	if !w.Bind {
		if err := checkStream(&stream.CachedInfo().Config, w.Covers); err != nil {
			return nil, err
		}
	}
	return stream, nil
}

// streamsOf names the streams that hold any of subjects.
func streamsOf(ctx context.Context, js *permitted, subjects []string) ([]string, error) {
	var names []string
	for _, subject := range subjects {
		holders, err := js.streamNames(ctx, subject)
		if err != nil {
			return nil, err
		}
		names = append(names, holders...)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// checkStream refuses a stream that does not hold all of covers, or from which messages can vanish before
// they are settled, or that no publisher gets an answer from.
func checkStream(cfg *jetstream.StreamConfig, covers []string) error {
	refuse := func(field string, is, want any) error {
		return fmt.Errorf("stream %q cannot be used: its %s is %v, and should be %v; change it, name another "+
			"stream with Stream, or use it as it is with Bind", cfg.Name, field, is, want)
	}
	switch {
	case cfg.Mirror != nil:
		return refuse("mirror", cfg.Mirror.Name, "unset")
	case cfg.Sealed:
		return refuse("sealed", true, false)
	case cfg.NoAck:
		return refuse("no_ack", true, false)
	case cfg.SubjectTransform != nil:
		return refuse("subject_transform", cfg.SubjectTransform.Source+" → "+cfg.SubjectTransform.Destination, "unset")
	case cfg.Retention != jetstream.LimitsPolicy:
		return refuse("retention", cfg.Retention, jetstream.LimitsPolicy)
	}
	for _, subject := range covers {
		if !slices.ContainsFunc(cfg.Subjects, func(s string) bool { return matches(s, subject) }) {
			return refuse("subjects", cfg.Subjects, fmt.Sprintf("such that they hold %s", subject))
		}
	}
	return nil
}

// matches reports whether every subject that subject stands for also matches pattern.
func matches(pattern, subject string) bool {
	for {
		p, pattern2, pmore := strings.Cut(pattern, ".")
		s, subject2, smore := strings.Cut(subject, ".")
		switch {
		case p == ">":
			return true
		case s == ">" || p != "*" && p != s:
			return false
		case pmore != smore:
			return false
		case !pmore:
			return true
		}
		pattern, subject = pattern2, subject2
	}
}

// overlap reports whether there is a subject that both patterns match.
func overlap(a, b string) bool {
	for {
		s, a2, amore := strings.Cut(a, ".")
		t, b2, bmore := strings.Cut(b, ".")
		switch {
		case s == ">" || t == ">":
			return true
		case s != "*" && t != "*" && s != t:
			return false
		case !amore || !bmore:
			return amore == bmore
		}
		a, b = a2, b2
	}
}
