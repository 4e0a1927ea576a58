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
	asMap := false
	cmd := &cobra.Command{
		Use: "addresses [NETWORK]", Args: usage(cobra.MaximumNArgs(1)),
		Short: "Show who holds which address, also those reserved and resting, in address order",
		Long: "Show who holds which address, also those reserved and resting, in address order: of one Network, or of all in the namespace.\n\n" +
			"FREE-IN says how long a resting address still waits before another pod may get it.\n\n" +
			"With -o json, yaml or name it prints the AddressBlocks, the ledger itself.",
	}
	flags := newPrintFlags(cmd)
	cmd.Flags().BoolVar(&asMap, "map", asMap, "Draw every AddressBlock of each Network, one character an address. Cannot be combined with -o.")
	cmd.ValidArgsFunction = t.completeNetworks
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if asMap && *flags.OutputFormat != "" {
			return errors.New("--map draws text and cannot be combined with -o: leave one of them out")
		}
		c, namespace, err := t.start()
		if err != nil {
			return err
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
				fmt.Fprintf(t.ErrOut, "No address of Network %s/%s is held.\n", namespace, only)
			} else {
				fmt.Fprintf(t.ErrOut, "No address is held in namespace %s.\n", namespace)
			}
			return nil
		}
		return t.listAddresses(cmd.Context(), c, namespace, blocks)
	}
	return cmd
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

// blocks are those of a Network, or with "" of all, in the order of names of the
// Networks and of addresses. A Network that is nowhere is an error.
func (c clients) blocks(ctx context.Context, namespace, only string) ([]*v1.AddressBlock, error) {
	list, err := c.sample.SamplecrdV1().AddressBlocks(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the AddressBlocks of namespace %s: %w", namespace, err)
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
		return cmp.Or(cmp.Compare(a.Spec.Network, b.Spec.Network), first.Addr().Compare(second.Addr()), cmp.Compare(a.Name, b.Name))
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

// networks are those of the names that exist, in the order of the names.
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
	var names []string // of Networks with resting addresses: only their delay matters
	for _, block := range blocks {
		if slices.ContainsFunc(block.Spec.Entries, resting) {
			names = append(names, block.Spec.Network)
		}
	}
	networks, err := c.networks(ctx, namespace, names)
	if err != nil {
		return err
	}
	w := printers.GetNewTabWriter(t.Out)
	fmt.Fprintln(w, "NETWORK\tADDRESS\tSTATE\tPOD\tOWNER\tSINCE\tFREE-IN")
	for _, block := range blocks {
		for _, e := range entries(block) {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", block.Spec.Network, e.Address, e.State, e.Pod, ownerText(e.Owner),
				duration.HumanDuration(t.now().Sub(e.Since.Time)), t.freeIn(e, block, networks))
		}
	}
	return w.Flush()
}

func resting(e v1.AddressEntry) bool { return e.State == v1.AddressResting }

// freeIn says how long a resting address goes on resting, and "-" of any other. Those
// of a Network that is deleted do not wait.
func (t *tool) freeIn(e v1.AddressEntry, block *v1.AddressBlock, networks []*v1.Network) string {
	if !resting(e) {
		return "-"
	}
	left := time.Duration(0)
	for _, n := range networks {
		if n.Name == block.Spec.Network && n.UID == block.Spec.NetworkUID && n.DeletionTimestamp == nil {
			left = e.Since.Add(network.ReuseDelay(n)).Sub(t.now())
		}
	}
	if left <= 0 {
		return "now"
	}
	return duration.HumanDuration(left)
}

// entries of a block in address order, which the controller keeps, and a hand may
// not have kept.
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
