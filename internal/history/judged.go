package history

// S3 is about verdicts: one for each message from each replica.
const S3 Rule = "S3"

// judged checks that the replica's verdicts on the message are one, repeated only where that is right.
//
// A replica asks for the answer to each verdict in a place of its own, and to a verdict repeated for want
// of an answer in the same place: so the reply tells a repetition from another judgement. A verdict that asks for
// none was sent together with one whose answer stands for it; repeated, it asks for its own. There may be as
// many judgements as copies were handed out to it, since a copy of what is decided gets the verdict again.
func (r *Report) judged(v *view) {
	var first *Signal
	replies := map[string]bool{}
	judgements := 0
	together := false // the last judgement asked for no answer
	for _, s := range v.signals {
		if !s.Verdict() {
			continue
		}
		if first == nil {
			first = s
		}
		if s.Kind != first.Kind {
			r.add(S3, v.message, v.replica, "gave it two verdicts that differ: %s at %v and %s at %v", first.Kind, first.At, s.Kind, s.At)
			return
		}
		if s.Reply == "" || !replies[s.Reply] {
			repeated := together && s.Reply != ""
			together = s.Reply == ""
			replies[s.Reply] = true
			if repeated {
				continue
			}
			judgements++
			if judgements > len(v.deliveries) {
				r.add(S3, v.message, v.replica, "judged it anew at %v, for the %d. time, but was handed it %d times", s.At, judgements, len(v.deliveries))
				return
			}
			continue
		}
		for _, a := range r.index.answers[s.Reply] {
			// What came on a connection that was cut since may not have arrived.
			if !a.Refused && a.Link == s.Link && s.At > r.index.received(v.replica, a.At)+r.index.Slack {
				r.add(S3, v.message, v.replica, "repeated its verdict at %v, though it was confirmed at %v", s.At, a.At)
				return
			}
		}
	}
}

// differing counts the replicas that gave the message verdicts of both kinds.
func (v *view) differing() bool {
	var acked, termed bool
	for _, s := range v.signals {
		acked = acked || s.Kind == Ack
		termed = termed || s.Kind == Term
	}
	return acked && termed
}
