//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A replica's pod is deleted while its node accepts no pods. The replica comes back on another
// node with its address. A peer that keeps sending to this address finds it there.
func TestDeletedPodMoves(t *testing.T) {
	requireMove(t, "deleted", func(ns, pod, node string) {
		run(t, "", "cordon", node)
		run(t, ns, "delete", "pod", pod, "--wait=false")
	})
}

// The same for all pods of a node, which may include the controller.
func TestDrainedPodMoves(t *testing.T) {
	requireMove(t, "drained", func(_, _, node string) {
		run(t, "", "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout="+patience.String())
	})
}

func requireMove(t *testing.T, ns string, drive func(ns, pod, node string)) {
	newNamespace(t, ns)
	create(t, ns, networks+spread("m", 2, "{name: blue}"))
	waitReady(t, ns, "pod2/m")
	before := pods(t, ns, "app=m")
	address, node := before["m-1"].Published["blue"].Address, before["m-1"].Node
	t.Cleanup(func() { run(t, "", "uncordon", node) })
	target := address.Addr().String() + ":8080"
	requireAnswer(t, ns, "m-0", target, "m-1 at "+address.Addr().String())

	pings := pinging(t, ns, "m-0", target)
	began := time.Now()
	drive(ns, "m-1", node)
	eventually(t, "another m-1", func() (string, error) {
		out, err := kubectl("", "--namespace", ns, "get", "pod", "m-1", "--output=jsonpath={.metadata.uid}")
		if out == before["m-1"].UID {
			return "it is still the same pod", err
		}
		return "", err
	})
	waitReady(t, ns, "pod/m-1")
	ready := time.Since(began)
	requireAnswer(t, ns, "m-0", target, "m-1 at "+address.Addr().String())
	after := pods(t, ns, "app=m")["m-1"]
	if after.Node == node || after.Published["blue"].Address != address {
		t.Errorf("m-1 was on %s with %s, and is on %s with %s", node, address, after.Node, after.Published["blue"].Address)
	}
	sent, received := counts(t, pings())
	lost := time.Duration(sent-received) * 10 * time.Millisecond
	t.Logf("m-1 moved from %s to %s and was ready after %s; of %d pings, one each 10 ms, %d were lost: %s of silence",
		node, after.Node, ready.Round(10*time.Millisecond), sent, sent-received, lost)
	// No pod answers from the stop of the one pod until the other runs, and no longer: a ready pod
	// answers.
	if received == 0 || lost > ready+time.Second {
		t.Errorf("silence of %s, and m-1 was ready after %s", lost, ready)
	}
}

// requireAnswer waits for an answer that begins with want.
func requireAnswer(t *testing.T, ns, from, target, want string) {
	t.Helper()
	eventually(t, want+" answers "+from, func() (string, error) {
		if got := probe(t, ns, from, "get", "-timeout=500ms", target); !strings.HasPrefix(got, target+": "+want+", ") {
			return got, nil
		}
		return "", nil
	})
}

// pinging sends datagrams, one each 10 ms, until stop is called. stop returns how many were
// sent and how many came back.
func pinging(t *testing.T, ns, from, target string) (stop func() string) {
	t.Helper()
	cmd := command("--namespace", ns, "exec", "--stdin", from, "--", "/netprobe", "ping", "-count=0", "-timeout=1s", target)
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	time.Sleep(500 * time.Millisecond) // send some before the test continues
	return func() string {
		t.Helper()
		input.Close()
		select {
		case err := <-ended:
			if err != nil {
				t.Fatalf("ping %s: %v\n%s", target, err, out.String())
			}
		case <-time.After(patience):
			t.Fatalf("ping %s did not end", target)
		}
		return strings.TrimSpace(out.String())
	}
}

// counts in the output of ping.
func counts(t *testing.T, said string) (sent, received int) {
	t.Helper()
	if _, err := fmt.Sscanf(said, "%d sent, %d received", &sent, &received); err != nil {
		t.Fatalf("ping said %q: %v", said, err)
	}
	return sent, received
}
