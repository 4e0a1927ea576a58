package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pod2/pod2/internal/version"
)

func newVersion(t *tool) *cobra.Command {
	client := false
	cmd := &cobra.Command{
		Use: "version", Args: usage(cobra.NoArgs),
		Short: "Print the versions of the plugin and of the API server",
		Example: examples(`
# Print the versions of the plugin and of the API server
kubectl pod2 version

# Print the version of the plugin, without a cluster
kubectl pod2 version --client`),
	}
	cmd.Flags().BoolVar(&client, "client", client, "Print the version of the plugin only. Needs no cluster.")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		fmt.Fprintf(t.Out, "Plugin Version: %s\n", version.String())
		if client {
			return nil
		}
		s, err := t.start()
		if err != nil {
			return err
		}
		server, err := s.Kube.Discovery().ServerVersionWithContext(cmd.Context())
		if err != nil {
			return fmt.Errorf("get the version of the API server: %w", err)
		}
		fmt.Fprintf(t.Out, "Server Version: %s\n", server.GitVersion)
		return nil
	}
	return cmd
}
