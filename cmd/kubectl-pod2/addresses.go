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
)

func newAddresses(t *tool) *cobra.Command {
	asMap, everywhere := false, false
	cmd := &cobra.Command{
		Use: "addresses [NETWORK]", Args: usage(cobra.MaximumNArgs(1)),
		Short: "List addresses in address order, and the pods that hold them",
		Long: "List addresses in address order, and the pods that hold them. The list includes Reserved and Resting addresses. It is of " +
			"one Network, of all Networks in the namespace, or of all namespaces.\n\n" +
			"FREE-IN is the time until another pod can get a Resting address.\n\n" +
			"With -o json, yaml or name, the command prints the AddressBlocks, which record the addresses.",
		Example: examples(`
# List the addresses of all Networks in the namespace
kubectl pod2 addresses

# List the addresses of Network blue
kubectl pod2 addresses blue

# List the addresses of all namespaces
kubectl pod2 addresses --all-namespaces

# Draw a map of Network blue
kubectl pod2 addresses blue --map`),
	}
	flags := newPrintFlags(cmd)
	cmd.Flags().BoolVar(&asMap, "map", asMap, "Draw every AddressBlock of each Network, with one character for each address. Cannot be combined with -o.")
	cmd.Flags().BoolVarP(&everywhere, "all-namespaces", "A", everywhere, "List the addresses of all namespaces. Cannot be combined with a NETWORK.")
	cmd.ValidArgsFunction = t.completeNetworks
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if asMap && *flags.OutputFormat != "" {
			return errors.New("--map and -o cannot be combined: leave one out")
		}
		if everywhere && len(args) > 0 {
			return errors.New("NETWORK and --all-namespaces cannot be combined: name the namespace of the Network with -n")
		}
		c, namespace, err := t.start()
		if err != nil {
			return err
		}
		if everywhere {
			namespace = metav1.NamespaceAll
		}
		only := ""
		if len(args) > 0 {
			only = args[0]
		}
		blocks, err := c.blocks(cmd.Context(), namespace, only)
		if err != nil {
			return err
		}
		switch {
		case *flags.OutputFormat != "":
			return printAll(t, flags, blocks)
		case asMap:
			return t.drawNetworks(cmd.Context(), c, namespace, only, blocks)
		case !slices.ContainsFunc(blocks, func(b *v1.AddressBlock) bool { return len(b.Spec.Entries) > 0 }):
			if only != "" {
				fmt.Fprintf(t.ErrOut, "No addresses of Network %s/%s are in use.\n", namespace, only)
			} else {
				fmt.Fprintf(t.ErrOut, "No addresses are in use %s.\n", within(namespace))
			}
			return nil
		}
		return t.listAddresses(cmd.Context(), c, namespace, blocks)
	}
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

func (t *tool) completeNetworks(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	c, namespace, err := t.start()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, err := c.sample.SamplecrdV1().Networks(namespace).List(cmd.Context(), metav1.ListOptions{})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := make([]string, 0, len(list.Items))
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// blocks are the AddressBlocks of a Network, or of all if only is empty. They are in the
// order of namespaces, names of Networks and addresses. If the Network does not exist and
// has no AddressBlock, it is an error. An empty namespace means all namespaces.
func (c clients) blocks(ctx context.Context, namespace, only string) ([]*v1.AddressBlock, error) {
	list, err := c.sample.SamplecrdV1().AddressBlocks(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the AddressBlocks of %s: %w", scope(namespace), err)
	}
	var blocks []*v1.AddressBlock
	for i := range list.Items {
		if only == "" || list.Items[i].Spec.Network == only {
			blocks = append(blocks, &list.Items[i])
		}
	}
	if only != "" && len(blocks) == 0 {
		if _, err := c.network(ctx, namespace, only); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(blocks, func(a, b *v1.AddressBlock) int {
		first, _ := netip.ParsePrefix(a.Spec.CIDR)
		second, _ := netip.ParsePrefix(b.Spec.CIDR)
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Spec.Network, b.Spec.Network), first.Addr().Compare(second.Addr()), cmp.Compare(a.Name, b.Name))
	})
	return blocks, nil
}

func (c clients) network(ctx context.Context, namespace, name string) (*v1.Network, error) {
	n, err := c.sample.SamplecrdV1().Networks(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("get Network %s/%s: %w", namespace, name, err)
	}
	return n, nil
}

// networks are the existing Networks with these names, in the order of the names.
func (c clients) networks(ctx context.Context, namespace string, names []string) ([]*v1.Network, error) {
	var found []*v1.Network
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		n, err := c.network(ctx, namespace, name)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, err
		default:
			found = append(found, n)
		}
	}
	return found, nil
}

func (t *tool) listAddresses(ctx context.Context, c clients, namespace string, blocks []*v1.AddressBlock) error {
	networks, err := c.networksOfResting(ctx, namespace, blocks)
	if err != nil {
		return err
	}
	everywhere := namespace == metav1.NamespaceAll
	w := printers.GetNewTabWriter(t.Out)
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
				duration.HumanDuration(t.now().Sub(e.Since.Time)), t.freeIn(e, block, networks))
		}
	}
	return w.Flush()
}

// networksOfResting are the Networks that have Resting addresses, whose delays the list
// needs. For all namespaces it makes one call for all Networks.
func (c clients) networksOfResting(ctx context.Context, namespace string, blocks []*v1.AddressBlock) ([]*v1.Network, error) {
	var names []string
	for _, block := range blocks {
		if slices.ContainsFunc(block.Spec.Entries, resting) {
			names = append(names, block.Spec.Network)
		}
	}
	if namespace != metav1.NamespaceAll || len(names) == 0 {
		return c.networks(ctx, namespace, names)
	}
	list, err := c.sample.SamplecrdV1().Networks(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the Networks of %s: %w", scope(namespace), err)
	}
	var all []*v1.Network
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all, nil
}

func resting(e v1.AddressEntry) bool { return e.State == v1.AddressResting }

// freeIn is the time for which an address still rests, or "-" if it does not rest.
// Addresses of a deleted Network do not wait.
func (t *tool) freeIn(e v1.AddressEntry, block *v1.AddressBlock, networks []*v1.Network) string {
	if !resting(e) {
		return "-"
	}
	left := time.Duration(0)
	for _, n := range networks {
		if n.Namespace == block.Namespace && n.Name == block.Spec.Network && n.UID == block.Spec.NetworkUID && n.DeletionTimestamp == nil {
			left = e.Since.Add(network.ReuseDelay(n)).Sub(t.now())
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
