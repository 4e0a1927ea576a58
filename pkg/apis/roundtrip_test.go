// Package apis_test tests all types of this project.
package apis_test

import (
	"math/rand"
	"testing"

	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/apitesting/roundtrip"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	samplecrdv1 "github.com/pod2/pod2/pkg/apis/samplecrd/v1"
	stablev1 "github.com/pod2/pod2/pkg/apis/stable/v1"
	stablev1beta1 "github.com/pod2/pod2/pkg/apis/stable/v1beta1"
	"github.com/pod2/pod2/test/chance"
)

// No field is lost or changed on the way to the API server and back.
func TestRoundTrip(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, install := range []func(*runtime.Scheme) error{samplecrdv1.Install, stablev1.Install, stablev1beta1.Install} {
		if err := install(scheme); err != nil {
			t.Fatal(err)
		}
	}
	codecs := serializer.NewCodecFactory(scheme)
	fill := fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(int64(chance.Seed(t))), codecs)
	roundtrip.RoundTripExternalTypesWithoutProtobuf(t, scheme, codecs, fill, nil)
}
