package consumer

// pageSize is how many sequences one page of a log covers; maxPages bounds its memory to 16 MiB.
const (
	pageSize = 1024
	maxPages = 4096
)

// decidedLog remembers, for the sequences above the ack floor, what this replica decided: a copy that
// arrives later gets the same verdict again, and is not worked on again. Forgetting is always safe, since
// it means only that a message is worked on once more. The consumer's mu guards it.
type decidedLog struct {
	pages map[uint64]*page
	last  *page // the page last used, and its number
	at    uint64
}

// page holds one mark per sequence: 0 if nothing was decided, otherwise a hash of the stored time, which
// tells the message from one of the same number in another incarnation of the stream, with the lowest
// bit saying term instead of ack.
type page [pageSize]uint32

func mark(stored int64, v verdict) uint32 {
	h := uint64(stored) * 0x9e3779b97f4a7c15
	m := uint32(h>>32)&^1 | 2
	if v == term {
		m |= 1
	}
	return m
}

func (l *decidedLog) page(n uint64) *page {
	if l.last != nil && l.at == n {
		return l.last
	}
	p := l.pages[n]
	if p != nil {
		l.last, l.at = p, n
	}
	return p
}

// add records the verdict on a message.
func (l *decidedLog) add(seq uint64, stored int64, v verdict) {
	n := seq / pageSize
	p := l.page(n)
	if p == nil {
		if l.pages == nil {
			l.pages = map[uint64]*page{}
		}
		if len(l.pages) >= maxPages {
			l.dropLowest()
		}
		p = new(page)
		l.pages[n] = p
		l.last, l.at = p, n
	}
	p[seq%pageSize] = mark(stored, v)
}

// find returns the verdict on a message, none if it is not known.
func (l *decidedLog) find(seq uint64, stored int64) verdict {
	p := l.page(seq / pageSize)
	if p == nil {
		return none
	}
	switch p[seq%pageSize] {
	case mark(stored, ack):
		return ack
	case mark(stored, term):
		return term
	default:
		return none
	}
}

// prune forgets what lies wholly below floor: the server will not hand it out again. One page below is
// kept, for copies that were under way.
func (l *decidedLog) prune(floor uint64) {
	for n := range l.pages {
		if (n+2)*pageSize <= floor {
			l.remove(n)
		}
	}
}

func (l *decidedLog) dropLowest() {
	lowest, found := uint64(0), false
	for n := range l.pages {
		if !found || n < lowest {
			lowest, found = n, true
		}
	}
	l.remove(lowest)
}

func (l *decidedLog) remove(n uint64) {
	delete(l.pages, n)
	if l.at == n {
		l.last = nil
	}
}
