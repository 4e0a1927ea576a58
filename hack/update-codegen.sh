#!/usr/bin/env bash
# Generates deepcopy, register and defaults beside the types, pkg/client (clientset,
# listers, informers), and the CRDs in crd/. Run it after every change of pkg/apis; CI
# runs verify-codegen.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

module=github.com/pod2/pod2
groups=(samplecrd/v1 stable/v1 stable/v1beta1 k8scnicncfio/v1)
header=hack/boilerplate.go.txt
gen=$PWD/bin/gen

mkdir -p "$gen"
go build -C hack/tools -o "$gen/" tool
go build -C hack/tools -o "$gen/" ./crdtrim

apis=()
for group in "${groups[@]}"; do apis+=("./pkg/apis/$group"); done

find pkg/apis -name 'zz_generated.*' -delete
rm -rf pkg/client
"$gen/deepcopy-gen" --go-header-file "$header" --output-file zz_generated.deepcopy.go "${apis[@]}"
"$gen/register-gen" --go-header-file "$header" --output-file zz_generated.register.go "${apis[@]}"
"$gen/defaulter-gen" --go-header-file "$header" --output-file zz_generated.defaults.go "${apis[@]}"

"$gen/client-gen" --go-header-file "$header" --clientset-name versioned \
  --output-dir pkg/client/clientset --output-pkg $module/pkg/client/clientset \
  --input-base $module/pkg/apis "${groups[@]/#/--input=}"
"$gen/lister-gen" --go-header-file "$header" \
  --output-dir pkg/client/listers --output-pkg $module/pkg/client/listers "${apis[@]}"
"$gen/informer-gen" --go-header-file "$header" \
  --output-dir pkg/client/informers --output-pkg $module/pkg/client/informers \
  --versioned-clientset-package $module/pkg/client/clientset/versioned \
  --listers-package $module/pkg/client/listers "${apis[@]}"

# The API group of the aggregated API server, which is a module of its own.
(
  cd cmd/pod2-apiserver
  find . -name 'zz_generated.*' -delete
  "$gen/deepcopy-gen" --go-header-file "../../$header" --output-file zz_generated.deepcopy.go ./apis/view/v1alpha1
  "$gen/openapi-gen" --go-header-file "../../$header" --report-filename /dev/null \
    --output-dir openapi --output-pkg $module/cmd/pod2-apiserver/openapi --output-file zz_generated.openapi.go \
    --output-model-name-file zz_generated.model_name.go --readonly-pkg k8s.io/apimachinery/... \
    ./apis/view/v1alpha1 k8s.io/apimachinery/pkg/apis/meta/v1 k8s.io/apimachinery/pkg/runtime k8s.io/apimachinery/pkg/version
)

rm -f crd/*.yaml
"$gen/controller-gen" crd:generateEmbeddedObjectMeta=true paths=./pkg/apis/samplecrd/... paths=./pkg/apis/stable/... output:crd:dir=crd
"$gen/crdtrim" template,volumeClaimTemplates crd/*.yaml
"$gen/crdtrim" initContainers,containers,volumes,env,volumeMounts crd/samplecrd.k8s.io_sidecars.yaml
