package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"runtime"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pod2/pod2/internal/dashboard"
	"github.com/pod2/pod2/pkg/pod2"
	"github.com/pod2/pod2/pkg/pod2/dns"
	"github.com/pod2/pod2/pkg/reconcile"
)

func newDashboard(t *tool) *cobra.Command {
	address, open, noOpen, everywhere := "127.0.0.1:0", "", false, false
	cmd := &cobra.Command{
		Use: "dashboard", Args: usage(cobra.NoArgs),
		Short: "Show Networks, addresses and Pod2s in the browser",
		Long: "Show Networks, addresses and Pod2s in the browser.\n\n" +
			"The page is served by this command, on your machine and with your rights, until you press Ctrl-C. It installs nothing in the " +
			"cluster, and only reads. The printed URL is secret: it lets a browser in until the command ends. On a machine with other " +
			"users, use --no-open: they can see the URL in the list of processes while the browser starts.",
		Example: examples(`
# Show the namespace of the kubeconfig
kubectl pod2 dashboard

# Show all namespaces, and print the URL only
kubectl pod2 dashboard --all-namespaces --no-open

# Show an address that a colleague told you of
kubectl pod2 dashboard --open networks/default/blue/10.0.0.20`),
	}
	cmd.Flags().StringVar(&address, "address", address, "Loopback address and port to listen on. Port 0 chooses a free one.")
	cmd.Flags().StringVar(&open, "open", open, "Part of the page to begin with, as the page's button Copy prints it.")
	cmd.Flags().BoolVar(&noOpen, "no-open", noOpen, "Print the URL, and do not open the browser.")
	cmd.Flags().BoolVarP(&everywhere, "all-namespaces", "A", everywhere, "Show all namespaces.")
	show := t.connected(func(ctx context.Context, s *session, _ []string) error {
		if everywhere {
			s.namespace = metav1.NamespaceAll
		}
		current, err := t.config.ToRawKubeConfigLoader().RawConfig()
		if err != nil {
			return fmt.Errorf("read the kubeconfig: %w", err)
		}
		if chosen, err := cmd.Flags().GetString("context"); err == nil && chosen != "" {
			current.CurrentContext = chosen
		}
		return dashboard.Run(ctx, dashboard.Options{
			Clients: s.Clients, Namespace: s.namespace, Context: current.CurrentContext, Address: address, Now: t.now,
			Plan: s.nextStep, History: s.revisions,
		}, func(url string) {
			if open != "" {
				url += fragment(open)
			}
			fmt.Fprintf(t.Out, "The dashboard is at %s\nPress Ctrl-C to end it.\n", url)
			if noOpen {
				return
			}
			if err := openBrowser(ctx, url); err != nil {
				fmt.Fprintf(t.ErrOut, "The browser did not open, so open the URL yourself: %v\n", err)
			}
		})
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		t.wrap = dashboard.ReadOnly
		return show(cmd, args)
	}
	return cmd
}

// fragment of the URL that names a part of the page. The page decodes the words between slashes.
func fragment(part string) string {
	words := strings.Split(strings.TrimPrefix(part, "/"), "/")
	for i, word := range words {
		words[i] = url.PathEscape(word)
	}
	return "#/" + strings.Join(words, "/")
}

// openBrowser of the user.
func openBrowser(ctx context.Context, url string) error {
	command := []string{"xdg-open", url}
	switch runtime.GOOS {
	case "darwin":
		command = []string{"open", url}
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler", url}
	}
	return exec.CommandContext(ctx, command[0], command[1:]...).Start()
}

// nextStep of the controller for an unchanged Pod2, in words.
func (s *session) nextStep(ctx context.Context, namespace, name string) (string, error) {
	p, err := reconcile.Get(ctx, "Pod2", s.Sample.SamplecrdV1().Pod2s(namespace), namespace, name)
	if err != nil {
		return "", err
	}
	view, err := reconcile.Look(ctx, s.Clients, s.now(), p, nil)
	if err != nil {
		return "", err
	}
	plan, names := pod2.Diff(view.Pod2), dns.Diff(view.DNS)
	if plan.Empty() && names.Empty() {
		return "The controller has nothing to do" + again(plan) + ".\n", nil
	}
	return steps(plan, names), nil
}

// revisions of a Pod2, each with its changes.
func (s *session) revisions(ctx context.Context, namespace, name string) ([]dashboard.Revision, error) {
	p, err := reconcile.Get(ctx, "Pod2", s.Sample.SamplecrdV1().Pod2s(namespace), namespace, name)
	if err != nil {
		return nil, err
	}
	history, err := s.history(ctx, p)
	if err != nil {
		return nil, err
	}
	list, before := []dashboard.Revision{}, ""
	for _, r := range history {
		content, err := contentYAML(r)
		if err != nil {
			return nil, err
		}
		changes, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{A: difflib.SplitLines(before), B: difflib.SplitLines(content), Context: 3})
		if err != nil {
			return nil, errors.New("compare revisions")
		}
		list = append(list, dashboard.Revision{
			Number: r.Object.Revision, Name: r.Object.Name, Role: role(p, r), Cause: r.Object.Annotations[pod2.ChangeCauseAnnotation],
			Created: r.Object.CreationTimestamp.Unix(), Changes: changes,
		})
		before = content
	}
	return list, nil
}
