package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/pod2/pod2/test/bench/measure"
)

// allocator gives addresses to pods by a CNI plugin.
type allocator struct {
	name  string
	users []string // whose writes count
	// begin makes the allocator ready for pods of a namespace.
	begin func(ctx context.Context, b *bench, ns string) (cni, func())
}

// cni is how a container runtime calls a plugin.
type cni struct {
	program string
	env     func(pod *corev1.Pod) []string
	config  map[string]any
}

const (
	pod2Each = "Pod2, one pod after the other"
	pod2All  = "Pod2, one workload"
)

func allocators() []allocator {
	return []allocator{whereabouts(false), whereabouts(true), spiderpool()}
}

// addresses measures each allocator, and Pod2, with n pods, sixteen calls at once.
func (b *bench) addresses(ctx context.Context, round, n int) {
	b.addressesOfOthers(ctx, round, n)
	for _, name := range []string{pod2Each, pod2All} {
		if b.only.MatchString(name) {
			part := measure.Results{}
			if b.publish(ctx, name, n, part); name == pod2All && round == 0 {
				b.pod2Keeps(ctx, min(n, mostKept), part)
			}
			b.keepAddresses(name, part)
		}
	}
}

func (b *bench) addressesOfOthers(ctx context.Context, round, n int) {
	all := slices.DeleteFunc(allocators(), func(a allocator) bool { return !b.only.MatchString(a.name) })
	if len(all) > 0 {
		defer b.withoutPod2(ctx)()
	}
	for i := range all {
		a := all[turn(i, round, len(all))]
		part := measure.Results{}
		err := measure.Try(func() {
			if b.allocate(ctx, a, n, part); round == 0 {
				b.keeps(ctx, a, min(n, mostKept), part)
			}
		})
		if err != nil {
			measure.Check(fmt.Errorf("%s, %d addresses: %w", a.name, n, err))
		}
		b.keepAddresses(a.name, part)
	}
}

func (b *bench) keepAddresses(name string, part measure.Results) {
	measure.Say("%-36s %5d addresses: %s", name, b.Addresses, part)
	b.AddAll(part, "addresses", name)
}

// allocate calls ADD for each of n pods that run.
func (b *bench) allocate(ctx context.Context, a allocator, n int, part measure.Results) {
	ns := b.newNamespace(ctx)
	plugin, end := a.begin(ctx, b, ns)
	defer end()
	watched := b.WatchPods(ctx, ns, func(watch.Event) {})
	defer watched.Stop()
	measure.Parallel(n, func(i int) {
		pod := rawPod(i)
		pod.Annotations = map[string]string{"k8s.v1.cni.cncf.io/networks": ns} // as for Multus; Spiderpool reads it
		measure.Must(b.Kube.CoreV1().Pods(ns).Create(ctx, pod, metav1.CreateOptions{}))
	})
	watched.Wait(ctx, "all pods are Ready", func(p measure.Point) bool { return p.Ready == n })
	pods := measure.Must(b.Kube.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})).Items
	b.waitQuiet(ctx)

	var lock sync.Mutex
	var own time.Duration // CPU time of the plugin's processes
	seen := map[string]string{}
	count := b.countWrites(a.users...)
	computed := b.computed()
	begin := time.Now()
	measure.Parallel(n, func(i int) {
		called := time.Now()
		address, cpu, failures := plugin.add(ctx, &pods[i])
		took := time.Since(called)
		lock.Lock()
		defer lock.Unlock()
		if other := seen[address]; other != "" {
			measure.Check(fmt.Errorf("pods %s and %s both got %s", other, pods[i].Name, address))
		}
		seen[address] = pods[i].Name
		own += cpu
		part.Add(measure.Milliseconds(took), "call, ms")
		part.Add(float64(failures), "failures")
	})
	b.addAllocated(part, n, time.Since(begin), own, computed)
	b.waitQuiet(ctx)
	part.Add(float64(count().Sum(func(measure.Write) bool { return true }))/float64(n), "writes")

	b.deleteRaw(ctx, ns)
	watched.Wait(ctx, "all pods are gone", gone)
}

// addAllocated adds the figures of n addresses.
func (b *bench) addAllocated(part measure.Results, n int, took, own time.Duration, before map[string]float64) {
	part.Add(float64(n)/took.Seconds(), "per second")
	all := own.Seconds()
	for name, seconds := range b.computed() {
		all += seconds - before[name]
	}
	part.Add(all/float64(n), "CPU")
}

// tries is how often a call is repeated. A kubelet repeats it until it succeeds.
const tries = 20

// add returns the address of a pod. After a failure it calls DEL and ADD again, with the id of
// another sandbox, as a kubelet does.
func (c cni) add(ctx context.Context, pod *corev1.Pod) (address string, cpu time.Duration, failures int) {
	for {
		answer, used, err := c.call(ctx, "ADD", pod, failures)
		cpu += used
		if err == nil {
			var result struct{ IPs []struct{ Address string } }
			measure.Check(json.Unmarshal(answer, &result))
			if len(result.IPs) != 1 {
				measure.Check(fmt.Errorf("pod %s has %d addresses: %s", pod.Name, len(result.IPs), answer))
			}
			return result.IPs[0].Address, cpu, failures
		}
		if failures++; failures == tries {
			measure.Check(err)
		}
		_, used, err = c.call(ctx, "DEL", pod, failures-1)
		measure.Check(err)
		cpu += used
	}
}

// call the plugin. The network namespace is the one of this process, which needs no rights; no
// plugin for addresses alone changes it.
func (c cni) call(ctx context.Context, command string, pod *corev1.Pod, sandbox int) (answer []byte, cpu time.Duration, err error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, c.program)
	cmd.Env = append(c.env(pod), "CNI_COMMAND="+command, "CNI_IFNAME=net1", "CNI_PATH=/opt/cni/bin", "CNI_NETNS_OVERRIDE=true",
		fmt.Sprintf("CNI_NETNS=/proc/%d/ns/net", os.Getpid()), fmt.Sprintf("CNI_CONTAINERID=%s-%d", pod.UID, sandbox),
		fmt.Sprintf("CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=%s;K8S_POD_NAME=%s;K8S_POD_UID=%s;K8S_POD_INFRA_CONTAINER_ID=%s-%d",
			pod.Namespace, pod.Name, pod.UID, pod.UID, sandbox))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(measure.Must(json.Marshal(c.config))), &stdout, &stderr
	err = cmd.Run()
	if cmd.ProcessState != nil {
		cpu = cmd.ProcessState.SystemTime() + cmd.ProcessState.UserTime()
	}
	if err != nil {
		err = fmt.Errorf("CNI %s of pod %s: %w: %s%s", command, pod.Name, err, &stdout, &stderr)
	}
	return stdout.Bytes(), cpu, err
}
