package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/network"
	"github.com/pod2/pod2/pkg/reconcile"
)

func newAddresses(t *tool) *cobra.Command {
	asMap, everywhere, earlier := false, false, historyFlags{}
	cmd := &cobra.Command{
		Use: "addresses [NETWORK] [ADDRESS|POD]", Args: usage(cobra.MaximumNArgs(2)),
		Short: "List addresses in address order, and the pods that hold them",
		Long: "List addresses in address order, and the pods that hold them. The list includes Reserved and Resting addresses. It is of " +
			"one Network, of all Networks in the namespace, or of all namespaces.\n\n" +
			"FREE-IN is the time until another pod can get a Resting address.\n\n" +
			"With -o json, yaml or name, the command prints the AddressBlocks, which record the addresses.\n\n" +
			"With --history, the list has the earlier holders too, from the AddressHistories of the Network. An ADDRESS or a POD selects " +
			"its records. FROM is \"?\" if the controller did not see the pod get the address. In a gap, records may be missing. With -o, " +
			"--history prints the AddressHistories.",
		Example: examples(`
# List the addresses of all Networks in the namespace
kubectl pod2 addresses

# Draw a map of Network blue
kubectl pod2 addresses blue --map

# List the earlier and current holders of an address
kubectl pod2 addresses blue --history 10.1.0.2

# List the holders of all addresses an hour ago
kubectl pod2 addresses blue --history --at 1h`),
	}
	flags := newPrintFlags(cmd)
	cmd.Flags().BoolVar(&asMap, "map", asMap, "Draw every AddressBlock of each Network, with one character for each address. Cannot be combined with -o.")
	cmd.Flags().BoolVarP(&everywhere, "all-namespaces", "A", everywhere, "List the addresses of all namespaces. Cannot be combined with a NETWORK.")
	earlier.add(cmd.Flags())
	cmd.ValidArgsFunction = completing(t, (*session).networks)
	cmd.RunE = t.connected(func(ctx context.Context, s *session, args []string) error {
		if asMap && *flags.OutputFormat != "" {
			return errors.New("--map and -o cannot be combined: leave one out")
		}
		if why := earlier.refuse(args, asMap); why != nil {
			return why
		}
		if everywhere && len(args) > 0 {
			return errors.New("NETWORK and --all-namespaces cannot be combined: name the namespace of the Network with -n")
		}
		if everywhere {
			s.namespace = metav1.NamespaceAll
		}
		only := ""
		if len(args) > 0 {
			only = args[0]
		}
		blocks, err := s.blocks(ctx, only)
		if err != nil {
			return err
		}
		switch {
		case earlier.on:
			return s.listHistory(ctx, t, flags, args, blocks, earlier)
		case *flags.OutputFormat != "":
			return printAll(t, flags, blocks)
		case asMap:
			return s.drawNetworks(ctx, only, blocks)
		case slices.ContainsFunc(blocks, func(b *v1.AddressBlock) bool { return len(b.Spec.Entries) > 0 }):
			return s.listAddresses(ctx, blocks)
		case only != "":
			fmt.Fprintf(t.ErrOut, "No addresses of Network %s/%s are in use.\n", s.namespace, only)
		default:
			fmt.Fprintf(t.ErrOut, "No addresses are in use %s.\n", within(s.namespace))
		}
		return nil
	})
	return cmd
}

// scope is the namespace in words. An empty one means all namespaces.
func scope(namespace string) string {
	if namespace == metav1.NamespaceAll {
		return "all namespaces"
	}
	return "namespace " + namespace
}

func within(namespace string) string {
	if namespace == metav1.NamespaceAll {
		return "in any namespace"
	}
	return "in namespace " + namespace
}

// blocks are the AddressBlocks of a Network, or of all if only is empty. They are in the
// order of namespaces, names of Networks and addresses. If the Network does not exist and
// has no AddressBlock, it is an error.
func (s *session) blocks(ctx context.Context, only string) ([]*v1.AddressBlock, error) {
	blocks, err := reconcile.List[*v1.AddressBlock](ctx, "AddressBlocks of "+scope(s.namespace), s.Sample.SamplecrdV1().AddressBlocks(s.namespace), "")
	if err != nil {
		return nil, err
	}
	if only != "" {
		blocks = slices.DeleteFunc(blocks, func(b *v1.AddressBlock) bool { return b.Spec.Network != only })
		if len(blocks) == 0 {
			_, err = s.network(ctx, only)
		}
	}
	slices.SortFunc(blocks, func(a, b *v1.AddressBlock) int {
		first, _ := netip.ParsePrefix(a.Spec.CIDR)
		second, _ := netip.ParsePrefix(b.Spec.CIDR)
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Spec.Network, b.Spec.Network), first.Addr().Compare(second.Addr()), cmp.Compare(a.Name, b.Name))
	})
	return blocks, err
}

func (s *session) network(ctx context.Context, name string) (*v1.Network, error) {
	return reconcile.Get(ctx, "Network", s.Sample.SamplecrdV1().Networks(s.namespace), s.namespace, name)
}

func (s *session) networks(ctx context.Context) ([]*v1.Network, error) {
	return reconcile.List[*v1.Network](ctx, "Networks of "+scope(s.namespace), s.Sample.SamplecrdV1().Networks(s.namespace), "")
}

func (s *session) listAddresses(ctx context.Context, blocks []*v1.AddressBlock) error {
	networks, err := s.networksOfResting(ctx, blocks)
	if err != nil {
		return err
	}
	everywhere := s.namespace == metav1.NamespaceAll
	w := printers.GetNewTabWriter(s.Out)
	if everywhere {
		fmt.Fprint(w, "NAMESPACE\t")
	}
	fmt.Fprintln(w, "NETWORK\tADDRESS\tSTATE\tPOD\tOWNER\tSINCE\tFREE-IN")
	for _, block := range blocks {
		for _, e := range entries(block) {
			if everywhere {
				fmt.Fprintf(w, "%s\t", block.Namespace)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", block.Spec.Network, e.Address, e.State, e.Pod, ownerText(e.Owner),
				duration.HumanDuration(s.now().Sub(e.Since.Time)), s.freeIn(e, block, networks))
		}
	}
	return w.Flush()
}

// networksOfResting are the existing Networks that have Resting addresses, whose delays the
// list needs. For all namespaces it makes one call for all Networks.
func (s *session) networksOfResting(ctx context.Context, blocks []*v1.AddressBlock) ([]*v1.Network, error) {
	var found []*v1.Network
	last := ""
	for _, block := range blocks { // those of one Network follow each other
		name := block.Spec.Network
		if name == last || !slices.ContainsFunc(block.Spec.Entries, resting) {
			continue
		}
		if s.namespace == metav1.NamespaceAll {
			return s.networks(ctx)
		}
		last = name
		n, err := s.network(ctx, name)
		if err == nil {
			found = append(found, n)
		} else if !apierrors.IsNotFound(err) {
			return nil, err
		}
	}
	return found, nil
}

func resting(e v1.AddressEntry) bool { return e.State == v1.AddressResting }

// freeIn is the time for which an address still rests, or "-" if it does not rest.
// Addresses of a deleted Network do not wait.
func (s *session) freeIn(e v1.AddressEntry, block *v1.AddressBlock, networks []*v1.Network) string {
	if !resting(e) {
		return "-"
	}
	left := time.Duration(0)
	for _, n := range networks {
		if n.Namespace == block.Namespace && n.Name == block.Spec.Network && n.UID == block.Spec.NetworkUID && n.DeletionTimestamp == nil {
			left = e.Since.Add(network.ReuseDelay(n)).Sub(s.now())
		}
	}
	if left <= 0 {
		return "now"
	}
	return duration.HumanDuration(left)
}

// entries of an AddressBlock in address order. The controller keeps this order, but a user
// who edits the AddressBlock may not.
func entries(block *v1.AddressBlock) []v1.AddressEntry {
	return slices.SortedStableFunc(slices.Values(block.Spec.Entries), func(a, b v1.AddressEntry) int {
		first, _ := netip.ParseAddr(a.Address)
		second, _ := netip.ParseAddr(b.Address)
		return first.Compare(second)
	})
}

func ownerText(o v1.AddressOwner) string {
	if o.Kind == "" {
		return "<none>"
	}
	return o.Kind + "/" + o.Name
}
