// Command pod2-apiserver is an aggregated API server. It serves the API group
// view.samplecrd.k8s.io, which shows the addresses of Networks. It is optional, and stores
// nothing.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	namer "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/pod2/pod2/cmd/pod2-apiserver/addresses"
	view "github.com/pod2/pod2/cmd/pod2-apiserver/apis/view/v1alpha1"
	"github.com/pod2/pod2/cmd/pod2-apiserver/certificates"
	"github.com/pod2/pod2/cmd/pod2-apiserver/openapi"
	"github.com/pod2/pod2/cmd/pod2-apiserver/plans"
	pod2version "github.com/pod2/pod2/internal/version"
	"github.com/pod2/pod2/pkg/client/clientset/versioned"
	"github.com/pod2/pod2/pkg/reconcile"
)

const name = "pod2-apiserver"

var (
	scheme = runtime.NewScheme()
	codecs = serializer.NewCodecFactory(scheme)
)

func init() {
	utilruntime.Must(view.AddToScheme(scheme))
	// Handlers decode into the internal version. Its types are the same ones.
	view.AddKnownTypes(scheme, schema.GroupVersion{Group: view.SchemeGroupVersion.Group, Version: runtime.APIVersionInternal})
}

// flags are those that any aggregated API server has.
type flags struct {
	serving        *options.SecureServingOptionsWithLoopback
	authentication *options.DelegatingAuthenticationOptions
	authorization  *options.DelegatingAuthorizationOptions
	audit          *options.AuditOptions
	features       *options.FeatureOptions
	api            *options.CoreAPIOptions
	certificates   *certificates.Options
	logs           *logs.Options
}

func main() {
	f := flags{
		options.NewSecureServingOptions().WithLoopback(), options.NewDelegatingAuthenticationOptions(), options.NewDelegatingAuthorizationOptions(),
		options.NewAuditOptions(), options.NewFeatureOptions(), options.NewCoreAPIOptions(), certificates.NewOptions(), logs.NewOptions(),
	}
	f.serving.HTTP2MaxStreamsPerConnection = 1000 // kube-apiserver sends the requests of all users through few connections
	cmd := &cobra.Command{
		Use: name, Version: pod2version.String(), Args: cobra.NoArgs, SilenceUsage: true,
		Short: "Serve the API group view.samplecrd.k8s.io behind kube-apiserver",
		RunE: func(*cobra.Command, []string) error {
			if err := logsapi.ValidateAndApply(f.logs, nil); err != nil {
				return err
			}
			return f.run(server.SetupSignalContext())
		},
	}
	set := cmd.Flags()
	f.serving.AddFlags(set)
	f.authentication.AddFlags(set)
	f.authorization.AddFlags(set)
	f.audit.AddFlags(set)
	f.features.AddFlags(set)
	f.api.AddFlags(set)
	f.certificates.AddFlags(set)
	logsapi.AddFlags(f.logs, set)
	os.Exit(cli.Run(cmd))
}

func (f *flags) run(ctx context.Context) error {
	invalid := append(f.serving.Validate(), f.authentication.Validate()...)
	invalid = append(invalid, f.authorization.Validate()...)
	invalid = append(invalid, f.certificates.Validate()...)
	if err := utilerrors.NewAggregate(append(invalid, f.audit.Validate()...)); err != nil {
		return err
	}
	config := server.NewRecommendedConfig(codecs)
	config.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	documented := runtime.NewScheme() // without the internal version
	utilruntime.Must(view.AddToScheme(documented))
	names := namer.NewDefinitionNamer(documented)
	config.OpenAPIConfig = server.DefaultOpenAPIConfig(openapi.GetOpenAPIDefinitions, names)
	config.OpenAPIV3Config = server.DefaultOpenAPIV3Config(openapi.GetOpenAPIDefinitions, names)
	config.OpenAPIConfig.Info.Title, config.OpenAPIV3Config.Info.Title = name, name
	if err := f.apply(ctx, config); err != nil {
		return err
	}
	kube, sample, err := clients(config.ClientConfig)
	if err != nil {
		return err
	}
	planKube, planSample, err := clients(config.ClientConfig) // plans have a limit of their own
	if err != nil {
		return err
	}
	// The Service stops leading here, and then watches end, before the caches do.
	config.ShutdownDelayDuration, config.ShutdownWatchTerminationGracePeriod = 5*time.Second, 10*time.Second
	cache := addresses.New()
	config.AddReadyzChecks(healthz.NamedCheck("caches", cache.Ready))
	s, err := config.Complete().New(name, server.NewEmptyDelegate())
	if err != nil {
		return fmt.Errorf("make the server: %w", err)
	}
	group := server.NewDefaultAPIGroupInfo(view.SchemeGroupVersion.Group, scheme, runtime.NewParameterCodec(scheme), codecs)
	group.VersionedResourcesStorageMap[view.SchemeGroupVersion.Version] = map[string]rest.Storage{
		"addresses": addresses.REST{Cache: cache},
		"pod2plans": plans.New(reconcile.Clients{Kube: planKube, Sample: planSample}),
	}
	if err := s.InstallAPIGroup(&group); err != nil {
		return fmt.Errorf("install the API group %s: %w", view.SchemeGroupVersion.Group, err)
	}
	caching, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	go cache.Run(caching, kube, sample)
	return s.PrepareRun().RunWithContext(ctx)
}

// apply applies the flags in the order in which they depend on each other.
func (f *flags) apply(ctx context.Context, config *server.RecommendedConfig) error {
	if err := f.api.ApplyTo(config); err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	kube, err := kubernetes.NewForConfig(config.ClientConfig)
	if err != nil {
		return err
	}
	if f.serving.ServerCert.CertKey.CertFile == "" {
		dyn, err := dynamic.NewForConfig(config.ClientConfig)
		if err != nil {
			return err
		}
		manager := certificates.New(f.certificates, kube, dyn)
		if err := manager.Sync(ctx); err != nil {
			return err
		}
		f.serving.ServerCert.GeneratedCert = manager
		go manager.Run(ctx)
	}
	if err := f.serving.ApplyTo(&config.SecureServing, &config.LoopbackClientConfig); err != nil {
		return fmt.Errorf("apply the flags of serving: %w", err)
	}
	if err := f.authentication.ApplyTo(&config.Authentication, config.SecureServing, config.OpenAPIConfig); err != nil {
		return fmt.Errorf("apply the flags of authentication: %w", err)
	}
	if err := f.authorization.ApplyTo(&config.Authorization); err != nil {
		return fmt.Errorf("apply the flags of authorization: %w", err)
	}
	if err := f.audit.ApplyTo(&config.Config); err != nil {
		return fmt.Errorf("apply the flags of the audit log: %w", err)
	}
	if err := f.features.ApplyTo(&config.Config, kube, config.SharedInformerFactory); err != nil {
		return fmt.Errorf("apply the flags of priority and fairness: %w", err)
	}
	return nil
}

func clients(config *clientrest.Config) (kubernetes.Interface, versioned.Interface, error) {
	config = clientrest.CopyConfig(config)
	config.QPS, config.Burst = 50, 100 // a Pod2Plan makes ten requests
	sample, err := versioned.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	fast := clientrest.CopyConfig(config)
	fast.ContentType, fast.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	kube, err := kubernetes.NewForConfig(fast)
	return kube, sample, err
}
