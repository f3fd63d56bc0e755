package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// bin has the headrace command, and a python that is the trainer of the tests of
// examples/slurm: any script is that one.
var bin string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "hr-pods-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a folder of the system's temporary one
	bin = dir
	for _, args := range [][]string{{"build", "-o", filepath.Join(dir, "headrace"), "./cmd/headrace"}, {"test", "-c", "-o", filepath.Join(dir, "ranks"), "./examples/slurm"}, {"run", "./cmd/headrace", "gen", "examples/torchrun/labels.json", "--out", filepath.Join(dir, "data")}} {
		cmd := exec.Command("go", args...)
		cmd.Dir = "../.."
		if out, err := cmd.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v: %v: %s\n", args, err, out)
			return 1
		}
	}
	python := "#!/bin/sh\nwhile :; do case $1 in --*) break;; esac; shift; done\nHEADRACE_TEST_SHIM=trainer exec '" + filepath.Join(dir, "ranks") + "' \"$@\"\n"
	for _, name := range []string{"python", "python3"} { // by the manifest, and by headrace launch
		if err := os.WriteFile(filepath.Join(dir, name), []byte(python), 0o700); err != nil {
			panic(err)
		}
	}
	return m.Run()
}

// place is where a pod "runs": an address of loopback, and paths that stand for its volumes.
type place struct {
	pod     int
	address string
	replace []string // pairs: what the manifest says, and what it is here
	dir     string
}

// expand is a text of the manifest as the kubelet gives it to the container, on this machine.
func (p place) expand(c *corev1.Container, text string) string {
	for _, e := range c.Env {
		v := e.Value
		if e.ValueFrom != nil {
			v = p.field(e.ValueFrom.FieldRef.FieldPath)
		}
		text = strings.ReplaceAll(text, "$("+e.Name+")", v)
	}
	return strings.NewReplacer(p.replace...).Replace(text)
}

// jobUID is that of the Job, which its pods have as a label.
const jobUID = "3e0a5b5c-0c5d-4f0e-9b51-6f0c3a1d2e4f"

// field is what the downward API says.
func (p place) field(path string) string {
	known := map[string]string{
		"metadata.name": "pod-" + strconv.Itoa(p.pod), "status.podIP": p.address, "spec.nodeName": "node-" + strconv.Itoa(p.pod),
		"metadata.labels['batch.kubernetes.io/controller-uid']": jobUID,
	}
	v, ok := known[path]
	if !ok {
		panic("no field " + path)
	}
	return v
}

// command is a container as a process, with the container's environment and nothing else.
func (p place) command(t *testing.T, c *corev1.Container) *exec.Cmd {
	t.Helper()
	words := append([]string{}, c.Command...)
	for _, a := range c.Args {
		words = append(words, p.expand(c, a))
	}
	cmd := exec.Command(filepath.Join(bin, words[0]), words[1:]...)
	cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=/", "KUBERNETES_SERVICE_HOST=10.96.0.1", "JOB_COMPLETION_INDEX=" + strconv.Itoa(p.pod), "HOSTNAME=pod-" + strconv.Itoa(p.pod)}
	for _, e := range c.Env {
		cmd.Env = append(cmd.Env, e.Name+"="+p.expand(c, "$("+e.Name+")"))
	}
	cmd.Dir = p.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// cluster is the pods of a Job.
type cluster struct {
	t        *testing.T
	manifest manifest
	dir, out string
	base     string
	mu       sync.Mutex
	log      bytes.Buffer
}

func (c *cluster) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.Write(p)
}

func start(t *testing.T, name string, salt int) *cluster {
	t.Helper()
	dir, err := os.MkdirTemp("", "hr-job-")
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, manifest: read(t, name), dir: dir, out: filepath.Join(dir, "out"), base: fmt.Sprintf("127.%d.%d.", 140+(os.Getpid()>>8)&0x3f, (os.Getpid()+61*salt)&0xff)}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.log.String())
		}
		_ = os.RemoveAll(dir)
	})
	secret := filepath.Join(dir, "secret")
	for _, d := range []string{c.out, secret} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for file, text := range map[string]string{filepath.Join(secret, "key"): "0123456789abcdef0123456789abcdef", filepath.Join(secret, "metrics"): "a token of the page", filepath.Join(dir, "train.py"): ""} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// place is that of a pod.
func (c *cluster) place(pod int) place {
	run := filepath.Join(c.dir, strconv.Itoa(pod))
	_ = os.MkdirAll(run, 0o700)
	p := place{pod: pod, address: c.base + strconv.Itoa(pod+1), dir: c.dir, replace: []string{
		"$(JOB_COMPLETION_INDEX)", strconv.Itoa(pod), "/run/headrace", run, "/etc/headrace", filepath.Join(c.dir, "secret"),
		"/data/volume.zarr", filepath.Join(bin, "data", "labels.zarr"), "/results", c.out, "/checkpoints", c.out,
	}}
	for i := range int(*c.manifest.job.Spec.Completions) {
		p.replace = append(p.replace, fmt.Sprintf("%s-%d.%s", c.manifest.job.Name, i, c.manifest.headless.Name), c.base+strconv.Itoa(i+1))
	}
	return p
}

// pod runs a pod as the kubelet does: sidecars, each until its startup probe is content; the
// trainer to its end; then the sidecars are ended by SIGTERM. Without ctx all is killed.
func (c *cluster) pod(ctx context.Context, index int) error {
	p := c.place(index)
	spec := c.manifest.pod().Spec
	var sidecars []*exec.Cmd
	defer func() {
		for _, cmd := range sidecars {
			sig := syscall.SIGTERM
			if ctx.Err() != nil {
				sig = syscall.SIGKILL
			}
			_ = cmd.Process.Signal(sig)
			_ = cmd.Wait()
		}
	}()
	for i := range spec.InitContainers {
		s := &spec.InitContainers[i]
		cmd := p.command(c.t, s)
		cmd.Stdout, cmd.Stderr = c, c
		if err := cmd.Start(); err != nil {
			return err
		}
		sidecars = append(sidecars, cmd)
		if err := p.probe(ctx, s, s.StartupProbe); err != nil {
			return err
		}
	}
	cmd := p.command(c.t, &spec.Containers[0])
	cmd.Stdout, cmd.Stderr = c, c
	if err := cmd.Start(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer stop()
	return cmd.Wait()
}

// probe asks as the kubelet does, until the answer is good.
func (p place) probe(ctx context.Context, c *corev1.Container, probe *corev1.Probe) error {
	port := int32(0)
	for _, q := range c.Ports {
		if q.Name == probe.HTTPGet.Port.StrVal {
			port = q.ContainerPort
		}
	}
	for range int(probe.FailureThreshold) * 100 {
		answer, err := http.Get(fmt.Sprintf("http://%s:%d%s", p.address, port, probe.HTTPGet.Path)) //nolint:noctx // it is bounded by the loop
		if err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return errors.New("the startup probe fails")
}

// middle waits until so many ranks are in the middle of their work.
func (c *cluster) middle(ctx context.Context, ranks int) {
	c.t.Helper()
	for {
		if at, _ := filepath.Glob(filepath.Join(c.out, "at-*")); len(at) >= ranks {
			return
		}
		select {
		case <-ctx.Done():
			c.t.Fatalf("the ranks do not come: %v", ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// metrics is what a pod's agent tells, with the Secret's token.
func (c *cluster) metrics(ctx context.Context, pod int) string {
	c.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.place(pod).address+":9400/metrics", nil)
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer a token of the page")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		c.t.Fatal(err)
	}
	return string(body)
}

func (c *cluster) release() { _ = os.WriteFile(filepath.Join(c.out, "go"), nil, 0o600) }

// said is what a rank leaves, as far as it matters here.
type said struct {
	Rank, World, Node int
	Source, Expected  string
	Closed            struct {
		Count  int64
		Digest string
	}
	Report struct{ Of, Count int64 }
}

func (c *cluster) results() (list []said) {
	c.t.Helper()
	files, _ := filepath.Glob(filepath.Join(c.out, "rank-*.json"))
	for _, f := range files {
		text, err := os.ReadFile(f)
		var s said
		if err = errors.Join(err, json.Unmarshal(text, &s)); err != nil {
			c.t.Fatal(err)
		}
		list = append(list, s)
	}
	return list
}

// Four pods evaluate; the one that formed the job is lost in the middle, and its replacement
// comes back into the job that is there, not into a new one. Each crop is done once.
func TestPodIsReplaced(t *testing.T) {
	c := start(t, "agent.yaml", 0)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	first, kill := context.WithCancel(ctx)
	ended := make(chan error, 8)
	run := func(ctx context.Context, i int) { go func() { ended <- c.pod(ctx, i) }() }
	run(first, 0)
	for i := 1; i < 4; i++ {
		run(ctx, i)
	}
	c.middle(ctx, 4)
	for voters := 0; voters < 2; { // besides the first, or the job would be lost with it
		voters = 0
		for i := 1; i < 4; i++ {
			if strings.Contains(c.metrics(ctx, i), "headrace_agent_log_voters 3\n") {
				voters++
			}
		}
	}
	kill()
	if err := <-ended; err == nil {
		t.Error("a pod that was killed has succeeded")
	}
	run(ctx, 0)
	c.middle(ctx, 5)
	c.release()
	for range 4 {
		if err := <-ended; err != nil {
			t.Errorf("a pod: %v", err)
		}
	}
	list := c.results()
	if len(list) != 4 {
		t.Errorf("%d ranks came to the end", len(list))
	}
	for _, s := range list {
		if s.Closed.Count != s.Report.Of || s.Closed.Count == 0 || s.Closed.Digest != s.Expected || s.Source != "Kubernetes" || s.World != 4 {
			t.Errorf("%+v", s)
		}
	}
}

// Two pods train under headrace launch: together their ranks have each crop once.
func TestLaunch(t *testing.T) {
	c := start(t, "launch.yaml", 1)
	for i := range c.manifest.job.Spec.Template.Spec.Containers[0].Env {
		if e := &c.manifest.job.Spec.Template.Spec.Containers[0].Env[i]; e.Name == "PROCESSES" {
			e.Value = "2"
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ended := make(chan error, 2)
	for i := range 2 {
		go func() { ended <- c.pod(ctx, i) }()
	}
	c.middle(ctx, 4)
	c.release()
	for range 2 {
		if err := <-ended; err != nil {
			t.Errorf("a pod: %v", err)
		}
	}
	var of, count int64
	for _, s := range c.results() {
		of, count = s.Report.Of, count+s.Report.Count
		if s.World != 4 || s.Source != "torchrun" {
			t.Errorf("%+v", s)
		}
	}
	if of == 0 || count != of {
		t.Errorf("coverage %d of %d", count, of)
	}
}
