package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/attachment"
	"github.com/pod2/pod2/pkg/network"
	"github.com/pod2/pod2/pkg/reconcile"
)

// maxReleased keeps a request far below the limit for an object's annotations, 256 KiB.
const maxReleased = 500

func newRelease(t *tool) *cobra.Command {
	all := false
	cmd := &cobra.Command{
		Use: "release NETWORK (ADDRESS... | --all)", Args: usage(cobra.MinimumNArgs(1)),
		Short: "Release addresses that are reserved for scaled-down replicas",
		Long: "Release addresses that are reserved for scaled-down replicas.\n\n" +
			"The command sets an annotation of the Network, which the controller reads. So you need the right to patch Networks. " +
			"An address is free once it has been reserved for the Network's reuseDelaySeconds.\n\n" +
			"An address stays reserved if its owner still has the replica, if the pod exists, or if it has been reserved again meanwhile.",
		Example: examples(`
# Release two addresses of Network blue
kubectl pod2 release blue 10.0.0.9 10.0.0.10

# Release all addresses of scaled-down replicas
kubectl pod2 release blue --all`),
	}
	flags := newPrintFlags(cmd)
	cmd.Flags().BoolVar(&all, "all", all, "Release every address that can be released.")
	cmd.ValidArgsFunction = completing(t, (*session).networks)
	cmd.RunE = t.connected(func(ctx context.Context, s *session, args []string) error {
		if all == (len(args) > 1) {
			return errors.New("must specify either ADDRESS... or --all")
		}
		n, err := s.network(ctx, args[0])
		if err != nil {
			return err
		}
		addresses, err := readAddresses(args[1:])
		if err != nil {
			return err
		}
		releasable, kept, err := s.releasable(ctx, n, addresses)
		if err != nil {
			return err
		}
		switch left := len(releasable) - maxReleased; {
		case len(kept) > 0 && !all:
			return fmt.Errorf("release addresses of Network %s/%s: %s", n.Namespace, n.Name, strings.Join(kept, "; "))
		case len(releasable) == 0:
			fmt.Fprintf(t.ErrOut, "Network %s/%s has no address to release.\n", n.Namespace, n.Name)
			return nil
		case left > 0:
			releasable = releasable[:maxReleased]
			defer fmt.Fprintf(t.ErrOut, "%d more can be released: run the command again.\n", left)
		}
		err = retry.RetryOnConflict(retry.DefaultBackoff, func() error { // the controller often writes the status
			if n, err = s.network(ctx, args[0]); err == nil {
				n, err = s.askRelease(ctx, n, releasable)
			}
			return err
		})
		if err != nil {
			return err
		}
		return t.print(flags, n, fmt.Sprintf("release of %s requested", counted(len(releasable), "address", "addresses")))
	})
	return cmd
}

// counted is a number with its noun.
func counted[N int | int64](n N, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n, " ", more)
}

// readAddresses returns them in the form that AddressBlocks have.
func readAddresses(args []string) ([]string, error) {
	var addresses []string
	for _, arg := range args {
		address, err := netip.ParseAddr(arg)
		if err != nil {
			return nil, fmt.Errorf("parse the address to release: %w", err)
		}
		addresses = append(addresses, address.String())
	}
	return addresses, nil
}

// releasable returns the entries of the Network whose reservations may end, in address
// order. It considers only the given addresses, or all entries if none is given. For each
// other entry it returns the reason why it is kept.
func (s *session) releasable(ctx context.Context, n *v1.Network, addresses []string) (releasable []v1.AddressEntry, kept []string, err error) {
	blocks, err := s.blocks(ctx, n.Name)
	if err != nil {
		return nil, nil, err
	}
	pods, err := reconcile.List[*corev1.Pod](ctx, "pods of namespace "+n.Namespace, s.Kube.CoreV1().Pods(n.Namespace), "")
	if err != nil {
		return nil, nil, err
	}
	live := map[string]bool{}
	for _, pod := range pods {
		live[pod.Name] = !attachment.Over(pod)
	}
	owners, found := map[v1.AddressOwner]network.Replicas{}, map[string]bool{}
	for _, block := range blocks {
		for _, e := range entries(block) {
			if len(addresses) > 0 && !slices.Contains(addresses, e.Address) {
				continue
			}
			found[e.Address] = true
			if _, known := owners[e.Owner]; !known && e.State == v1.AddressReserved {
				if owners[e.Owner], err = reconcile.ReplicasOf(ctx, s.Clients, n.Namespace, e.Owner); err != nil {
					return nil, nil, err
				}
			}
			if why := owners[e.Owner].Releasable(n.Name, e, live[e.Pod]); why != "" {
				kept = append(kept, e.Address+" "+why)
			} else {
				releasable = append(releasable, e)
			}
		}
	}
	for _, address := range addresses {
		if !found[address] {
			kept = append(kept, address+" has no entry in its AddressBlocks")
		}
	}
	return releasable, kept, nil
}

// askRelease adds the entries to the requested ones that have not changed since.
func (s *session) askRelease(ctx context.Context, n *v1.Network, asked []v1.AddressEntry) (*v1.Network, error) {
	blocks, err := s.blocks(ctx, n.Name)
	if err != nil {
		return nil, err
	}
	var stand []v1.AddressEntry
	for _, block := range blocks {
		stand = append(stand, entries(block)...)
	}
	for _, before := range network.AskedToRelease(n) {
		same := func(e v1.AddressEntry) bool { return equality.Semantic.DeepEqual(e, before) }
		if slices.ContainsFunc(stand, same) && !slices.ContainsFunc(asked, same) {
			asked = append(asked, before)
		}
	}
	request, err := json.Marshal(asked)
	if err != nil {
		return nil, err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": n.UID, "resourceVersion": n.ResourceVersion, "annotations": map[string]string{v1.ReleaseAnnotation: string(request)},
	}})
	if err != nil {
		return nil, err
	}
	patched, err := s.Sample.SamplecrdV1().Networks(n.Namespace).Patch(ctx, n.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil && !apierrors.IsConflict(err) { // RetryOnConflict does not unwrap errors
		err = fmt.Errorf("set the annotation %s of Network %s/%s: %w", v1.ReleaseAnnotation, n.Namespace, n.Name, err)
	}
	return patched, err
}
