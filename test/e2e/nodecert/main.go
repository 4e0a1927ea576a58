// Command nodecert writes the certificates of a kubelet. With the client certificate, the
// kubelet identifies itself to the API server; the Node authorizer of Kubernetes uses its
// name. With the serving certificate, the API server identifies the kubelet, to read logs.
//
//	nodecert -ca DIR -out DIR -name node1 -address 172.18.0.11
//
// -ca is the directory with ca.crt and ca.key of the cluster. nodecert writes client.crt,
// client.key, serving.crt and serving.key to -out.
package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

func main() {
	ca := flag.String("ca", "", "directory of ca.crt and ca.key")
	out := flag.String("out", "", "directory to write to")
	name := flag.String("name", "", "the node's name")
	address := flag.String("address", "", "the node's address")
	flag.Parse()
	if err := run(*ca, *out, *name, net.ParseIP(*address)); err != nil {
		fmt.Fprintf(os.Stderr, "nodecert: certificates of %s: %v\n", *name, err)
		os.Exit(1)
	}
}

func run(caDir, out, name string, address net.IP) error {
	if name == "" || address == nil {
		return fmt.Errorf("-name and -address are required")
	}
	ca, err := readCA(caDir)
	if err != nil {
		return fmt.Errorf("read the certificate authority: %w", err)
	}
	// Kubernetes defines these names: https://kubernetes.io/docs/reference/access-authn-authz/node/
	subject := pkix.Name{CommonName: "system:node:" + name, Organization: []string{"system:nodes"}}
	if err := ca.issue(filepath.Join(out, "client"), &x509.Certificate{
		Subject: subject, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}); err != nil {
		return err
	}
	return ca.issue(filepath.Join(out, "serving"), &x509.Certificate{
		Subject: subject, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{name}, IPAddresses: []net.IP{address},
	})
}

type authority struct {
	cert *x509.Certificate
	key  crypto.PrivateKey
}

func readCA(dir string) (*authority, error) {
	certDER, err := readPEM(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return nil, err
	}
	keyDER, err := readPEM(filepath.Join(dir, "ca.key"))
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(certDER)
	if err != nil {
		return nil, err
	}
	if key, err := x509.ParsePKCS1PrivateKey(keyDER); err == nil {
		return &authority{cert, key}, nil
	}
	key, err := x509.ParsePKCS8PrivateKey(keyDER)
	return &authority{cert, key}, err
}

func readPEM(file string) ([]byte, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s is not PEM", file)
	}
	return block.Bytes, nil
}

// issue writes PATH.crt and PATH.key. They are valid longer than any test cluster runs.
func (a *authority) issue(path string, template *x509.Certificate) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return err
	}
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(30 * 24 * time.Hour)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	cert, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return fmt.Errorf("sign %s.crt: %w", path, err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := writePEM(path+".key", "PRIVATE KEY", keyDER, 0o600); err != nil {
		return err
	}
	return writePEM(path+".crt", "CERTIFICATE", cert, 0o644)
}

func writePEM(file, kind string, der []byte, mode os.FileMode) error {
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode)
}
