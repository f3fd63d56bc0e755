package agent

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"
)

// drop is why something that came, or was to go, was dropped.
type drop int

const (
	dropMalformed       drop = iota // an agent's message that makes no sense
	dropKey                         // a stream that does not open: another key, or someone meddles
	dropStreams                     // a stream beyond the bound
	dropQueue                       // a message for a peer that reads too slowly
	dropUnreachable                 // a message for a peer that does not answer
	dropGossipQueue                 // a packet that memberlist had no time for
	dropGossipKey                   // a packet of another key
	dropGossipLabel                 // of another job
	dropGossipMalformed             // that makes no sense
	dropGossipOther                 // of which memberlist complains in other words
	dropInbox                       // a message that came when too many waited
	dropOtherRun                    // a stamp or a message of another job of this name and key
	dropCount
)

func (d drop) String() string {
	return [...]string{"malformed", "key", "streams", "queue", "unreachable", "gossip-queue", "gossip-key", "gossip-label", "gossip-malformed", "gossip-other", "inbox", "other-run"}[d]
}

// drops counts what was dropped. Any goroutine may.
type drops [dropCount]atomic.Int64

func (d *drops) add(why drop) { d[why].Add(1) }

// counts are those that there were, by reason.
func (d *drops) counts() map[string]int64 {
	m := map[string]int64{}
	for why := range dropCount {
		m[why.String()] = d[why].Load()
	}
	return m
}

// String lists those that there were.
func (d *drops) String() string {
	var list []string
	for why := range dropCount {
		if n := d[why].Load(); n > 0 {
			list = append(list, fmt.Sprintf("%s %d", why, n))
		}
	}
	return strings.Join(list, ", ")
}

// complaints is the log of memberlist, which tells of dropped packets nowhere else. Its words may
// change with its version: a complaint in other words is counted too.
type complaints struct{ drops *drops }

func (c complaints) Write(line []byte) (int, error) {
	if why, is := complaint(line); is {
		c.drops.add(why)
	}
	return len(line), nil
}

func complaint(line []byte) (why drop, is bool) {
	for _, k := range []struct {
		has string
		why drop
	}{
		{"queue full", dropGossipQueue},
		{"label", dropGossipLabel},
		{"ecrypt", dropGossipKey}, // of packets, and of streams
		{"Received invalid", dropGossipMalformed},
		{"not supported", dropGossipMalformed},
		{"missing message type", dropGossipMalformed},
		{"invalid checksum", dropGossipMalformed},
		{"ailed to decode", dropGossipMalformed},
	} {
		if bytes.Contains(line, []byte(k.has)) {
			return k.why, true
		}
	}
	return dropGossipOther, bytes.Contains(line, []byte("[ERR]")) || bytes.Contains(line, []byte("[WARN]"))
}
