//go:build linux && kernel

package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/pod2/pod2/pkg/agent/cni"
)

func TestAddResult(t *testing.T) {
	t.Parallel()
	n, pods := onBlue(t, "a")
	result, err := n.add(pods[0])
	must(t, err)
	got := fmt.Sprint(result.HostInterface == pods[0].attachment().HostInterface(), " ", result.MAC, " ", result.Address, " ", result.Gateway, " ", result.MTU)
	if want := "true 0a:58:c0:a8:00:02 192.168.0.2/16 192.168.0.1 1450"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	n.expect("place 192.168.0.2: a\nport a: 192.168.0.2\n")
}

// A second Add of the same attachment returns the same, and leaves the interface unchanged.
func TestAddIsIdempotent(t *testing.T) {
	t.Parallel()
	n, pods := onBlue(t, "a", "b")
	pods[0].attach()
	pods[1].attach()
	before := pods[0].link().Attrs().Index
	first, err := n.add(pods[0])
	must(t, err)
	second, err := n.add(pods[0])
	must(t, err)
	if fmt.Sprint(first) != fmt.Sprint(second) || pods[0].link().Attrs().Index != before {
		t.Errorf("index %d, then %d\n%v\n%v", before, pods[0].link().Attrs().Index, first, second)
	}
	pods[1].reaches(pods[0].ip, "a")
}

// The node's end is up only after its programs are attached. They drop all packets until the port has its entry.
func TestProgramsComeBeforeTheInterfaceIsUp(t *testing.T) {
	t.Parallel()
	n, pods := onBlue(t, "a")
	var socket *nl.NetlinkSocket
	n.in(n.name, func() (err error) {
		socket, err = nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_TC)
		return err
	})
	defer socket.Close()
	pods[0].attach()
	index, programs := int32(pods[0].link().Attrs().Index), 0
	for {
		messages, _, err := socket.Receive()
		must(t, err)
		for _, m := range messages {
			if len(m.Data) < unix.SizeofIfInfomsg || int32(binary.NativeEndian.Uint32(m.Data[4:])) != index {
				continue
			}
			switch {
			case m.Header.Type == unix.RTM_NEWTFILTER:
				programs++
			case m.Header.Type == unix.RTM_NEWLINK && binary.NativeEndian.Uint32(m.Data[8:])&unix.IFF_UP != 0:
				if programs != 2 {
					t.Errorf("%d programs were attached when it was set up, want 2", programs)
				}
				return
			}
		}
	}
}

// A pod that has lost its address meanwhile gets no interface.
func TestNoInterfaceWithoutPort(t *testing.T) {
	t.Parallel()
	n, pods := onBlue(t, "a")
	newer := pods[0].record()
	newer.Name, newer.UID, newer.Created = "newer", "u-newer", time.Now()
	n.event(func() { n.node.SetPod(newer) })
	if _, err := n.add(pods[0]); err == nil || pods[0].link() != nil {
		t.Errorf("got %v, and interface %v", err, pods[0].link())
	}
	n.expect("")
}

// Many pods are attached at once.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	n, pods := onBlue(t, "a", "b", "c", "d", "e", "f", "g", "h")
	var all sync.WaitGroup
	for _, p := range pods {
		all.Go(func() { p.attach() })
	}
	all.Wait()
	for i, p := range pods {
		next := pods[(i+1)%len(pods)]
		p.reaches(next.ip, next.name)
	}
	n.sync()
}

// Add refuses, and leaves neither an interface nor an entry.
func TestAddRefuses(t *testing.T) {
	t.Parallel()
	const later, refused = cni.CodeTryAgainLater, cni.CodeRefused
	for _, tt := range []struct {
		name   string
		change func(*labNode, *labPod, *cni.Attachment)
		code   uint
		text   string
	}{
		{"a pod that is not known", func(_ *labNode, _ *labPod, r *cni.Attachment) { r.Pod.Name = "other" }, later, "has no published addresses"},
		{"another UID", func(_ *labNode, _ *labPod, r *cni.Attachment) { r.Pod.UID = "u-old" }, later, "was recreated"},
		{"a pod of another node", func(n *labNode, p *labPod, _ *cni.Attachment) {
			record := p.record()
			record.Node = "node2"
			n.event(func() { n.node.SetPod(record) })
		}, refused, "is on node node2, not on node1"},
		{"a Network that the pod is not on", func(_ *labNode, _ *labPod, r *cni.Attachment) { r.Network = "default.green" }, refused, "has no address on Network green"},
		{"a Network that is not known", func(n *labNode, _ *labPod, _ *cni.Attachment) {
			n.event(func() { n.node.DeleteNetwork("default", "blue") })
		}, later, "does not exist"},
		{"a namespace of another", func(_ *labNode, _ *labPod, r *cni.Attachment) { r.Network = "other.blue" }, refused, "only Networks of its own namespace"},
		{"an address of a newer pod", func(n *labNode, p *labPod, _ *cni.Attachment) {
			newer := p.record()
			newer.Name, newer.UID, newer.Created = "newer", "u-newer", time.Now()
			n.event(func() { n.node.SetPod(newer) })
		}, later, "has lost the address"},
		{"no sync yet", func(n *labNode, _ *labPod, _ *cni.Attachment) {
			n.stop()
			n.start()
			n.tell()
		}, later, "has not programmed the data plane yet"},
		{"a node that is blocked", func(n *labNode, _ *labPod, _ *cni.Attachment) {
			n.stop()
			n.start()
			n.node.Block(errors.New("drain the node"))
		}, later, "drain the node"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			n, pods := onBlue(t, "a")
			request := pods[0].attachment()
			tt.change(n, pods[0], &request)
			before := n.entries()
			_, err := n.addAs(pods[0], request)
			var refusal *cni.Error
			if !errors.As(err, &refusal) || refusal.Code != tt.code || !strings.Contains(refusal.Error(), tt.text) {
				t.Errorf("got %v, want code %d and %q", err, tt.code, tt.text)
			}
			if after := n.entries(); n.link(request.HostInterface()) != nil || after != before {
				t.Errorf("it left an interface %v or entries:\n%s", n.link(request.HostInterface()), after)
			}
		})
	}
}

// Add waits a while for a pod that the agent does not know yet.
func TestAddWaitsForThePod(t *testing.T) {
	t.Parallel()
	n, pods := onBlue(t, "a")
	n.lose(pods[0])
	n.node.Patience = patience
	done := make(chan error)
	go func() {
		_, err := n.add(pods[0])
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	n.tellPod(pods[0])
	must(t, <-done)
}

// Add ends with the request, before its patience ends.
func TestAddEndsWithItsRequest(t *testing.T) {
	t.Parallel()
	n, pods := onBlue(t, "a")
	n.lose(pods[0])
	n.node.Patience = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	ns := pods[0].file()
	defer ns.Close()
	if _, err := n.node.Add(ctx, pods[0].attachment(), ns); err == nil {
		t.Error("it succeeded")
	}
}

// file of the pod's network namespace.
func (p *labPod) file() *os.File {
	p.Helper()
	ns, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", p.namespaces[p.name]))
	must(p, err)
	return ns
}

// A container has one interface on each Network: two would have the same address.
func TestOneInterfaceOnANetwork(t *testing.T) {
	t.Parallel()
	n, pods := onBlue(t, "a")
	pods[0].attach()
	second := pods[0].attachment()
	second.Interface = "net2"
	_, err := n.addAs(pods[0], second)
	if want := "has net1 on Network default.blue already"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
	n.expect("place 192.168.0.2: a\nport a: 192.168.0.2\n")
}

// A pod may have a new sandbox while the old one still exists. The new one gets the packets.
func TestNewSandbox(t *testing.T) {
	t.Parallel()
	n, pods := onBlue(t, "a", "b")
	pods[1].attach()
	old := pods[0].attachment()
	old.ContainerID = "c-earlier"
	n.namespace("earlier")
	sandbox := &labPod{lab: n.lab, on: n, name: "earlier", network: pods[0].network}
	_, err := n.addAs(sandbox, old)
	must(t, err)
	pods[0].attach()
	pods[1].reaches(pods[0].ip, "a")
	n.del(old)
	pods[1].reaches(pods[0].ip, "a")
}
