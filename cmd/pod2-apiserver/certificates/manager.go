package certificates

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
)

// The names of the objects. The rights of the server are for these names only.
const (
	secretName     = "pod2-apiserver-tls"
	serviceName    = "pod2-apiserver"
	apiServiceName = "v1alpha1.view.samplecrd.k8s.io"
)

var apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// Options are the flags.
type Options struct {
	Namespace string
	lifetimes
}

// NewOptions returns the defaults.
func NewOptions() *Options {
	return &Options{Namespace: "pod2-system", lifetimes: lifetimes{whole: 365 * 24 * time.Hour, overlap: time.Hour}}
}

// AddFlags adds the flags.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Namespace, "namespace", o.Namespace, "Namespace of the Secret "+secretName+" and the Service "+serviceName+".")
	flags.DurationVar(&o.whole, "certificate-lifetime", o.whole, "Lifetime of the CA and the certificate in the Secret. The server replaces them after half of it. Not used with --tls-cert-file.")
	flags.DurationVar(&o.overlap, "certificate-overlap", o.overlap, "How long the APIService trusts the new CA before the server uses it, and the old CA afterwards. Must be less than a quarter of --certificate-lifetime.")
}

// Validate returns an error if a CA could end while another one replaces it.
func (o *Options) Validate() []error {
	if o.overlap <= 0 || o.overlap*4 >= o.whole {
		return []error{fmt.Errorf("--certificate-overlap=%s must be more than 0 and less than a quarter of --certificate-lifetime=%s", o.overlap, o.whole)}
	}
	return nil
}

// Manager provides the certificate of the Secret to the server. All replicas do the same
// steps. Each write has a precondition, so one of them writes, and the others read.
type Manager struct {
	*Options
	kube    kubernetes.Interface
	dynamic dynamic.Interface

	mu        sync.Mutex
	contents  contents
	listeners []dynamiccertificates.Listener
}

// New returns a Manager without a certificate. Sync gets one.
func New(o *Options, kube kubernetes.Interface, dynamic dynamic.Interface) *Manager {
	return &Manager{Options: o, kube: kube, dynamic: dynamic}
}

// Name describes the certificate in logs.
func (m *Manager) Name() string { return "Secret " + m.Namespace + "/" + secretName }

// CurrentCertKeyContent returns the certificate and its key.
func (m *Manager) CurrentCertKeyContent() (certificate, key []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.contents[certificateKey], m.contents[privateKey]
}

// AddListener adds a listener to changes of the certificate.
func (m *Manager) AddListener(l dynamiccertificates.Listener) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.listeners = append(m.listeners, l)
}

// Run syncs until the context ends, five times in an overlap and at least once a minute.
func (m *Manager) Run(ctx context.Context) {
	tick := time.NewTicker(min(m.overlap/5, time.Minute))
	defer tick.Stop()
	for {
		if err := m.Sync(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "The certificate was not checked, and the server tries again")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Sync takes all steps that are due, and serves the certificate of the Secret.
func (m *Manager) Sync(ctx context.Context) error {
	for range 10 { // more steps would be a fault, such as of a clock
		secret, err := m.kube.CoreV1().Secrets(m.Namespace).Get(ctx, secretName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("get %s: %w: apply artifacts/apiserver/apiserver.yaml again", m.Name(), err)
		}
		if err != nil {
			return fmt.Errorf("get %s: %w", m.Name(), err)
		}
		api, err := m.dynamic.Resource(apiServices).Get(ctx, apiServiceName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			api = nil
		} else if err != nil {
			return fmt.Errorf("get APIService %s: %w", apiServiceName, err)
		}
		current := contents(secret.Data)
		next, reason, err := current.next(time.Now(), published(api), serviceName+"."+m.Namespace+".svc", m.lifetimes)
		switch {
		case err != nil:
			return fmt.Errorf("change %s: %w", m.Name(), err)
		case reason != "":
			err = m.write(ctx, secret, next, reason)
		default:
			m.serve(current)
			if api == nil || bytes.Equal(published(api), current.bundle()) {
				return nil
			}
			err = m.publish(ctx, api, current.bundle())
		}
		// Another replica was first: read its result.
		if err != nil && !apierrors.IsConflict(err) {
			return err
		}
	}
	return fmt.Errorf("%s changes again and again: compare the clocks of the nodes", m.Name())
}

// write updates the version of the Secret that was read.
func (m *Manager) write(ctx context.Context, secret *corev1.Secret, data contents, reason string) error {
	secret.Data = data
	if _, err := m.kube.CoreV1().Secrets(m.Namespace).Update(ctx, secret, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("write %s (%s): %w", m.Name(), reason, err)
	}
	klog.FromContext(ctx).Info("Wrote the certificates", "secret", klog.KRef(m.Namespace, secretName), "reason", reason)
	return nil
}

// publish updates the version of the APIService that was read.
func (m *Manager) publish(ctx context.Context, api *unstructured.Unstructured, bundle []byte) error {
	if err := unstructured.SetNestedField(api.Object, base64.StdEncoding.EncodeToString(bundle), "spec", "caBundle"); err != nil {
		return fmt.Errorf("set caBundle of APIService %s: %w", apiServiceName, err)
	}
	if _, err := m.dynamic.Resource(apiServices).Update(ctx, api, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("set caBundle of APIService %s: %w", apiServiceName, err)
	}
	klog.FromContext(ctx).Info("Published the CA", "apiService", apiServiceName)
	return nil
}

// published is the caBundle of an APIService.
func published(api *unstructured.Unstructured) []byte {
	if api == nil {
		return nil
	}
	text, _, _ := unstructured.NestedString(api.Object, "spec", "caBundle")
	bundle, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil // it differs, so the server sets it
	}
	return bundle
}

func (m *Manager) serve(c contents) {
	m.mu.Lock()
	same := bytes.Equal(m.contents[certificateKey], c[certificateKey])
	m.contents = c
	listeners := m.listeners
	m.mu.Unlock()
	if !same {
		for _, l := range listeners {
			l.Enqueue()
		}
	}
}
