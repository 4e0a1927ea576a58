package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	"github.com/pod2/pod2/pkg/network/history"
	"github.com/pod2/pod2/pkg/reconcile"
)

// historyFlags are the flags of `kubectl pod2 addresses` about earlier holders.
type historyFlags struct {
	on bool
	at string
}

func (f *historyFlags) add(flags *pflag.FlagSet) {
	flags.BoolVar(&f.on, "history", f.on, "List the earlier holders of the addresses of a NETWORK too. Cannot be combined with --map.")
	flags.StringVar(&f.at, "at", f.at, "With --history, list only the holders at this time: an RFC 3339 time such as 2026-01-31T10:00:00Z, or a duration ago such as 1h.")
}

// refuse returns an error if the flags and arguments do not belong together.
func (f *historyFlags) refuse(args []string, asMap bool) error {
	switch {
	case f.on && len(args) == 0:
		return errors.New("--history requires a NETWORK")
	case f.on && asMap:
		return errors.New("--history and --map cannot be combined: leave one out")
	case !f.on && f.at != "":
		return errors.New("--at requires --history")
	case !f.on && len(args) > 1:
		return errors.New("ADDRESS and POD require --history")
	}
	return nil
}

// time returns the time in --at. It is zero without the flag.
func (f *historyFlags) time(now time.Time) (time.Time, error) {
	if f.at == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(f.at); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, f.at)
	if err != nil {
		return at, fmt.Errorf("--at %q is neither an RFC 3339 time such as 2026-01-31T10:00:00Z nor a duration such as 1h", f.at)
	}
	return at, nil
}

// listHistory lists the holders of the addresses of a Network, the earlier ones first.
func (s *session) listHistory(ctx context.Context, t *tool, flags *genericclioptions.PrintFlags, args []string, blocks []*v1.AddressBlock, f historyFlags) error {
	at, err := f.time(s.now())
	if err != nil {
		return err
	}
	n, err := s.network(ctx, args[0])
	if err != nil {
		return err
	}
	histories, err := reconcile.List[*v1.AddressHistory](ctx, "AddressHistories of "+scope(s.namespace), s.Sample.SamplecrdV1().AddressHistories(s.namespace), v1.NetworkLabel+"="+n.Name)
	if err != nil {
		return err
	}
	if *flags.OutputFormat != "" {
		return printAll(t, flags, history.Sorted(n, histories))
	}
	reading := history.Read(n, histories, blocks, s.now())
	if len(args) > 1 {
		who := args[1]
		if address, err := netip.ParseAddr(who); err == nil {
			who = address.String() // records have the canonical form
		}
		reading = reading.Of(who)
	}
	if !at.IsZero() {
		reading = reading.At(at)
	}
	switch {
	case reading.Since.IsZero():
		fmt.Fprintf(s.ErrOut, "Network %s/%s has no history yet: earlier holders are not known.\n", s.namespace, n.Name)
	case at.IsZero() || at.Before(reading.Since):
		fmt.Fprintf(s.ErrOut, "The history begins at %s: earlier holders are not known.\n", stamp(reading.Since))
	}
	if len(reading.Records) == 0 {
		fmt.Fprintln(s.ErrOut, "No records match.")
		return nil
	}
	w := printers.GetNewTabWriter(s.Out)
	fmt.Fprintln(w, "ADDRESS\tPOD\tOWNER\tNODE\tFROM\tUNTIL\tPOD-UID")
	for _, r := range reading.Records {
		from, until := "?", "now"
		if r.From != nil {
			from = stamp(r.From.Time)
		}
		if !r.Until.IsZero() {
			until = stamp(r.Until.Time)
		}
		if r.Gap {
			fmt.Fprintf(w, "gap\t-\t-\t-\t%s\t%s\t-\n", from, until)
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Address, r.Pod, ownerText(r.Owner), orNone(r.Node), from, until, orNone(string(r.PodUID)))
	}
	return w.Flush()
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func orNone(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
