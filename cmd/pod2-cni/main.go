//go:build linux

// Command pod2-cni is the CNI plugin for Overlay Networks. It asks pod2-agent to attach a pod, and
// decides nothing itself.
//
// The container runtime calls it as the CNI specification says. The DaemonSet of pod2-agent calls
//
//	pod2-cni install --to DIR       copy this binary to DIR, a directory of CNI plugins on the node
//	pod2-cni uninstall --from DIR   remove it, unless pods use it
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/pod2/pod2/pkg/agent/cni"
)

const (
	// attachLimit is longer than the agent takes at most, and shorter than the kubelet waits.
	attachLimit = 40 * time.Second
	// limit of the other commands.
	limit = 10 * time.Second
)

func main() {
	if len(os.Args) > 1 {
		if err := command(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "pod2-cni:", err)
			os.Exit(1)
		}
		return
	}
	// CHECK exists since 0.4.0, STATUS and GC since 1.1.0.
	skel.PluginMainFuncs(skel.CNIFuncs{Add: add, Del: del, Check: check, Status: status, GC: gc},
		version.PluginSupports("0.4.0", "1.0.0", "1.1.0"), "CNI plugin pod2-cni: install it with pod2-cni install --to DIR")
}

// config is the plugin's part of a network configuration.
type config struct {
	types.PluginConf

	// Socket of the agent.
	Socket string `json:"socket"`
	// RuntimeConfig has the addresses. Only ADD and CHECK read it: DEL must not fail because of it.
	RuntimeConfig json.RawMessage `json:"runtimeConfig"`
}

// addresses that the runtime asks for.
type addresses struct {
	IPs []netip.Prefix `json:"ips"`
	MAC string         `json:"mac"`
}

func read(args *skel.CmdArgs) (config, cni.Client, error) {
	c := config{Socket: cni.DefaultSocket}
	if err := json.Unmarshal(args.StdinData, &c); err != nil {
		return c, cni.Client{}, types.NewError(types.ErrDecodingFailure, "pod2-cni cannot read the network configuration: "+err.Error(), "")
	}
	return c, cni.Client{Socket: c.Socket}, nil
}

// attachment that the runtime asks for.
func attachment(args *skel.CmdArgs, c config) cni.Attachment {
	a := cni.Attachment{ID: cni.ID{ContainerID: args.ContainerID, Interface: args.IfName}, Network: c.Name}
	for _, arg := range strings.Split(args.Args, ";") {
		key, value, _ := strings.Cut(arg, "=")
		switch key {
		case "K8S_POD_NAMESPACE":
			a.Pod.Namespace = value
		case "K8S_POD_NAME":
			a.Pod.Name = value
		case "K8S_POD_UID":
			a.Pod.UID = value
		}
	}
	return a
}

// attach asks the agent with the pod's network namespace.
func attach(args *skel.CmdArgs, ask func(cni.Client, context.Context, cni.Attachment, *os.File) (cni.Result, error)) (config, *types100.Result, error) {
	c, client, err := read(args)
	if err != nil {
		return c, nil, err
	}
	var asked addresses
	if len(c.RuntimeConfig) > 0 {
		if err := json.Unmarshal(c.RuntimeConfig, &asked); err != nil {
			return c, nil, types.NewError(types.ErrDecodingFailure, "pod2-cni cannot read runtimeConfig in the network configuration: "+err.Error(), "")
		}
	}
	netns, err := os.Open(args.Netns)
	if err != nil {
		return c, nil, types.NewError(types.ErrInvalidNetNS, "pod2-cni cannot open the pod's network namespace: "+err.Error(), "")
	}
	defer netns.Close()
	ctx, cancel := context.WithTimeout(context.Background(), attachLimit)
	defer cancel()
	a := attachment(args, c)
	a.IPs, a.MAC = asked.IPs, asked.MAC
	r, err := ask(client, ctx, a, netns)
	if err != nil {
		if errors.Is(err, cni.ErrAway) {
			err = fmt.Errorf("%w: the pod waits until pod2-agent runs on this node", err)
		}
		return c, nil, failure(err, cni.CodeTryAgainLater)
	}
	return c, result(r, args), nil
}

func result(r cni.Result, args *skel.CmdArgs) *types100.Result {
	out := &types100.Result{
		CNIVersion: types100.ImplementedSpecVersion,
		Interfaces: []*types100.Interface{{Name: r.HostInterface}, {Name: args.IfName, Mac: r.MAC, Mtu: r.MTU, Sandbox: args.Netns}},
		IPs:        []*types100.IPConfig{{Interface: types100.Int(1), Address: ipNet(r.Address), Gateway: r.Gateway.AsSlice()}},
	}
	for _, route := range r.Routes {
		out.Routes = append(out.Routes, &types.Route{Dst: ipNet(route.Destination), GW: route.Gateway.AsSlice()})
	}
	return out
}

func ipNet(p netip.Prefix) net.IPNet {
	return net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func add(args *skel.CmdArgs) error {
	c, _, err := read(args)
	if err != nil {
		return err
	}
	if c.RawPrevResult != nil {
		return types.NewError(types.ErrInvalidNetworkConfig, "pod2-cni must be the first plugin of its list: it adds nothing to the result of another one", "")
	}
	c, r, err := attach(args, cni.Client.Add)
	if err != nil {
		return err
	}
	return types.PrintResult(r, c.CNIVersion)
}

// check asks the agent to compare the attachment with the pod, and compares the addresses with those
// that the runtime has.
func check(args *skel.CmdArgs) error {
	c, want, err := attach(args, cni.Client.Check)
	if err != nil {
		return err
	}
	if c.RawPrevResult == nil {
		return types.NewError(types.ErrInvalidNetworkConfig, "CHECK needs a prevResult in the network configuration", "")
	}
	if err := version.ParsePrevResult(&c.PluginConf); err != nil {
		return types.NewError(types.ErrInvalidNetworkConfig, "CHECK needs a readable prevResult in the network configuration", err.Error())
	}
	has, err := types100.NewResultFromResult(c.PrevResult)
	if err != nil {
		return types.NewError(types.ErrInvalidNetworkConfig, "CHECK needs a readable prevResult in the network configuration", err.Error())
	}
	if !slices.ContainsFunc(has.IPs, func(ip *types100.IPConfig) bool { return ip.Address.String() == want.IPs[0].Address.String() }) {
		return types.NewError(cni.CodeRefused, fmt.Sprintf("the pod has the address %s, which the result of ADD does not have: recreate the pod", &want.IPs[0].Address), "")
	}
	return nil
}

func status(args *skel.CmdArgs) error {
	_, client, err := read(args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := client.Status(ctx); err != nil {
		return types.NewError(cni.CodeUnavailable, "pods of Overlay Networks cannot start on this node: "+err.Error(), "")
	}
	return nil
}

// del succeeds while the agent is away, so no pod hangs in Terminating. The kernel removes the pair
// of interfaces with the pod's network namespace, and the agent forgets the port when it starts.
func del(args *skel.CmdArgs) error {
	c, client, err := read(args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return unlessAway(client.Del(ctx, attachment(args, c)))
}

func gc(args *skel.CmdArgs) error {
	c, client, err := read(args)
	if err != nil {
		return err
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(args.StdinData, &keys); err != nil || keys["cni.dev/valid-attachments"] == nil { // an empty list is there
		return types.NewError(types.ErrInvalidNetworkConfig, "GC needs cni.dev/valid-attachments in the network configuration: without it, the attachments of all pods would go", "")
	}
	valid := make([]cni.ID, 0, len(c.ValidAttachments))
	for _, a := range c.ValidAttachments {
		valid = append(valid, cni.ID{ContainerID: a.ContainerID, Interface: a.IfName})
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return unlessAway(client.GC(ctx, c.Name, valid))
}

// unlessAway is nil for an agent that does not answer, or that another release installed.
func unlessAway(err error) error {
	var told *cni.Error
	if errors.Is(err, cni.ErrAway) || errors.As(err, &told) && told.Code == cni.CodeIncompatible {
		return nil
	}
	if err != nil {
		return failure(err, cni.CodeInternal)
	}
	return nil
}

// failure is the error as the runtime shows it, with its own code or the other.
func failure(err error, other uint) *types.Error {
	var told *cni.Error
	if errors.As(err, &told) {
		return types.NewError(told.Code, told.Message, "")
	}
	return types.NewError(other, err.Error(), "")
}
