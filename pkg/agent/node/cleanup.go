//go:build linux

package node

import (
	"errors"
	"fmt"
	"io"

	"github.com/vishvananda/netlink"

	"github.com/pod2/pod2/pkg/agent/bpf"
	"github.com/pod2/pod2/pkg/agent/cni"
	"github.com/pod2/pod2/pkg/agent/dataplane"
	"github.com/pod2/pod2/pkg/agent/iface"
)

// CleanUp removes the programs from the interfaces that lead to other nodes, the VXLAN device and the pinned
// maps. Pods keep their interfaces with programs, which go with them. It writes a line for each thing to out.
func CleanUp(directory string, out io.Writer) error {
	links, err := iface.List()
	if err != nil {
		return err
	}
	var errs []error
	for _, l := range links {
		switch is := l.Attrs(); {
		case is.Name == VXLANName:
			fmt.Fprintln(out, "remove the VXLAN device", is.Name)
			errs = append(errs, netlink.LinkDel(l))
		case !cni.IsHostInterface(is.Name) && is.Name != dataplane.GatewayName && is.Name != dataplane.GatewayPeer:
			detached, err := bpf.Detach(is.Index)
			if errs = append(errs, err); detached {
				fmt.Fprintln(out, "remove the programs from", is.Name)
			}
		}
	}
	removed, err := bpf.Unpin(directory)
	for _, thing := range removed {
		fmt.Fprintln(out, "remove", thing)
	}
	return errors.Join(append(errs, err)...)
}
