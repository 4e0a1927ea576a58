//go:build speed

package browser

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// The command with 10,000 pods on a real API server: its memory, the first paint ("Loading"), and
// the paint with all data. The bound of the paint is generous, because other programs run on the
// machine.
func TestTenThousandPods(t *testing.T) {
	const pods, perBlock, memory, paint = 10_000, 250, 150 << 20, 20 * time.Second
	c, err := sharedControlPlane()
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err = c.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "many"}}, metav1.CreateOptions{})
	must(err)
	must(c.waitForAccount(t.Context(), "many"))
	_, err = c.sample.SamplecrdV1().Networks("many").Create(t.Context(), &v1.Network{ObjectMeta: metav1.ObjectMeta{Name: "blue"}, Spec: v1.NetworkSpec{CIDR: "10.3.0.0/16"}}, metav1.CreateOptions{})
	must(err)
	blocks, failures := make(chan int, pods/perBlock), make(chan error, 16)
	for b := range pods / perBlock {
		blocks <- b
	}
	close(blocks)
	var working sync.WaitGroup
	for range cap(failures) {
		working.Go(func() {
			for b := range blocks {
				if err := c.createBlock(t.Context(), b, perBlock); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	working.Wait()
	close(failures)
	must(<-failures)

	l := newLive(t, "-n", "many")
	l.open("networks/many/blue/10.3.0.9")
	l.shows("web-7")
	first := l.paints()
	// The command has loaded all by now. A second page shows its own speed.
	l.do(chromedp.Navigate("about:blank"))
	begin := time.Now()
	l.open("networks/many/blue/10.3.0.9")
	l.shows("web-7")
	complete := time.Since(begin)
	again := l.paints()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", l.command.Process.Pid))
	must(err)
	kib, err := strconv.ParseInt(string(regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)[1]), 10, 64)
	must(err)
	t.Logf("%d pods: the command has used at most %d MiB; first paint after %s while it loaded and %s then, complete after %s",
		pods, kib>>10, first, again, complete.Round(time.Millisecond))
	if kib<<10 > memory {
		t.Errorf("the command has used %d MiB, want %d or less", kib>>10, memory>>20)
	}
	if complete > paint {
		t.Errorf("the page is complete after %s, want %s or less", complete, paint)
	}
}

// createBlock creates pods of namespace many, and the AddressBlock with their addresses.
func (c *controlPlane) createBlock(ctx context.Context, number, count int) error {
	block := &v1.AddressBlock{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("blue-10.3.%d.0", number)}, Spec: v1.AddressBlockSpec{Network: "blue", NetworkUID: "uid", CIDR: fmt.Sprintf("10.3.%d.0/24", number)}}
	for i := range count {
		address, name := fmt.Sprintf("10.3.%d.%d", number, i+2), fmt.Sprint("web-", number*count+i)
		pod, err := c.kube.CoreV1().Pods("many").Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.ManagedLabel: "true", v1.Pod2Label: "web"},
				Annotations: map[string]string{v1.NetworksAnnotation: "blue", v1.AddressesAnnotation: fmt.Sprintf(`{"blue":{"address":"%s/16","gateway":"10.3.0.1","mac":"0a:58:0a:03:%02x:%02x"}}`, address, number, i+2)}},
			Spec: corev1.PodSpec{SchedulerName: "none", Containers: []corev1.Container{{Name: "c", Image: "i"}}}}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		block.Spec.Entries = append(block.Spec.Entries, v1.AddressEntry{Address: address, Pod: name, PodUID: pod.UID, State: v1.AddressBound, Since: metav1.Now(), Owner: v1.AddressOwner{Kind: "Pod2", Name: "web"}})
	}
	_, err := c.sample.SamplecrdV1().AddressBlocks("many").Create(ctx, block, metav1.CreateOptions{})
	return err
}

// paints returns the time from the navigation to the first paint with content.
func (l *lab) paints() time.Duration {
	l.Helper()
	var milliseconds float64
	l.do(chromedp.Evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1", &milliseconds))
	return (time.Duration(milliseconds * float64(time.Millisecond))).Round(time.Millisecond)
}
