//go:build linux && kernel

package veth

import (
	"os"
	"runtime"
	"testing"

	"github.com/vishvananda/netns"
)

// BenchmarkAdd makes a pair and opens its port.
func BenchmarkAdd(b *testing.B) {
	runtime.LockOSThread() // never unlocked: the thread ends with the benchmark
	ns, err := netns.New()
	must(b, err)
	pod := os.NewFile(uintptr(ns), "pod")
	defer pod.Close()
	node, err := netns.New()
	must(b, err)
	defer node.Close()
	for b.Loop() {
		p, err := Add(blue, pod)
		must(b, err)
		must(b, Up(p))
		b.StopTimer()
		must(b, Del(blue.HostInterface())) // waits for the kernel, which has its own pace
		b.StartTimer()
	}
}
