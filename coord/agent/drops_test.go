package agent

import (
	"net"
	"testing"

	"github.com/headrace/headrace/agentapi"
)

// What an agent does not take is counted, each kind by its reason.
func TestDropsAreCounted(t *testing.T) {
	t.Parallel()
	ctx := patient(t)
	a := startHost(t, "a", func(c *Config) { c.Form = true })
	w, err := a.attach(ctx, 0, agentapi.Attach{Plan: "p", Mode: "async", N: 100, Steps: 1, Ahead: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer w.die()
	if n := a.drops.counts(); len(n) != int(dropCount) || n["key"] != 0 || n["gossip-key"] != 0 || n["gossip-label"] != 0 {
		t.Errorf("at the begin: %v", n)
	}
	startHost(t, "key", func(c *Config) {
		c.Contacts, c.Key, c.Witness = []string{a.Address()}, []byte("another key, 16+"), true
	})
	startHost(t, "job", func(c *Config) { c.Contacts, c.Job, c.Witness = []string{a.Address()}, "other", true })
	noise, err := net.Dial("udp", a.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer noise.Close() //nolint:errcheck // packets have no end
	eventually(t, ctx, "drops of another key, another job and of nonsense", func() bool {
		if _, err := noise.Write(append([]byte{244, 16}, label("job")+"nonsense"...)); err != nil {
			t.Fatal(err)
		}
		n := a.drops.counts()
		return n["key"] > 0 && n["gossip-key"] > 0 && n["gossip-label"] > 0
	})
}

// What memberlist complains of in words that nobody here knows is counted all the same, so that
// another version of it does not turn drops into nothing; what is no complaint is not.
func TestComplaints(t *testing.T) {
	for line, want := range map[string]string{
		"[WARN] memberlist: handler queue full, dropping message (3) from=10.0.0.1:1":          "gossip-queue",
		"[ERR] memberlist: discarding packet with unacceptable label \"x\": from=10.0.0.1:1":   "gossip-label",
		"[ERR] memberlist: Decrypt packet failed: no installed keys could decrypt the message": "gossip-key",
		"[ERR] memberlist: Failed to decode alive message: EOF from=10.0.0.1:1":                "gossip-malformed",
		"[ERR] memberlist: words of a later version":                                           "gossip-other",
		"[WARN] memberlist: words of a later version":                                          "gossip-other",
		"[DEBUG] memberlist: Initiating push/pull sync with: 10.0.0.1:1":                       "",
		"[INFO] memberlist: Suspect n has failed, no acks received":                            "",
	} {
		var d drops
		if n, err := (complaints{&d}).Write([]byte(line)); n != len(line) || err != nil {
			t.Errorf("%q: %d, %v", line, n, err)
		}
		if want != "" {
			want += " 1"
		}
		if got := d.String(); got != want {
			t.Errorf("%q: counted as %q, want %q", line, got, want)
		}
	}
}
