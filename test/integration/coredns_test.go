//go:build integration

package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// coreDNS queries its own CoreDNS for names in a namespace.
type coreDNS struct {
	t         *testing.T
	namespace string
	resolver  *net.Resolver
}

// startDNS runs CoreDNS until the end of the test. It uses a unique address of 127.0.0.0/8,
// so its port is always free.
func startDNS(t *testing.T, namespace string) *coreDNS {
	t.Helper()
	address := fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
	corefile := filepath.Join(t.TempDir(), "Corefile")
	if err := os.WriteFile(corefile, fmt.Appendf(nil, `.:5300 {
  bind %s
  errors
  kubernetes cluster.local {
    kubeconfig %s
    namespaces %s
  }
}
`, address, kubeconfig, namespace), 0o600); err != nil {
		t.Fatal(err)
	}
	log := &logBuffer{}
	cmd := exec.Command(filepath.Join(root, "bin/coredns"), "-conf", corefile)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatalf("start CoreDNS (`make cluster-tools` builds it): %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGKILL) // CoreDNS has no state to save
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("log of CoreDNS:\n%s", tail(log.String(), 10))
		}
	})
	return &coreDNS{t: t, namespace: namespace, resolver: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address+":5300")
	}}}
}

// ask returns the A ("ip4") or AAAA ("ip6") records of a name, sorted, or "no such host".
func (d *coreDNS) ask(ctx context.Context, network, name string) (string, error) {
	found, err := d.resolver.LookupNetIP(ctx, network, name+"."+d.namespace+".svc.cluster.local.")
	if missing := (*net.DNSError)(nil); errors.As(err, &missing) && missing.IsNotFound {
		return missing.Err, nil
	}
	var texts []string
	for _, address := range found {
		texts = append(texts, address.Unmap().String())
	}
	slices.Sort(texts)
	return strings.Join(texts, " "), err
}

// wait waits until a name has this answer.
func (d *coreDNS) wait(network, name, want string) {
	d.t.Helper()
	eventually(d.t, fmt.Sprintf("%s of %s is %s", network, name, want), func(ctx context.Context) (string, error) {
		got, err := d.ask(ctx, network, name)
		if got == want {
			return "", err
		}
		return "it is " + got, err
	})
}

const noSuchHost = "no such host"
