//go:build integration

package integration

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The server replaces its CA and its certificate while a client watches. No
// request fails, and the watch continues.
func TestAPIServerReplacesItsCA(t *testing.T) {
	aggregation(t)
	port, _ := startAPIServer(t, "--certificate-lifetime=50s", "--certificate-overlap=8s")
	aggregate(t, port)
	ns := newNamespace(t)
	startController(t, ns)
	watch := kubectlWatch(t, "get", "addresses", "-n", ns, "-w", "--no-headers")
	create(t, ns, network("blue", `{cidr: 10.1.0.0/24}`)+gatedPod("before", "blue"))
	watch.waitFor(t, "before")
	contents := func() map[string]string { // of one version of the Secret
		t.Helper()
		s, err := kube.CoreV1().Secrets("pod2-system").Get(t.Context(), "pod2-apiserver-tls", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		texts := map[string]string{}
		for key, value := range s.Data {
			texts[key] = string(value)
		}
		return texts
	}
	first := contents()
	seen := ""
	eventually(t, "the CA is replaced in its steps", func(ctx context.Context) (string, error) {
		if out, err := kubectlBinary(ctx, "", "get", "addresses", "-n", ns, "-o", "name"); err != nil {
			t.Fatalf("a list in step %q fails: %v\n%s", seen, err, out)
		}
		is := contents()
		step := fmt.Sprintf("two CAs: %t, new certificate: %t", is["old-ca.crt"] != "", is["tls.crt"] != first["tls.crt"])
		if !strings.HasSuffix(seen, step) {
			seen += "; " + step
		}
		if is["ca.crt"] == first["ca.crt"] || is["old-ca.crt"] != "" {
			return seen, nil
		}
		return "", nil
	})
	if want := "; two CAs: false, new certificate: false; two CAs: true, new certificate: false; two CAs: true, new certificate: true; two CAs: false, new certificate: true"; seen != want {
		t.Errorf("the steps are%s\nwant%s", seen, want)
	}
	create(t, ns, gatedPod("after", "blue"))
	watch.waitFor(t, "after")
}

// While the server is away, all else continues. A namespace loses its objects, and waits.
// Either remedy of docs/how-to/list-addresses.md ends the wait.
func TestAPIServerIsAway(t *testing.T) {
	aggregation(t)
	port, server := startAPIServer(t)
	aggregate(t, port)
	namespaces := []string{newNamespace(t), newNamespace(t)}
	_ = server.stop(syscall.SIGKILL)
	waitAvailable(t, "False")
	// The garbage collector reads the API groups every 30 s.
	away := 40 * time.Second
	if os.Getenv("POD2_LONG") != "" {
		away = 5 * time.Minute
	}
	for end := time.Now().Add(away); time.Now().Before(end); time.Sleep(time.Second) {
		run(t, namespaces[0], "get", "pods")
		run(t, namespaces[0], "get", "networks.samplecrd.k8s.io")
	}
	create(t, namespaces[0], `{apiVersion: v1, kind: ConfigMap, metadata: {name: owner}}`)
	uid := run(t, namespaces[0], "get", "configmap", "owner", "-o", "jsonpath={.metadata.uid}")
	create(t, namespaces[0], fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: dependent, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: owner, uid: %s}]}}`, uid))
	run(t, namespaces[0], "delete", "configmap", "owner")
	eventually(t, "the garbage collector deletes the dependent", func(context.Context) (string, error) {
		return kubectl("get", "configmap", "dependent", "-n", namespaces[0], "--ignore-not-found", "-o", "name")
	})
	for i, remedy := range []func(){
		func() {
			port, server = startAPIServer(t)
			aggregate(t, port)
		},
		func() { run(t, "default", "delete", "apiservice", apiService) },
	} {
		ns := namespaces[i]
		create(t, ns, `{apiVersion: v1, kind: ConfigMap, metadata: {name: content}}`)
		run(t, ns, "delete", "namespace", ns, "--wait=false")
		eventually(t, "the namespace is empty and waits", func(context.Context) (string, error) {
			out := run(t, ns, "get", "namespace", ns, "-o", `jsonpath={.status.conditions[?(@.type=="NamespaceDeletionDiscoveryFailure")].status}`)
			left := run(t, ns, "get", "configmap", "content", "--ignore-not-found", "-o", "name")
			if out != "True" || left != "" {
				return fmt.Sprintf("NamespaceDeletionDiscoveryFailure is %q, and %q is left", out, left), nil
			}
			return "", nil
		})
		remedy()
		eventually(t, "the namespace is gone", func(context.Context) (string, error) {
			return kubectl("get", "namespace", ns, "--ignore-not-found", "-o", "name")
		})
		if i == 0 { // away again
			_ = server.stop(syscall.SIGKILL)
			waitAvailable(t, "False")
		}
	}
}

// Only the API server may say which user asks, and it proves itself with its certificate.
func TestAPIServerRefusesForgedUsers(t *testing.T) {
	aggregation(t)
	port, _ := startAPIServer(t)
	aggregate(t, port)
	pki := filepath.Join(filepath.Dir(kubeconfig), "control-plane/clusters/pod2/pki")
	proxy, err := tls.LoadX509KeyPair(filepath.Join(pki, "admin.crt"), filepath.Join(pki, "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	ca, err := tls.LoadX509KeyPair(filepath.Join(pki, "ca.crt"), filepath.Join(pki, "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	stranger := clientCertificate(t, "kwok-admin", nil)
	mallory := clientCertificate(t, "mallory", &ca)
	for _, c := range []struct {
		name        string
		certificate *tls.Certificate
		token       string
		code        int
		want        string
	}{
		{"no certificate", &tls.Certificate{}, "", http.StatusForbidden, `User \"system:anonymous\" cannot list`},
		{"certificate of another CA with the name of the API server", &stranger, "", http.StatusUnauthorized, "Unauthorized"},
		{"certificate of a user", &mallory, "", http.StatusForbidden, `User \"mallory\" cannot list`},
		{"unknown token", &tls.Certificate{}, "forged", http.StatusUnauthorized, "Unauthorized"},
		{"the API server", &proxy, "", http.StatusOK, `"kind":"AddressList"`},
	} {
		// The callback sends a certificate even if the server does not ask for its CA.
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return c.certificate, nil
		}}}}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://127.0.0.1:"+port+"/apis/view.samplecrd.k8s.io/v1alpha1/addresses", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-Remote-User", "forged")
		request.Header.Set("X-Remote-Group", "system:masters")
		if c.token != "" {
			request.Header.Set("Authorization", "Bearer "+c.token)
		}
		answer, err := client.Do(request)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != c.code || !strings.Contains(string(body), c.want) {
			t.Errorf("%s: %d %s (%v), want %d %s", c.name, answer.StatusCode, body, err, c.code, c.want)
		}
	}
}

// clientCertificate makes a certificate of a client. Without CA, it signs itself.
func clientCertificate(t *testing.T, name string, ca *tls.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	parent, signer := template, any(key)
	if ca != nil {
		parent, signer = ca.Leaf, ca.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}
