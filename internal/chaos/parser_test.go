//go:build unix

package chaos

import (
	"fmt"
	"slices"
	"testing"
)

// TestParserReadsPiecesOfAnySize feeds both directions of a connection in pieces of every size.
func TestParserReadsPiecesOfAnySize(t *testing.T) {
	stream := "INFO {\"a\":1}\r\nCONNECT {\"PUB x 3\":true}\r\nPING\r\n" +
		"PUB a.b 5\r\nhello\r\n" +
		"PUB a.b re.ply 0\r\n\r\n" +
		"HPUB a.c re.ply 12 17\r\nNATS/1.0\r\n\r\nhello\r\n" +
		"SUB x 1\r\n+OK\r\n" +
		"MSG a.d 9 4\r\nPUB \r\n" +
		"MSG a.e 9 re.ply 2\r\n\r\n\r\n" +
		"HMSG a.f 9 16 16\r\nNATS/1.0 503\r\n\r\n\r\n" +
		"HMSG a.g 9 re.ply 12 13\r\nNATS/1.0\r\n\r\n!\r\nPONG\r\n"
	want := []string{
		`a.b "" "" "hello"`, `a.b "re.ply" "" ""`, `a.c "re.ply" "NATS/1.0\r\n\r\n" "hello"`, `a.d "" "" "PUB "`,
		`a.e "re.ply" "" "\r\n"`, `a.f "" "NATS/1.0 503\r\n\r\n" ""`, `a.g "re.ply" "NATS/1.0\r\n\r\n" "!"`,
	}
	for size := 1; size <= len(stream); size++ {
		var p parser
		var got []string
		for b := range slices.Chunk([]byte(stream), size) {
			p.feed(b, func(m message) {
				got = append(got, fmt.Sprintf("%s %q %q %q", m.subject, m.reply, m.header, m.payload))
			})
		}
		if !slices.Equal(got, want) {
			t.Fatalf("in pieces of %d: got\n%q, want\n%q", size, got, want)
		}
	}
}
