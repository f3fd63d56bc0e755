package kubernetes

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const manifests = "../../examples/kubernetes"

// manifest is what a file describes: a pod, by whom it is made, and the Service of its name.
type manifest struct {
	name     string
	job      *batchv1.Job
	headless *corev1.Service
	witness  *appsv1.Deployment
}

// read decodes a file strictly: a field that the API does not have is an error, and so is one
// that is there twice.
func read(t *testing.T, name string) manifest {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(manifests, name))
	if err != nil {
		t.Fatal(err)
	}
	m := manifest{name: name}
	for doc := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var kind struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal(doc, &kind); err != nil {
			t.Fatal(err)
		}
		var into any
		switch kind.APIVersion + " " + kind.Kind {
		case "v1 Service":
			m.headless = &corev1.Service{}
			into = m.headless
		case "batch/v1 Job":
			m.job = &batchv1.Job{}
			into = m.job
		case "apps/v1 Deployment":
			m.witness = &appsv1.Deployment{}
			into = m.witness
		default:
			t.Fatalf("%s: %s %s", name, kind.APIVersion, kind.Kind)
		}
		if err := yaml.UnmarshalStrict(doc, into); err != nil {
			t.Errorf("%s: %s: %v", name, kind.Kind, err)
		}
	}
	return m
}

func (m *manifest) pod() *corev1.PodTemplateSpec {
	if m.job != nil {
		return &m.job.Spec.Template
	}
	return &m.witness.Spec.Template
}

// containers are all of a pod; a container before the others must be a sidecar.
func (m *manifest) containers() []*corev1.Container {
	var list []*corev1.Container
	spec := &m.pod().Spec
	for i := range spec.InitContainers {
		list = append(list, &spec.InitContainers[i])
	}
	for i := range spec.Containers {
		list = append(list, &spec.Containers[i])
	}
	return list
}

func names(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(manifests, "*.yaml"))
	if err != nil || len(files) != 3 {
		t.Fatal(files, err)
	}
	for i, f := range files {
		files[i] = filepath.Base(f)
	}
	return files
}

// A Service finds the pods, gives them their names, and has ports that they have.
func TestServices(t *testing.T) {
	for _, name := range names(t) {
		m := read(t, name)
		if m.job == nil {
			if !covers(m.pod().Labels, m.witness.Spec.Selector.MatchLabels) {
				t.Errorf("%s: the Deployment does not select its pods", name)
			}
			continue
		}
		s := m.headless.Spec
		if len(s.Selector) == 0 || !covers(m.pod().Labels, s.Selector) || s.ClusterIP != corev1.ClusterIPNone || !s.PublishNotReadyAddresses {
			t.Errorf("%s: selector %v, labels %v, cluster IP %q, not ready %v", name, s.Selector, m.pod().Labels, s.ClusterIP, s.PublishNotReadyAddresses)
		}
		if m.pod().Spec.Subdomain != m.headless.Name || m.headless.Namespace != m.job.Namespace {
			t.Errorf("%s: pods are in subdomain %q, the Service is %q", name, m.pod().Spec.Subdomain, m.headless.Name)
		}
		for _, p := range s.Ports {
			if !slices.ContainsFunc(m.containers(), func(c *corev1.Container) bool {
				return slices.ContainsFunc(c.Ports, func(q corev1.ContainerPort) bool {
					return q.Name == p.Name && q.ContainerPort == p.Port && q.Protocol == p.Protocol
				})
			}) {
				t.Errorf("%s: no container has port %s %d", name, p.Name, p.Port)
			}
		}
		for _, c := range m.containers() { // names of pods that arguments speak of
			for _, a := range c.Args {
				for _, found := range regexp.MustCompile(`([a-z]+)-(\d+)\.([a-z]+)(?::(\d+))?`).FindAllStringSubmatch(a, -1) {
					if found[1] != m.job.Name || found[3] != m.headless.Name || int32(found[2][0]-'0') >= *m.job.Spec.Completions {
						t.Errorf("%s: %s is no pod of Job %s in %s", name, found[0], m.job.Name, m.headless.Name)
					}
				}
			}
		}
	}
}

func covers(labels, selector map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return true
}

// What a container speaks of is there: variables, volumes, ports of probes. What is declared is
// used.
func TestReferences(t *testing.T) {
	for _, name := range names(t) {
		m := read(t, name)
		used := map[string]bool{}
		for _, c := range m.containers() {
			known := map[string]bool{"JOB_COMPLETION_INDEX": m.job != nil} // the Job controller sets it
			for _, e := range c.Env {
				known[e.Name] = true
			}
			for _, a := range append(slices.Clone(c.Command), c.Args...) {
				for _, v := range regexp.MustCompile(`\$\(([^)]*)\)`).FindAllStringSubmatch(a, -1) {
					if !known[v[1]] {
						t.Errorf("%s: %s: %s is not set", name, c.Name, v[0])
					}
				}
			}
			for _, v := range c.VolumeMounts {
				used[v.Name] = true
				if !slices.ContainsFunc(m.pod().Spec.Volumes, func(d corev1.Volume) bool { return d.Name == v.Name }) {
					t.Errorf("%s: %s: volume %s is not declared", name, c.Name, v.Name)
				}
			}
			for _, p := range []*corev1.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
				if p != nil && !slices.ContainsFunc(c.Ports, func(q corev1.ContainerPort) bool { return q.Name == p.HTTPGet.Port.StrVal }) {
					t.Errorf("%s: %s: a probe asks port %s", name, c.Name, p.HTTPGet.Port.StrVal)
				}
			}
		}
		for _, v := range m.pod().Spec.Volumes {
			if !used[v.Name] {
				t.Errorf("%s: volume %s is mounted nowhere", name, v.Name)
			}
		}
	}
}

// Pods have no rights that they do not need, and do not wait for ever.
func TestPodsAreClosed(t *testing.T) {
	for _, name := range names(t) {
		m := read(t, name)
		s := m.pod().Spec
		if !*s.SecurityContext.RunAsNonRoot || s.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault || *s.AutomountServiceAccountToken || s.HostNetwork || s.HostPID {
			t.Errorf("%s: the pod is open", name)
		}
		for _, c := range m.containers() {
			x := c.SecurityContext
			if *x.AllowPrivilegeEscalation || *x.Privileged || !*x.ReadOnlyRootFilesystem || !slices.Equal(x.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(x.Capabilities.Add) > 0 {
				t.Errorf("%s: %s is open", name, c.Name)
			}
			if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
				t.Errorf("%s: %s has no limit of memory, or asks for no CPU", name, c.Name)
			}
			if _, gpu := c.Resources.Limits["nvidia.com/gpu"]; gpu != (c.Name == "trainer") {
				t.Errorf("%s: %s: GPU %v", name, c.Name, gpu)
			}
		}
		if m.job == nil {
			continue
		}
		j := m.job.Spec
		if *j.CompletionMode != batchv1.IndexedCompletion || *j.Completions != *j.Parallelism || j.BackoffLimitPerIndex == nil || j.ActiveDeadlineSeconds == nil || s.RestartPolicy != corev1.RestartPolicyNever {
			t.Errorf("%s: an indexed Job whose pods are all there at a time, within limits: %+v", name, j)
		}
		for _, c := range s.InitContainers {
			if c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways {
				t.Errorf("%s: %s is no sidecar: the trainer would wait for its end", name, c.Name)
			}
		}
		for _, r := range j.PodFailurePolicy.Rules {
			if r.OnExitCodes != nil && !slices.ContainsFunc(m.containers(), func(c *corev1.Container) bool { return c.Name == *r.OnExitCodes.ContainerName }) {
				t.Errorf("%s: a rule is about container %s", name, *r.OnExitCodes.ContainerName)
			}
		}
	}
}

// Ranks that are expected, nodes that are said and the Job's completions are one number; both
// containers of a pod mean one socket.
func TestNumbersAgree(t *testing.T) {
	m := read(t, "agent.yaml")
	n := fmt.Sprint(*m.job.Spec.Completions)
	agent, trainer := m.containers()[0], m.containers()[1]
	if !slices.Contains(agent.Args, "--expect="+n) || value(trainer, "NNODES") != n || value(agent, "HEADRACE_AGENT") != value(trainer, "HEADRACE_AGENT") {
		t.Errorf("%s pods: %v, %v", n, agent.Args, trainer.Env)
	}
	l := read(t, "launch.yaml")
	c := l.containers()[0]
	if gpus := c.Resources.Limits["nvidia.com/gpu"]; value(c, "NNODES") != fmt.Sprint(*l.job.Spec.Completions) || value(c, "PROCESSES") != gpus.String() {
		t.Errorf("%v", c.Env)
	}
}

func value(c *corev1.Container, name string) string {
	for _, e := range c.Env {
		if e.Name == name {
			return e.Value
		}
	}
	return ""
}

// An agent has the flags that its containers give it. --help has the command line read, and
// nothing done.
func TestAgentFlags(t *testing.T) {
	for _, name := range []string{"agent.yaml", "witness.yaml"} {
		m := read(t, name)
		c := m.containers()[0]
		p := place{pod: 0, address: "127.0.0.1", replace: []string{"$(JOB_COMPLETION_INDEX)", "0"}}
		cmd := p.command(t, c)
		cmd.Args = append(cmd.Args, "--help")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "Usage:") {
			t.Errorf("%s: %v: %v: %s", name, cmd.Args, err, out)
		}
	}
}
