# Commands for developers. `make help` prints the comment after a target's `##`.

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/pod2-controller, bin/pod2-agent, the CNI plugin bin/pod2-cni and the plugin bin/kubectl-pod2
	@echo "Building bin/pod2-controller, bin/pod2-agent, bin/pod2-cni and bin/kubectl-pod2 (a minute or two the first time) ..."
	@CGO_ENABLED=0 go build -trimpath -o bin/pod2-controller .
	@CGO_ENABLED=0 GOOS=linux go build -trimpath -o bin/pod2-agent ./cmd/pod2-agent
	@CGO_ENABLED=0 GOOS=linux go build -trimpath -ldflags "-s -w" -o bin/pod2-cni ./cmd/pod2-cni
	@CGO_ENABLED=0 go build -trimpath -o bin/kubectl-pod2 ./cmd/kubectl-pod2
	@cp hack/kubectl_complete-pod2 bin/

# The variables of make release. PLATFORMS are OS/ARCH, separated by commas; all by default.
VERSION ?= $(shell cat VERSION)
REGISTRY ?=
OUT ?= dist
PLATFORMS ?=

.PHONY: release
release: release-tool ## Make dist/: images, manifests, charts, archives of the plugin and SBOMs (VERSION=v0.1.0; REGISTRY=... pushes the images)
	@bin/release --root="$(CURDIR)" --version="$(VERSION)" --registry="$(REGISTRY)" --out="$(OUT)" $(if $(PLATFORMS),--platforms="$(PLATFORMS)")

.PHONY: release-tool
release-tool:
	@CGO_ENABLED=0 go build -C hack/release -trimpath -o ../../bin/release .

.PHONY: release-test
release-test: ## Make two releases for this machine and linux/arm64 from two directories, and compare them; test hack/release
	@hack/release/test.sh

# The release that integration and end-to-end tests install.
.PHONY: local-release
local-release: release-tool
	@bin/release --root="$(CURDIR)" --out=bin/dist --platforms=linux/$(shell go env GOARCH)

.PHONY: demo
demo: cluster-tools build ## Start a local cluster, show all features on it, and leave it running (DASHBOARD=1: open the dashboard)
	@hack/demo.sh up

.PHONY: demo-down
demo-down: ## Stop and remove the demo's controller and cluster
	@hack/demo.sh down

### Tests

.PHONY: test
test: unit alerts integration ## Run the unit, alert and integration tests

.PHONY: unit
unit: ## Run the tests that need only Go
	go test -timeout=30m -skip '^($(harnesses)|TestModel)' ./...
	@echo What the harnesses of docs/contributing/reliability.md visited:
	@bash -o pipefail -c "go test -timeout=30m -v -run '^($(harnesses)|TestModel)' . ./pkg/reconcile | grep -v '^ *=== '"
	go test -C test/bench ./...
	go test -C cmd/pod2-apiserver ./...
	go test -C hack/release ./...
	go test -C test/prose -count=1 ./...

.PHONY: kernel-test
kernel-test: ## Run the data plane's tests on a real kernel, in temporary network namespaces (root on Linux)
	@if why=$$(test/e2e/e2e.sh lacks kernel); then echo "Kernel tests: $$why: skipped"; \
	else CGO_ENABLED=0 go test -tags=kernel -count=1 -timeout=10m ./pkg/agent/bpf ./pkg/agent/cni ./pkg/agent/veth ./pkg/agent/kernel ./pkg/agent/node ./cmd/pod2-agent ./cmd/pod2-cni; fi

.PHONY: kernel-matrix
kernel-matrix: ## Run the tests of make kernel-test on Debian's kernels 6.1 and 6.12, and those of programs, interfaces and filter on 6.1 for arm64, in QEMU (root on Debian; 25 minutes)
	@failed=0; test/e2e/kernels.sh 6.1 6.12 || failed=1; \
	PACKAGES="pkg/agent/bpf pkg/agent/veth pkg/agent/kernel" test/e2e/kernels.sh 6.1/arm64 || failed=1; exit $$failed

# These run the controller thousands of times. The race detector gets only one of their scenarios.
harnesses = TestCrashAtEveryWrite|TestFrozenWatches|TestRestartOnAnOlderView|TestHeldWrites|TestLeaderIsCutOff|TestTwoActive|TestFaults

.PHONY: apiserver
apiserver: ## Build bin/pod2-apiserver, the optional aggregated API server (three minutes the first time)
	@CGO_ENABLED=0 go build -C cmd/pod2-apiserver -trimpath -o ../../bin/pod2-apiserver .

# Tests mostly wait, so more of them run at once than there are cores.
.PHONY: integration
integration: cluster-tools build apiserver local-release bin/helm bin/promtool ## Run the tests on a real control plane that they start and remove
	go test -tags=integration -count=1 -timeout=35m -parallel=8 ./test/integration

.PHONY: smoke
smoke: cluster-tools build ## Install Pod2 on a local control plane, use it and uninstall it (K8S=1.33: on that version)
	K8S=$(K8S) go test -tags=integration,smoke -count=1 -timeout=5m ./test/integration -run '^TestSmoke$$'

.PHONY: upgrade-test
upgrade-test: cluster-tools build ## Upgrade a standing system from the previous version, downgrade it, and upgrade it again (needs the git history; two minutes)
	go test -tags=integration,upgrade -count=1 -timeout=15m ./test/integration -run '^TestUpgrade$$'

.PHONY: test-versions
test-versions: ## Run the integration tests on each supported version of Kubernetes, and print the results (two hours)
	@hack/test-versions.sh

.PHONY: e2e
e2e: ## Run the tests on three real kubelets, in temporary namespaces (root on Linux; otherwise skipped)
	@test/e2e/e2e.sh test

.PHONY: e2e-move
e2e-move: ## Move three kubelets from the data plane with bridges, and back (needs the git history; otherwise as make e2e)
	@test/e2e/move.sh bridges

.PHONY: e2e-upgrade
e2e-upgrade: ## Upgrade three kubelets from the previous version, downgrade and upgrade again, and count lost packets (as make e2e-move)
	@test/e2e/move.sh previous

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (10s)
	@hack/fuzz.sh $(FUZZTIME)

.PHONY: chaos
chaos: export CHAOS_ACTIONS ?= 400
chaos: cluster-tools build ## Kill controllers, API server and etcd, and lose watches, during 400 user actions (CHAOS_ACTIONS=3600 takes an hour)
	go test -tags=integration,chaos -count=1 -timeout=60m ./test/integration -run '^TestChaos' -v

.PHONY: alerts
alerts: bin/promtool ## Check the alert rules, run their tests, and run the queries of the dashboard on samples
	@bin/promtool check rules artifacts/alerts/pod2.rules.yaml
	@bin/promtool test rules artifacts/alerts/pod2.rules.test.yaml
	@bin/promtool test rules artifacts/dashboard/dashboard.test.yaml

# Built without service discovery, which would triple the build time.
bin/promtool: hack/promtool/go.mod hack/promtool/go.sum
	@echo "Building promtool into bin/ from Go modules (a few minutes the first time) ..."
	@CGO_ENABLED=0 go build -C hack/promtool -trimpath -tags remove_all_sd -ldflags "-s -w" -o ../../bin/ tool

# Charts that name a minimum version of Kubernetes need the version in `helm template` and `helm lint`.
helm_set = -X helm.sh/helm/v3/pkg/
bin/helm: hack/helm/go.mod hack/helm/go.sum
	@echo "Building Helm into bin/ from Go modules (a few minutes the first time) ..."
	@CGO_ENABLED=0 go build -C hack/helm -trimpath -o ../../bin/ -ldflags "-s -w \
	  -X helm.sh/helm/v3/internal/version.version=$$(go -C hack/helm list -m -f '{{.Version}}' helm.sh/helm/v3) \
	  $(helm_set)chartutil.k8sVersionMajor=1 $(helm_set)chartutil.k8sVersionMinor=36 \
	  $(helm_set)lint/rules.k8sVersionMajor=1 $(helm_set)lint/rules.k8sVersionMinor=36" tool

.PHONY: race
race: cluster-tools ## Run the tests of concurrent code, and some integration tests, with the race detector
	go test -race -skip '$(harnesses)|TestModel' . ./pkg/reconcile ./test/apiserver ./test/sim ./test/model
	go test -race -run '($(harnesses))/delete_a_Network' .
	@mkdir -p bin/race
	CGO_ENABLED=1 go build -race -o bin/race/pod2-controller .
	POD2_CONTROLLER=$(CURDIR)/bin/race/pod2-controller go test -race -tags=integration -count=1 -timeout=20m ./test/integration \
		-run 'AtOnce|Killed|SelfHealing|Lease|TestUninstall$$|RollingUpdate'

.PHONY: check-long
check-long: ## Run the larger worlds, every pair of crashes, every view and an hour of chaos of docs/contributing/reliability.md: for a night, and some GB
	POD2_LONG=1 go test -count=1 -timeout=6h -skip '$(harnesses)|TestModel' ./...
	go test -count=1 -v -timeout=6h -tags=long -run '^Test(Large)?Model|^TestAHundredThousand' ./pkg/reconcile
	POD2_LONG=1 go test -count=1 -timeout=6h -v -run '$(harnesses)' .
	$(MAKE) chaos CHAOS_ACTIONS=3600

.PHONY: mutants
mutants: ## Test the tests: plant each fault of test/mutants and print the harnesses that find it
	@test/mutants/mutants.sh

### Figures

.PHONY: bench
bench: cluster-tools build bench-peers bin/helm ## Compare Pod2 with Kubernetes' own controllers, OpenKruise, whereabouts and Spiderpool, and write docs/performance.md (20 to 35 minutes on an idle machine with two cores)
	@test/bench/bench.sh $(BENCH_FLAGS)

.PHONY: bench-full
bench-full: cluster-tools build bench-peers bin/helm ## The same with more contenders, pods and addresses, and with profiles (about two hours, estimated)
	@test/bench/bench.sh --full $(BENCH_FLAGS)

.PHONY: bench-peers
bench-peers: bin/.peers ## Build the other projects' programs for make bench from Go modules (ten minutes, once)

bin/.peers: test/bench/peers/build.sh $(wildcard test/bench/peers/*/go.mod test/bench/peers/*/go.sum)
	@echo "Building OpenKruise, whereabouts and Spiderpool into bin/peers/ from Go modules (ten minutes the first time) ..."
	@test/bench/peers/build.sh
	@touch $@

.PHONY: bench-block-sizes
bench-block-sizes: cluster-tools build ## Measure AddressBlocks of 64, 256 and 1,024 addresses, and write docs/performance/block-sizes.md (15 minutes)
	@test/bench/bench.sh --block-sizes

.PHONY: bench-fan-out
bench-fan-out: cluster-tools build ## Count the events of 500 agents, and write docs/performance/fan-out.md (10 minutes)
	go run -C test/bench ./fanout --root="$(CURDIR)" --out="$(CURDIR)/docs/performance" $(BENCH_FLAGS)

.PHONY: bench-scale
bench-scale: PODS ?= 100000
bench-scale: cluster-tools build ## Create PODS=100000 pods with fixed addresses on one control plane, and write docs/performance/scale.md (two hours, estimated, and 24 GiB)
	go run -C test/bench ./scale --root="$(CURDIR)" --out="$(CURDIR)/docs/performance" --pods=$(PODS) $(BENCH_FLAGS)

.PHONY: bench-dashboard
bench-dashboard: cluster-tools build ## Measure the dashboard with 10,000 pods and with a map of 65,536 cells (three minutes; installs Chromium on Debian)
	@hack/browser.sh >/dev/null && go test -C test/browser -tags=speed -count=1 -v -run '^(TestTenThousandPods|TestLargeMapIsFast)$$' ./...

# It runs in its own mount namespace, so nothing stays mounted if it fails.
.PHONY: bench-dataplane
bench-dataplane: ## Measure the data plane, and write docs/performance-dataplane.md (root on Linux; otherwise skipped)
	@if [ "$$(uname)" = Linux ] && [ "$$(id -u)" = 0 ]; then \
	  $(MAKE) --no-print-directory cluster-tools build && unshare --mount go run -C test/bench ./dataplane --root="$(CURDIR)" $(BENCH_FLAGS); \
	else printf 'make bench-dataplane needs root on Linux, for network namespaces\nskipped\n'; fi

.PHONY: bench-kernels
bench-kernels: ## Measure one stream of an IPv4 and an IPv6 Network on Debian's kernels 6.1 and 6.12, in QEMU (root on Debian; five minutes)
	@test/e2e/kernels.sh --bench 6.1 6.12

### Pictures

# A picture follows the colour scheme of its reader: theme 0 is light, 200 is dark.
pictures = docs/pictures
.PHONY: pictures
pictures: bin/d2 ## Draw docs/pictures/*.svg from the sources beside them
	@for source in docs/pictures/*.d2; do \
	  bin/d2 --layout=dagre --theme=0 --dark-theme=200 --pad=20 --omit-version "$$source" "$(pictures)/$$(basename "$$source" .d2).svg" || exit; \
	done

bin/d2: hack/d2/go.mod hack/d2/go.sum
	@echo "Building d2 into bin/ from Go modules (a minute or two the first time) ..."
	@CGO_ENABLED=0 go build -C hack/d2 -trimpath -ldflags "-s -w" -o ../../bin/ tool

### Generated code and lint

.PHONY: generate
generate: ## Generate clients, deepcopy and CRDs from pkg/apis, the programs of pkg/agent/bpf, the pages of make reference, and the charts
	@hack/update-codegen.sh
	@hack/update-reference.sh
	@hack/update-charts.sh
	@hack/update-bpf.sh

.PHONY: reference
reference: ## Write docs/reference/api.md, view-api.md, kubectl-pod2.md and flags.md from the types and the help texts
	@hack/update-reference.sh

.PHONY: verify
verify: ## Fail if a generated file or a picture is stale, or a patch of test/mutants no longer applies
	@test/mutants/mutants.sh --check
	@hack/verify-codegen.sh
	@drawn=$$(mktemp -d) && trap 'rm -rf "$$drawn"' EXIT && $(MAKE) --no-print-directory pictures pictures="$$drawn" && \
	for picture in "$$drawn"/*; do diff -q "$$picture" docs/pictures || { echo "run make pictures and commit the result" >&2; exit 1; }; done

.PHONY: lint
lint: bin/.lint-tools ## Run golangci-lint and actionlint; .golangci.yml lists the linters and the reasons for them
	@bin/golangci-lint run --allow-parallel-runners ./...
	@cd test/bench && ../../bin/golangci-lint run --allow-parallel-runners ./...
	@cd test/browser && ../../bin/golangci-lint run --allow-parallel-runners ./...
	@cd cmd/pod2-apiserver && ../../bin/golangci-lint run --allow-parallel-runners ./...
	@cd hack/release && ../../bin/golangci-lint run --allow-parallel-runners ./...
	@cd test/prose && ../../bin/golangci-lint run --allow-parallel-runners ./...
	@bin/actionlint -shellcheck= -pyflakes=

bin/.lint-tools: hack/lint/go.mod hack/lint/go.sum hack/actionlint/go.mod hack/actionlint/go.sum
	@echo "Building golangci-lint and actionlint into bin/ from Go modules (a few minutes the first time) ..."
	@mkdir -p bin
	@go build -C hack/lint -o ../../bin/ tool
	@go build -C hack/actionlint -o ../../bin/ tool
	@touch $@

### Documentation

.PHONY: docs
docs: bin/hugo ## Build the site of docs/ into public/, with navigation and search; works without a server
	@hack/hugo/build.sh
	@echo "The site is built: open public/index.html"

.PHONY: docs-test
docs-test: docs ## Open the site in headless Chromium, follow every link; installs Chromium on Debian
	@if hack/hugo/chromium.sh; then go test -tags=site -count=1 -run '^Test(Site|Browser)' ./docs; \
	else go test -tags=site -count=1 -run '^TestSite' ./docs && echo 'The test in a browser: no Chromium: skipped'; fi

.PHONY: dashboard-test
dashboard-test: cluster-tools build ## Test the page of kubectl pod2 dashboard in headless Chromium, in memory and on a real control plane; installs Chromium and npm on Debian
	@axe="$$(hack/browser.sh | tail -n 1)" && AXE="$$axe" go test -C test/browser -count=1 $(TEST_FLAGS) ./...

.PHONY: dashboard-pictures
dashboard-pictures: ## Draw the pictures of the dashboard in docs/pictures again
	@hack/browser.sh >/dev/null && PICTURES="$(CURDIR)/docs/pictures" go test -C test/browser -count=1 -run '^TestPictures$$' ./...

bin/hugo: hack/hugo/go.mod hack/hugo/go.sum
	@echo "Building Hugo into bin/ from Go modules (a few minutes the first time) ..."
	@CGO_ENABLED=0 go build -C hack/hugo -trimpath -ldflags "-s -w" -o ../../bin/ tool

### The local control plane: hack/localcluster.sh says what it is and which variables `up` reads

.PHONY: cluster-tools
cluster-tools: bin/.cluster-tools $(if $(K8S),$(if $(wildcard hack/localcluster/$(K8S)/go.mod),bin/.kubernetes-$(K8S))) ## Build the local control plane from Go modules (about 7 minutes, once; K8S=1.33: also that version)

# The stamp is newer than these files if and only if the binaries were built from them.
bin/.cluster-tools: hack/localcluster/go.mod hack/localcluster/go.sum hack/coredns/go.mod hack/coredns/go.sum hack/coredns/main.go
	@hack/localcluster.sh tools
	@touch $@

bin/.kubernetes-%: hack/localcluster/%/go.mod hack/localcluster/%/go.sum
	@K8S=$* hack/localcluster.sh tools
	@touch $@

.PHONY: cluster-up
cluster-up: cluster-tools ## Start the local control plane; see .localcluster/kubeconfig and bin/kubectl (NODES=4: KWOK nodes of 110 pods)
	@hack/localcluster.sh up

.PHONY: cluster-down
cluster-down: ## Stop and remove the local control plane
	@hack/localcluster.sh down

### Real nodes: test/e2e/e2e.sh says how, docs/contributing/e2e.md what they are

.PHONY: e2e-tools
e2e-tools: bin/.e2e-tools ## Build kubelet, containerd, runc, Multus and CNI plugins from Go modules (about ten minutes, once)

bin/.e2e-tools: $(wildcard test/e2e/tools/*/go.mod test/e2e/tools/*/go.sum test/e2e/*/*.go) test/e2e/tools.sh \
		hack/localcluster/go.mod hack/localcluster/go.sum hack/localcluster/kubelet/main.go
	@test/e2e/e2e.sh tools
	@touch $@
