//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/test/bench/measure"
)

// space is the namespace of the pods.
const space = "fan-out"

// watched is one watch of an agent.
type watched struct {
	path, labels, fields string
	protobuf             bool
}

const (
	pods, nodes = "/api/v1/pods", "/api/v1/nodes"
	endpoints   = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
	custom      = "/apis/samplecrd.k8s.io/v1"
	managed     = samplecrdv1.ManagedLabel + "=true"
)

// sliced are the watches of an agent on the node, if it has a pod of the Network.
func sliced(node string) []watched {
	return []watched{
		{pods, managed, "spec.nodeName=" + node, true},
		{nodes, "", "metadata.name=" + node, true},
		{endpoints, "kubernetes.io/service-name=kubernetes", "", true},
		{custom + "/namespaces/kube-system/addressslices", samplecrdv1.NodesLabel + "=true", "", false},
		{custom + "/namespaces/" + space + "/addressslices", samplecrdv1.NetworkLabel + "=blue", "", false},
	}
}

// everything are the watches of an agent that needs no AddressSlices.
func everything(string) []watched {
	return []watched{{pods, managed, "", true}, {nodes, "", "", true}, {endpoints, "kubernetes.io/service-name=kubernetes", "", true}, {custom + "/networks", "", "", false}}
}

// agents are the watches of all nodes.
type agents struct {
	events, bookmarks, bytes atomic.Int64 // events are changes of objects
	listed                   atomic.Int64 // bytes of the first lists
	count                    int
	stopped                  context.CancelFunc
	running                  sync.WaitGroup
	failed                   atomic.Pointer[error]
}

// startAgents returns once each agent has its first lists.
func (b *bench) startAgents(ctx context.Context, of func(node string) []watched) *agents {
	a := &agents{count: b.Agents}
	ctx, a.stopped = context.WithCancel(ctx)
	list := b.nodes(ctx)
	measure.Parallel(b.Agents, func(i int) {
		config := rest.CopyConfig(b.Config)
		config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
		config.Dial = (&net.Dialer{}).DialContext // each agent has a connection of its own
		client := measure.Must(rest.UnversionedRESTClientFor(config))
		for _, w := range of(list[i%len(list)].Name) {
			a.watch(ctx, client, w)
		}
	})
	return a
}

var (
	// endOfList is in the event that ends the first list of a watch (KEP-3157).
	endOfList = []byte("k8s.io/initial-events-end")
	// bookmark is the type of an event that tells only the newest resourceVersion (KEP-956).
	bookmark = []byte("BOOKMARK")
)

// isBookmark: the type is the first field of an event, in JSON and in protobuf.
func isBookmark(event []byte) bool {
	return bytes.Contains(event[:min(len(event), len(`{"type":"BOOKMARK"`))], bookmark)
}

// watch returns after the first list, and counts events until ctx ends.
func (a *agents) watch(ctx context.Context, client *rest.RESTClient, w watched) {
	request := client.Get().AbsPath(w.path).Param("watch", "true").Param("sendInitialEvents", "true").
		Param("resourceVersionMatch", "NotOlderThan").Param("allowWatchBookmarks", "true").SetHeader("Accept", "application/json")
	if w.protobuf {
		request = request.SetHeader("Accept", "application/vnd.kubernetes.protobuf;stream=watch")
	}
	if w.labels != "" {
		request = request.Param("labelSelector", w.labels)
	}
	if w.fields != "" {
		request = request.Param("fieldSelector", w.fields)
	}
	stream := measure.Must(request.Stream(ctx))
	listed := make(chan struct{})
	a.running.Go(func() {
		defer stream.Close()
		if err := a.read(bufio.NewReaderSize(stream, 1<<14), w.protobuf, listed); ctx.Err() == nil {
			err = fmt.Errorf("watch %s: %w", w.path, err)
			a.failed.Store(&err)
		}
	})
	select {
	case <-listed:
	case <-time.After(measure.Patience):
		measure.Check(fmt.Errorf("the first list of %s does not end", w.path))
	}
}

// read the events of a watch, first those of its first list.
func (a *agents) read(r *bufio.Reader, protobuf bool, listed chan<- struct{}) error {
	var event []byte
	for first := true; ; {
		var err error
		if event, err = next(r, protobuf, event[:0]); err != nil {
			return err
		}
		switch {
		case !first:
			if isBookmark(event) {
				a.bookmarks.Add(1)
			} else {
				a.events.Add(1)
			}
			a.bytes.Add(int64(len(event)))
		case bytes.Contains(event, endOfList):
			first = false
			close(listed)
		default:
			a.listed.Add(int64(len(event)))
		}
	}
}

// next reads an event: in protobuf its length comes first, in JSON it is a line.
func next(r *bufio.Reader, protobuf bool, event []byte) ([]byte, error) {
	if !protobuf {
		for {
			part, err := r.ReadSlice('\n')
			if event = append(event, part...); !errors.Is(err, bufio.ErrBufferFull) {
				return event, err
			}
		}
	}
	var length uint32
	if err := binary.Read(r, binary.BigEndian, &length); err != nil {
		return nil, err
	}
	event = slices.Grow(event, int(length))[:length]
	_, err := io.ReadFull(r, event)
	return event, err
}

// lists is the size of the first lists of one agent.
func (a *agents) lists() float64 { return float64(a.listed.Load()) / float64(a.count) }

func (a *agents) stop() {
	if err := a.failed.Load(); err != nil {
		measure.Check(*err)
	}
	a.stopped()
	a.running.Wait()
}

func (b *bench) createNetwork(ctx context.Context) {
	measure.Must(b.Sample.SamplecrdV1().Networks(space).Create(ctx, &samplecrdv1.Network{
		ObjectMeta: metav1.ObjectMeta{Name: "blue"}, Spec: samplecrdv1.NetworkSpec{CIDR: "10.128.0.0/12", ReuseDelaySeconds: ptr.To(int32(b.Rests))},
	}, metav1.CreateOptions{}))
}

// scaleUp creates the pods, and waits for them.
func (b *bench) scaleUp(ctx context.Context) {
	labels := map[string]string{"app": "web"}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{samplecrdv1.NetworksAnnotation: "blue"}},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: ptr.To(false), TerminationGracePeriodSeconds: ptr.To(int64(0)),
			Containers: []corev1.Container{{Name: "web", Image: "registry.k8s.io/pause:3.10"}},
		},
	}
	measure.Must(b.Kube.AppsV1().Deployments(space).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       appsv1.DeploymentSpec{Replicas: ptr.To(int32(b.Pods)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
	}, metav1.CreateOptions{}))
	b.await(ctx)
}
