package browser

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pod2/pod2/pkg/client/clientset/versioned"
)

// controlPlane is a real one, with KWOK instead of nodes. The tests that need it share it.
type controlPlane struct {
	root, dir string
	kube      kubernetes.Interface
	sample    versioned.Interface
}

var sharedControlPlane = sync.OnceValues(startControlPlane)

func TestMain(m *testing.M) {
	code := m.Run()
	for _, end := range atEnd {
		if err := end(); err != nil {
			fmt.Fprintln(os.Stderr, "browser:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// atEnd are the functions that end the parts that the tests share.
var atEnd []func() error

func startControlPlane() (*controlPlane, error) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pod2-browser-")
	if err != nil {
		return nil, err
	}
	c := &controlPlane{root: root, dir: filepath.Join(dir, "cluster")}
	// This process removes the cluster at the end of its input, however this one ends.
	remover := exec.Command("bash", "-c", `cat; "$0" down "$1" && rm -rf "$2"`, filepath.Join(root, "hack/localcluster.sh"), c.dir, dir)
	remover.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	input, err := remover.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := remover.Start(); err != nil {
		return nil, err
	}
	atEnd = append(atEnd, func() error {
		_ = input.Close()
		return remover.Wait()
	})
	up := exec.Command(filepath.Join(root, "hack/localcluster.sh"), "up", c.dir)
	up.Env = append(os.Environ(), "NODES=2", "QPS_UNLIMITED=1")
	if out, err := up.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("start a control plane (run `make cluster-tools build` first): %w\n%s", err, out)
	}
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig())
	if err != nil {
		return nil, err
	}
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	if c.sample, err = versioned.NewForConfig(config); err != nil {
		return nil, err
	}
	config.ContentType = runtime.ContentTypeProtobuf
	if c.kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	for _, args := range [][]string{{"apply", "-f", filepath.Join(root, "crd"), "-f", filepath.Join(root, "artifacts/20-user-roles.yaml")},
		{"wait", "--for=condition=Established", "--timeout=1m", "-f", filepath.Join(root, "crd")}} {
		if out, err := c.kubectl("", args...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("kubectl %s: %w\n%s", args[0], err, out)
		}
	}
	return c, nil
}

func (c *controlPlane) kubeconfig() string { return filepath.Join(c.dir, "kubeconfig") }

func (c *controlPlane) kubectl(stdin string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(c.root, "bin/kubectl"), append([]string{"--kubeconfig", c.kubeconfig()}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	return cmd
}

// live is a lab on the control plane.
type live struct {
	*lab
	*controlPlane
	command *exec.Cmd // of the dashboard
}

// newLive starts `kubectl pod2 dashboard` with these flags, and a browser.
func newLive(t *testing.T, flags ...string) *live {
	t.Helper()
	c, err := sharedControlPlane()
	if err != nil {
		t.Fatal(err)
	}
	l := &live{&lab{T: t}, c, nil}
	l.command = exec.Command(filepath.Join(c.root, "bin/kubectl-pod2"), append([]string{"dashboard", "--no-open", "--kubeconfig", c.kubeconfig()}, flags...)...)
	out, err := l.command.StdoutPipe()
	if err == nil {
		err = l.command.Start()
	}
	if err != nil {
		t.Fatalf("start the dashboard (run `make build` first): %v", err)
	}
	t.Cleanup(func() {
		if err := l.command.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		if err := l.command.Wait(); err != nil {
			t.Errorf("Ctrl-C does not end the dashboard: %v", err)
		}
	})
	printed := bufio.NewReader(out)
	line, err := printed.ReadString('\n')
	if err != nil {
		t.Fatalf("the dashboard prints no URL: %v", err)
	}
	go func() { _, _ = io.Copy(io.Discard, printed) }()
	l.url = strings.TrimSpace(strings.TrimPrefix(line, "The dashboard is at "))
	l.browse(1200, 900, 5*time.Minute)
	return l
}

// controller runs until the test ends.
func (l *live) controller() {
	l.Helper()
	cmd := exec.Command(filepath.Join(l.root, "bin/pod2-controller"), "--kubeconfig", l.kubeconfig(), "--metrics-bind-address=0", "--health-probe-bind-address=0")
	if err := cmd.Start(); err != nil {
		l.Fatalf("start the controller (run `make build` first): %v", err)
	}
	l.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

// run kubectl, with a manifest if it is not empty.
func (l *live) run(manifest string, args ...string) {
	l.Helper()
	if out, err := l.kubectl(manifest, args...).CombinedOutput(); err != nil {
		l.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// stopAPIServer kills kube-apiserver. The result starts it again.
func (l *live) stopAPIServer() (start func()) {
	l.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		l.Fatal(err)
	}
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil || !strings.HasPrefix(string(line), l.dir+"/") || !strings.Contains(string(line), "/bin/kube-apiserver\x00") {
			continue
		}
		var id int
		if _, err := fmt.Sscanf(file, "/proc/%d/cmdline", &id); err != nil {
			l.Fatal(err)
		}
		directory, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", id))
		if err != nil {
			l.Fatal(err)
		}
		if err := syscall.Kill(id, syscall.SIGKILL); err != nil {
			l.Fatal(err)
		}
		args := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
		return func() {
			l.Helper()
			cmd := exec.Command(args[0], args[1:]...)
			cmd.Dir = directory
			if err := cmd.Start(); err != nil {
				l.Fatal(err)
			}
			go func() { _ = cmd.Wait() }() // hack/localcluster.sh ends it
			ctx, cancel := context.WithTimeout(l.Context(), time.Minute)
			defer cancel()
			for {
				_, err := l.controlPlane.kube.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
				if err == nil {
					return
				}
				if ctx.Err() != nil {
					l.Fatalf("the API server does not start: %v", err)
				}
				time.Sleep(100 * time.Millisecond)
			}
		}
	}
	l.Fatal("kube-apiserver does not run")
	return nil
}

// waitForAccount waits until pods can be created in a new namespace.
func (c *controlPlane) waitForAccount(ctx context.Context, namespace string) error {
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		_, err := c.kube.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil
	})
}
