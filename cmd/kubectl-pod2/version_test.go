package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"
	fakediscovery "k8s.io/client-go/discovery/fake"
	clienttesting "k8s.io/client-go/testing"

	pod2version "github.com/pod2/pod2/internal/version"
)

func TestVersion(t *testing.T) {
	plugin := "Plugin Version: " + pod2version.String() + "\n"
	w := newWorld(t)
	w.kube.Discovery().(*fakediscovery.FakeDiscovery).FakedServerVersion = &version.Info{GitVersion: "v1.36.7"}
	requireText(t, w.run("version"), plugin+"Server Version: v1.36.7\n")

	// Without a cluster, the version of the plugin is still printed.
	w = newWorld(t)
	w.kube.PrependReactor("get", "version", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("connection refused")
	})
	requireText(t, w.run("version"), plugin+"! get the version of the API server: connection refused\n")
	requireText(t, w.run("version", "--client"), plugin)
}

// The help of each command has two to four examples, which are commands that exist.
func TestExamples(t *testing.T) {
	root := newCommand(&tool{})
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		count := 0
		for line := range strings.Lines(cmd.Example) {
			_, args, is := strings.Cut(strings.TrimRight(line, "\n"), "kubectl pod2 ")
			if !is {
				continue
			}
			count++
			if found, _, err := root.Find(strings.Fields(args)); err != nil || found != cmd && !cmd.HasSubCommands() {
				t.Errorf("%s has the example %q, which runs %s (%v)", cmd.CommandPath(), line, found.CommandPath(), err)
			}
		}
		if count < 2 || count > 4 {
			t.Errorf("%s has %d examples, want 2 to 4", cmd.CommandPath(), count)
		}
		for _, below := range cmd.Commands() {
			check(below)
		}
	}
	check(root)
}
