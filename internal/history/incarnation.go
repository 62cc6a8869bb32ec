package history

// L4 is about streams that were made anew.
const L4 Rule = "L4"

// outlived checks that the replica gives no verdict on a message of an earlier stream once it has been handed
// one of a later stream of the same name: one that was stored later and does not have a higher sequence. A
// verdict that is repeated may have been on its way.
func (r *Report) outlived(v *view) {
	for _, s := range v.signals {
		if !s.Verdict() {
			continue
		}
		for _, m := range r.index.bySeq[s.Message.Seq] {
			if m.id.Stored <= s.Message.Stored || m.views[v.replica] == nil {
				continue
			}
			for _, d := range m.views[v.replica].deliveries {
				if received := r.index.received(v.replica, d.At) + r.index.Slack; received < s.At {
					r.add(L4, v.message, v.replica, "gave a verdict at %v, though it had message %v of a later stream since %v", s.At, m.id, d.At)
					return
				}
			}
		}
	}
}
