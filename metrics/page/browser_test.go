package page_test

import (
	"context"
	"flag"
	"html"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headrace/headrace/metrics"
	"github.com/headrace/headrace/metrics/page"
)

// shots is a folder for pictures of the page, for people who change it.
var shots = flag.String("shots", "", "write pictures of the page into this folder")

// browser finds a Chromium.
func browser(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: a browser takes seconds to start")
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no Chromium on this machine (Debian's package chromium): the page is not run")
	return ""
}

// open shows an address for a while of the browser's own time, and gives what the page is
// then. With -shots it also takes a picture.
func open(t *testing.T, url, name string, flags ...string) dom {
	t.Helper()
	common := append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--hide-scrollbars", "--window-size=1280,1500", "--virtual-time-budget=3500",
	}, flags...)
	run := func(flags ...string) string {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, browser(t), append(append([]string{"--user-data-dir=" + t.TempDir()}, common...), append(flags, url)...)...)
		cmd.WaitDelay = time.Second
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", cmd, err)
		}
		return string(out)
	}
	if *shots != "" {
		run("--screenshot=" + filepath.Join(*shots, name+".png"))
	}
	return dom{t, run("--dump-dom")}
}

// dom is a page as the browser writes it.
type dom struct {
	t    *testing.T
	text string
}

// tag is the begin tag of the element with an id, and the text within it.
func (d dom) tag(id string) (tag, text string) {
	d.t.Helper()
	m := regexp.MustCompile(`(?s)<[^>]* id="` + id + `"[^>]*>([^<]*)`).FindStringSubmatch(d.text)
	if m == nil {
		d.t.Fatalf("no element %s in\n%.4000s", id, d.text)
	}
	return m[0], html.UnescapeString(m[1])
}

func (d dom) says(id, want string) {
	d.t.Helper()
	if _, got := d.tag(id); !strings.Contains(got, want) {
		d.t.Errorf("%s: got %q, want %q in it", id, got, want)
	}
}

func (d dom) hidden(id string, want bool) {
	d.t.Helper()
	tag, _ := d.tag(id)
	tag, _, _ = strings.Cut(tag, ">")
	if got := strings.Contains(tag, " hidden"); got != want {
		d.t.Errorf("%s: hidden is %v, want %v", id, got, want)
	}
}

// serve puts the page on a server.
func serve(t *testing.T, s page.Snapshot, o metrics.Options) *metrics.Server {
	t.Helper()
	o.Addr = "127.0.0.1:0"
	server, err := metrics.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	page.Mount(server, func() page.Snapshot { return s })
	return server
}

// The page shows jobs of every size: what the numbers say, and every rank on the picture.
func TestPageShowsTheJob(t *testing.T) {
	for _, c := range []struct {
		name, mode  string
		nodes, each int
		flags       []string
	}{
		{"ranks3", "async", 3, 1, nil},
		{"ranks64", "async", 8, 8, nil},
		{"ranks4000", "async", 500, 8, nil},
		{"dark", "lockstep", 8, 8, []string{"--blink-settings=preferredColorScheme=0"}},
		{"narrow", "async", 8, 8, []string{"--window-size=500,2200"}},
	} {
		if *shots == "" && (c.name == "ranks64" || c.name == "narrow") {
			continue // for their pictures alone
		}
		t.Run(c.name, func(t *testing.T) {
			s := page.Sample(c.mode, c.nodes, c.each)
			d := open(t, "http://"+serve(t, s, metrics.Options{}).Addr()+"/", c.name, c.flags...)
			d.says("job", "run7")
			d.says("status", "running")
			d.hidden("reason", true)
			d.hidden("lost", true)
			d.hidden("main", false)
			d.hidden("key", true)
			d.says("view", "12")
			d.says("coverage-text", "of 4,000,000 positions are done")
			d.says("ranks-text", "ranks on ")
			map_, _, _ := strings.Cut(d.text[strings.Index(d.text, `<g id="cells">`):], "</g>")
			if got := strings.Count(map_, "M"); got != c.nodes*c.each {
				t.Errorf("%d ranks are drawn, of %d", got, c.nodes*c.each)
			}
			if got := strings.Count(d.text, `<th scope="row"`); got != min(50, c.nodes) {
				t.Errorf("%d rows of %d nodes", got, c.nodes)
			}
		})
	}
}

// What an agent does not know is not shown, and nothing else is missing for it: before it
// is in a job, as a witness among witnesses, and where others have the numbers.
func TestPageOfAnAgentThatKnowsLittle(t *testing.T) {
	empty := page.Snapshot{Status: page.Joining, Reason: "no rank has attached", Job: page.Job{Name: "run7"}}
	d := open(t, "http://"+serve(t, empty, metrics.Options{}).Addr()+"/", "joining")
	d.says("status", "joining")
	d.says("reason-text", "no rank has attached")
	d.says("ranks-text", "No rank is in the job yet.")
	d.hidden("lost", true)

	s := page.Sample("async", 4, 2)
	s.Nodes[3].Ranks, s.Ranks = nil, s.Ranks[:6]
	for i := range s.Ranks {
		s.Ranks[i].Rate, s.Ranks[i].Left = nil, nil
	}
	s.Coverage.Spans, s.Coverage.Digest, s.Coverage.Last, s.Events = nil, "", nil, nil
	d = open(t, "http://"+serve(t, s, metrics.Options{}).Addr()+"/", "little")
	d.hidden("lost", true)
	d.says("ranks-text", "of 6 ranks only the voters know the throughput")
	d.says("coverage-text", "positions are done")
	if !strings.Contains(d.text, "which positions, the voters know") || !strings.Contains(d.text, "1 node without ranks") {
		t.Error("what is not known here is not told")
	}
}

// A job that has halted says so, and why, before anything else.
func TestPageOfAHaltedJob(t *testing.T) {
	s := page.HaltedSample()
	d := open(t, "http://"+serve(t, s, metrics.Options{}).Addr()+"/", "halted")
	d.says("status", "halted")
	d.hidden("reason", false)
	d.says("reason-text", s.Reason)
	d.says("members-sub", "1 lost by gossip")
}

// What names and reasons contain is text: none of it becomes an element.
func TestPageShowsMarkupAsText(t *testing.T) {
	s := page.Sample("async", 3, 2)
	const evil = `<img src=x onerror="document.title='taken'">`
	s.Job.Name, s.Agent.Name, s.Status, s.Reason = evil+"job", evil, page.Halted, evil+"reason"
	for i := range s.Nodes {
		s.Nodes[i].Name, s.Nodes[i].Rack, s.Nodes[i].Address, s.Nodes[i].ID = evil+"node", evil, evil, evil
	}
	s.Agent.ID, s.Agent.Address, s.Agent.Version = evil, evil, evil
	s.Events = append(s.Events, page.Event{Time: s.Time, Kind: evil, Text: evil})
	s.Coverage.Last.Digest = evil
	s.Ranks[0].Stats = map[string]float64{evil: 1}
	d := open(t, "http://"+serve(t, s, metrics.Options{}).Addr()+"/", "markup")
	if strings.Contains(d.text, "<img") {
		t.Error("a name became an element")
	}
	if n := strings.Count(d.text, "&lt;img src=x"); n < 10 {
		t.Errorf("%d names are shown", n)
	}
	d.says("job", evil+"job")
	d.says("reason-text", evil+"reason")
}

// When the agent does not answer any more the page says so, and keeps what it had.
func TestPageThatLosesTheAgent(t *testing.T) {
	server, err := metrics.New(metrics.Options{Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	page.Mount(dying{server, new(atomic.Int64)}, func() page.Snapshot { return page.Sample("async", 8, 8) })
	d := open(t, "http://"+server.Addr()+"/", "lost")
	d.hidden("lost", false)
	d.says("lost-text", "What is shown is from")
	d.says("status", "no connection")
	d.says("view", "12")
	if !strings.Contains(d.text, `<body class="stale">`) {
		t.Error("what is old looks new")
	}
}

// dying is a server that hangs up on a page after a few answers.
type dying struct {
	*metrics.Server
	asked *atomic.Int64
}

func (d dying) Handle(pattern string, h http.Handler) {
	d.Server.Handle(pattern, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("have") == "" {
			d.asked.Store(0)
		}
		if d.asked.Add(1) > 2 {
			panic(http.ErrAbortHandler)
		}
		h.ServeHTTP(w, r)
	}))
}

// With a key the page comes without one, and asks for it; with it in the tab's storage it
// shows the job. No request has it in its address.
func TestPageAsksForTheKey(t *testing.T) {
	server := serve(t, page.Sample("async", 3, 2), metrics.Options{Key: "secret of the page"})
	server.HandleOpen("GET /enter", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<script>sessionStorage.setItem("headrace.key", "` + r.URL.Query().Get("test") + `"); location = "/"</script>`))
	}))
	d := open(t, "http://"+server.Addr()+"/", "key")
	d.hidden("key", false)
	d.hidden("main", true)
	d = open(t, "http://"+server.Addr()+"/enter?test=another", "key-wrong")
	d.hidden("key", false)
	d.says("key-help", "was not taken")
	d = open(t, "http://"+server.Addr()+"/enter?test=secret+of+the+page", "key-entered")
	d.hidden("key", true)
	d.says("job", "run7")
	d.hidden("links", true)
}

// The picture of the ranks is used by keys: they choose a rank, whose line is told to who
// cannot see it. Colours by another number, and finding a node, are one key away.
func TestPageByKeyboard(t *testing.T) {
	server := serve(t, page.Sample("lockstep", 8, 8), metrics.Options{})
	text, err := os.ReadFile("static/page.html")
	if err != nil {
		t.Fatal(err)
	}
	server.HandleOpen("GET /typed", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write(append(text, `<script>
			const press = (key) => document.getElementById("map").dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
			setTimeout(() => {
				press("End"); press("ArrowLeft"); press("ArrowUp"); press("ArrowRight"); press("ArrowDown"); press("ArrowDown"); press("ArrowUp");
				document.querySelector("input[value=lag]").click();
				const find = document.getElementById("find");
				find.value = "NODE005";
				find.dispatchEvent(new Event("input"));
			}, 1500);
		</script>`...))
	}))
	d := open(t, "http://"+server.Addr()+"/typed", "typed")
	d.says("rank-text", "Rank 55 · node node006, local rank 7")
	d.says("nodes-text", "1 of 8 nodes")
	tag, _ := d.tag("map")
	for _, want := range []string{`role="slider"`, `tabindex="0"`, `aria-valuemax="63"`, `aria-valuenow="55"`, `aria-valuetext="Rank 55`} {
		if !strings.Contains(tag, want) {
			t.Errorf("no %s in %s", want, tag)
		}
	}
	if !strings.Contains(d.text, "in step, at most") {
		t.Error("colours do not show who is behind")
	}
}
