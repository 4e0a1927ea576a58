//go:build integration

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	v1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
)

// waitLabels waits until each replica has these labels, "key=value" or "key" for none.
func waitLabels(t *testing.T, namespace string, want ...string) {
	t.Helper()
	eventually(t, "labels "+strings.Join(want, ", "), func(context.Context) (string, error) {
		for name, pod := range listPods(t, namespace) {
			for _, label := range want {
				key, value, has := strings.Cut(label, "=")
				if is, ok := pod.Labels[key]; ok != has || is != value {
					return fmt.Sprintf("%s has labels %v", name, pod.Labels), nil
				}
			}
		}
		return "", nil
	})
}

// No container restarts for a label, and a user's change of a replica's label stays.
func TestLabelsOfThePod2ReachRunningReplicas(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, pod2("web", `replicas: 3`))
	waitReady(t, ns, "pod2/web")
	before, images := running(t, ns)
	run(t, ns, "label", "pod2", "web", "team=a", "tier=front")
	waitLabels(t, ns, "team=a", "tier=front")
	run(t, ns, "label", "pod", "web-1", "team=mine", "--overwrite")
	run(t, ns, "label", "pod2", "web", "tier-", "zone=x")
	waitLabels(t, ns, "tier", "zone=x")
	if got := run(t, ns, "get", "pod", "web-1", "-o", "jsonpath={.metadata.labels.team}"); got != "mine" {
		t.Errorf("web-1 has team=%s, want mine", got)
	}
	run(t, ns, "label", "pod2", "web", "team=b", "--overwrite")
	waitLabels(t, ns, "team=b")
	waitCondition(t, ns, "pod2/web", "Progressing", "True Complete")
	if after, now := running(t, ns); after != before || now != images {
		t.Errorf("the replicas are %v and run %s, before they were %v and ran %s", after, now, before, images)
	}
}

func TestRemovedLabelsOfReplicasComeBack(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	startController(t, ns)
	create(t, ns, pod2("web", `replicas: 2`))
	waitReady(t, ns, "pod2/web")
	before, _ := running(t, ns)
	for _, key := range []string{v1.ManagedLabel, v1.Pod2Label, v1.PodIndexLabel} {
		run(t, ns, "label", "pod", "web-1", key+"-")
		waitLabels(t, ns, v1.ManagedLabel+"=true", v1.Pod2Label+"=web")
	}
	eventually(t, "the ordinal of web-1", func(context.Context) (string, error) {
		if got := run(t, ns, "get", "pods", "-l", v1.PodIndexLabel+"=1", "-o", "name"); strings.TrimSpace(got) != "pod/web-1" {
			return "found " + got, nil
		}
		return "", nil
	})
	if after, _ := running(t, ns); after != before {
		t.Errorf("the replicas are %v, and were %v before", after, before)
	}
}
