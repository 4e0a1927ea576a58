// Package certificates keeps the certificate of the server, and the CA that signs it, in a
// Secret. It publishes the CA in the APIService.
package certificates

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"
)

// Keys of the Secret.
const (
	caKey          = "ca.crt"
	caPrivateKey   = "ca.key"
	oldCAKey       = "old-ca.crt"
	certificateKey = "tls.crt"
	privateKey     = "tls.key"
)

// contents of the Secret. While a CA is replaced, it has two.
type contents map[string][]byte

// bundle is the caBundle of the APIService: each CA that may have signed the certificate of
// a replica.
func (c contents) bundle() []byte { return append(bytes.Clone(c[caKey]), c[oldCAKey]...) }

// lifetimes of certificates.
type lifetimes struct {
	// whole is the lifetime of a CA and its certificate. They are replaced after half of it.
	whole time.Duration
	// overlap is how long clients and replicas get to notice each step.
	overlap time.Duration
}

// next returns the contents after the next step, and the reason. An empty reason means that
// nothing changes. A CA is replaced in three steps, so clients trust the certificate of each
// replica at any time:
//
//	new CA beside the old one   the APIService trusts both
//	new certificate             after the overlap, if the APIService trusts the new CA
//	without the old CA          after the overlap
func (c contents) next(now time.Time, published []byte, host string, life lifetimes) (contents, string, error) {
	ca, err := tls.X509KeyPair(c[caKey], c[caPrivateKey])
	if err != nil || now.After(ca.Leaf.NotAfter) {
		fresh, err := newCA(now, life.whole)
		if err == nil {
			err = fresh.sign(now, host)
		}
		return fresh, "no usable CA", err
	}
	changed := contents{}
	for key, value := range c {
		changed[key] = value
	}
	leaf := &x509.Certificate{}
	if certificate, err := tls.X509KeyPair(c[certificateKey], c[privateKey]); err == nil {
		leaf = certificate.Leaf
	}
	trusted, current := trusts(c.bundle(), leaf, now, host), trusts(c[caKey], leaf, now, host)
	switch {
	case !trusted:
		return changed, "no usable certificate", changed.sign(now, host)
	case !current && now.After(ca.Leaf.NotBefore.Add(skew+life.overlap)) && bytes.Contains(published, c[caKey]):
		return changed, "the APIService trusts the new CA", changed.sign(now, host)
	case !current:
		return c, "", nil
	case c[oldCAKey] != nil && now.After(leaf.NotBefore.Add(skew+life.overlap)):
		delete(changed, oldCAKey)
		return changed, "all replicas have the certificate of the new CA", nil
	case c[oldCAKey] == nil && now.After(ca.Leaf.NotBefore.Add(skew+life.whole/2)):
		fresh, err := newCA(now, life.whole)
		changed[oldCAKey], changed[caKey], changed[caPrivateKey] = c[caKey], fresh[caKey], fresh[caPrivateKey]
		return changed, "half of the CA's lifetime has passed", err
	}
	return c, "", nil
}

// skew is how much the clocks of replicas and API servers may differ.
const skew = 5 * time.Minute

// trusts returns whether a client that trusts these CAs accepts a certificate.
func trusts(authorities []byte, certificate *x509.Certificate, now time.Time, host string) bool {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authorities)
	_, err := certificate.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, DNSName: host})
	return err == nil
}

func newCA(now time.Time, life time.Duration) (contents, error) {
	template := &x509.Certificate{
		// Each CA has its own name, so verification tries the right one.
		Subject: pkix.Name{CommonName: fmt.Sprintf("pod2-apiserver-ca@%d", now.UnixNano())}, NotBefore: now.Add(-skew), NotAfter: now.Add(life),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	certificate, key, err := issue(template, template, nil)
	return contents{caKey: certificate, caPrivateKey: key}, err
}

// sign replaces the certificate.
func (c contents) sign(now time.Time, host string) error {
	ca, err := tls.X509KeyPair(c[caKey], c[caPrivateKey])
	if err != nil {
		return fmt.Errorf("read the CA: %w", err)
	}
	c[certificateKey], c[privateKey], err = issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: host}, DNSNames: []string{host}, NotBefore: now.Add(-skew), NotAfter: ca.Leaf.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, ca.Leaf, ca.PrivateKey)
	return err
}

// issue makes a key, and a certificate for it. Without signer, the certificate signs itself.
func issue(template, parent *x509.Certificate, signer any) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	if signer == nil {
		signer = private
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return nil, nil, fmt.Errorf("make a serial number: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, private.Public(), signer)
	if err != nil {
		return nil, nil, fmt.Errorf("make the certificate of %s: %w", template.Subject, err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("write the key of %s: %w", template.Subject, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), nil
}
