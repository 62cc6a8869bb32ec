//go:build unix

package chaos

import (
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
)

// table is the state of the world that replicas reconcile towards: for each request the newest change
// that was committed, and the weather. It is a file that the parent writes and the replicas read, eight
// aligned bytes at a time, so that a replica sees what was committed before it looked.
type table struct {
	file *os.File
	keys int
}

// Slots of the table: the weather's, then one for each key, then one for each group.
const weatherSlots = 16

func openTable(path string, keys int) (*table, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	t := &table{file: f, keys: keys}
	if info, err := f.Stat(); err != nil || info.Size() > 0 {
		return t, err
	}
	return t, f.Truncate(int64(8 * (weatherSlots + keys + groups)))
}

func (t *table) slot(request string) (int, error) {
	if len(request) > 1 {
		n, err := strconv.Atoi(request[1:])
		switch {
		case err != nil:
		case request[0] == 'k' && n < t.keys:
			return weatherSlots + n, nil
		case request[0] == 'g' && n < groups:
			return weatherSlots + t.keys + n, nil
		}
	}
	return 0, fmt.Errorf("no such request: %q", request)
}

func (t *table) load(slot int) uint64 {
	var b [8]byte
	if _, err := t.file.ReadAt(b[:], int64(8*slot)); err != nil {
		panic("reading the table: " + err.Error())
	}
	return binary.LittleEndian.Uint64(b[:])
}

func (t *table) store(slot int, v uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v)
	if _, err := t.file.WriteAt(b[:], int64(8*slot)); err != nil {
		panic("writing the table: " + err.Error())
	}
}

func (t *table) close() { _ = t.file.Close() }
