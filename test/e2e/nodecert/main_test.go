package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"path/filepath"
	"testing"
	"time"
)

// Each certificate matches its key, is signed by the authority, and has the right subject and
// usage.
func TestRun(t *testing.T) {
	ca, out := t.TempDir(), t.TempDir()
	roots := newAuthority(t, ca)
	if err := run(ca, out, "node1", net.ParseIP("172.18.0.11")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		file  string
		usage x509.ExtKeyUsage
		want  string
	}{
		{"client", x509.ExtKeyUsageClientAuth, "CN=system:node:node1,O=system:nodes [] []"},
		{"serving", x509.ExtKeyUsageServerAuth, "CN=system:node:node1,O=system:nodes [node1] [172.18.0.11]"},
	} {
		path := filepath.Join(out, c.file)
		pair, err := tls.LoadX509KeyPair(path+".crt", path+".key")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{c.usage}}); err != nil {
			t.Errorf("%s: %v", c.file, err)
		}
		if got := fmt.Sprint(pair.Leaf.Subject, " ", pair.Leaf.DNSNames, " ", pair.Leaf.IPAddresses); got != c.want {
			t.Errorf("%s: got %s, want %s", c.file, got, c.want)
		}
	}
}

// newAuthority writes an authority with an RSA key, as kwokctl does.
func newAuthority(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	if err := writePEM(filepath.Join(dir, "ca.key"), "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writePEM(filepath.Join(dir, "ca.crt"), "CERTIFICATE", der, 0o600); err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return pool
}
