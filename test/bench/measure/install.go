package measure

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// ServiceAccountKubeconfig writes a kubeconfig for a program that runs as this service account,
// as it does when it is installed. For a user in system:masters, no rights are looked up.
func (c *Cluster) ServiceAccountKubeconfig(ctx context.Context, ns, name string) (path string) {
	day := int64(24 * time.Hour / time.Second)
	token := Must(c.Kube.CoreV1().ServiceAccounts(ns).CreateToken(ctx, name,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &day}}, metav1.CreateOptions{}))
	config := Must(clientcmd.LoadFromFile(c.Kubeconfig()))
	for user := range config.AuthInfos {
		config.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	}
	for context := range config.Contexts {
		config.Contexts[context].Namespace = ns
	}
	path = filepath.Join(c.Dir, name+".kubeconfig")
	Check(clientcmd.WriteToFile(*config, path))
	return path
}

// ServiceAccountUser is the name of a service account's user.
func ServiceAccountUser(ns, name string) string { return "system:serviceaccount:" + ns + ":" + name }

// Install the objects of these manifests, except those of some kinds.
func (c *Cluster) Install(ctx context.Context, manifests []byte, except ...string) {
	path := filepath.Join(c.Dir, "install.yaml")
	Check(os.WriteFile(path, without(manifests, except), 0o600))
	// Large CRDs do not fit into the annotation that an apply by the client needs.
	c.Kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-f", path)
}

// without returns the objects of a YAML stream, except those of these kinds.
func without(manifests []byte, kinds []string) []byte {
	var kept bytes.Buffer
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifests)))
	for {
		object, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return kept.Bytes()
		}
		Check(err)
		var meta metav1.TypeMeta
		Check(yaml.Unmarshal(object, &meta))
		if meta.Kind != "" && !slices.Contains(kinds, meta.Kind) {
			kept.WriteString("---\n")
			kept.Write(object)
			kept.WriteByte('\n')
		}
	}
}
