# What a developer runs. A comment after a target's `##` is its line in `make help`.

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build the controller, bin/pod2-controller, the agent of nodes, bin/pod2-agent, and the plugin, bin/kubectl-pod2
	@echo "Building bin/pod2-controller, bin/pod2-agent and bin/kubectl-pod2 (a minute or two the first time) ..."
	@CGO_ENABLED=0 go build -trimpath -o bin/pod2-controller .
	@CGO_ENABLED=0 GOOS=linux go build -trimpath -o bin/pod2-agent ./cmd/pod2-agent
	@CGO_ENABLED=0 go build -trimpath -o bin/kubectl-pod2 ./cmd/kubectl-pod2
	@cp hack/kubectl_complete-pod2 bin/

.PHONY: demo
demo: cluster-tools build ## Show all of it on a local cluster, from nothing; leaves it running
	@hack/demo.sh up

.PHONY: demo-down
demo-down: ## Stop the demo's controller and cluster and remove them
	@hack/demo.sh down

### Tests

.PHONY: test
test: unit alerts integration ## Run every test

.PHONY: unit
unit: ## Run the tests that need nothing but Go
	go test -timeout=30m -skip '^($(harnesses)|TestModel)' ./...
	@echo What the harnesses of docs/reliability.md visited:
	@bash -o pipefail -c "go test -timeout=30m -v -run '^($(harnesses)|TestModel)' . ./pkg/reconcile | grep -v '^ *=== '"
	go test -C test/bench ./...
	go test -C test/prose ./...

.PHONY: kernel-test
kernel-test: ## Run what needs a Linux kernel, and root on it, in network namespaces that it makes and removes
	@if why=$$(test/e2e/e2e.sh lacks kernel); then echo "The tests of the kernel: $$why: skipped"; \
	else CGO_ENABLED=0 go test -tags=kernel -count=1 -timeout=10m ./pkg/agent/kernel ./cmd/pod2-agent; fi

# Thousands of runs of the controller, of which the race detector sees one scenario.
harnesses = TestCrashAtEveryWrite|TestFrozenWatches|TestRestartOnAnOlderView|TestHeldWrites|TestLeaderIsCutOff|TestTwoActive|TestFaults

# Tests mostly wait: more of them at once than there are cores.
.PHONY: integration
integration: cluster-tools build ## Run the tests on a real control plane, which they start and remove
	go test -tags=integration -count=1 -timeout=20m -parallel=8 ./test/integration

.PHONY: e2e
e2e: ## Run the tests on three real kubelets, in namespaces of their own: needs root on Linux, and says so elsewhere
	@test/e2e/e2e.sh test

.PHONY: fuzz
fuzz: ## Try what nobody thought of, in every fuzz target for FUZZTIME (10s)
	@hack/fuzz.sh $(FUZZTIME)

.PHONY: chaos
chaos: export CHAOS_ACTIONS ?= 400
chaos: cluster-tools build ## Kill controllers, API server and etcd under CHAOS_ACTIONS=3600 (an hour's) of what users do; lose watches
	go test -tags=integration,chaos -count=1 -timeout=60m ./test/integration -run '^TestChaos' -v

.PHONY: alerts
alerts: bin/promtool ## Check the alert rules, and run their tests
	@bin/promtool check rules artifacts/alerts/pod2.rules.yaml
	@bin/promtool test rules artifacts/alerts/pod2.rules.test.yaml

# Without service discovery, which would make it three times as much to build.
bin/promtool: hack/promtool/go.mod hack/promtool/go.sum
	@echo "Building promtool into bin/ from Go modules (a few minutes the first time) ..."
	@CGO_ENABLED=0 go build -C hack/promtool -trimpath -tags remove_all_sd -ldflags "-s -w" -o ../../bin/ tool

.PHONY: race
race: cluster-tools ## Run with the race detector what has goroutines, and the controller where much happens at once
	go test -race -skip '$(harnesses)|TestModel' . ./pkg/reconcile ./test/apiserver ./test/sim ./test/model
	go test -race -run '($(harnesses))/delete_a_Network' .
	@mkdir -p bin/race
	CGO_ENABLED=1 go build -race -o bin/race/pod2-controller .
	POD2_CONTROLLER=$(CURDIR)/bin/race/pod2-controller go test -race -tags=integration -count=1 -timeout=20m ./test/integration \
		-run 'AtOnce|Killed|SelfHealing|Lease|Uninstall|RollingUpdate'

.PHONY: check-long
check-long: ## Run the larger worlds, every pair of crashes, every view and an hour of chaos of docs/reliability.md: for a night, and some GB
	POD2_LONG=1 go test -count=1 -timeout=6h -skip '$(harnesses)|TestModel' ./...
	go test -count=1 -v -timeout=6h -tags=long -run '^Test(Large)?Model|^TestAHundredThousand' ./pkg/reconcile
	POD2_LONG=1 go test -count=1 -timeout=6h -v -run '$(harnesses)' .
	$(MAKE) chaos CHAOS_ACTIONS=3600

.PHONY: mutants
mutants: ## Test the tests: plant each fault of test/mutants, print who finds it
	@test/mutants/mutants.sh

### Figures

.PHONY: bench
bench: cluster-tools build ## Measure the controller beside Kubernetes' own, and write docs/performance.md: some 45 minutes of a quiet machine of two cores
	@test/bench/bench.sh

.PHONY: bench-block-sizes
bench-block-sizes: cluster-tools build ## Measure blocks of 64, 256 and 1,024 addresses, and write docs/performance/block-sizes.md: a quarter of an hour
	@test/bench/bench.sh --block-sizes

# In a mount namespace of its own: whatever happens, no namespace of a router stays mounted.
.PHONY: bench-dataplane
bench-dataplane: ## Measure what Networks do to packets and nodes, and write docs/performance-dataplane.md: needs root on Linux, and says so elsewhere
	@if [ "$$(uname)" = Linux ] && [ "$$(id -u)" = 0 ]; then \
	  $(MAKE) --no-print-directory cluster-tools build && unshare --mount go run -C test/bench ./dataplane --root="$(CURDIR)" $(BENCH_FLAGS); \
	else printf 'make bench-dataplane needs root on Linux, for network namespaces\nskipped\n'; fi

### Generated code and lint

.PHONY: generate
generate: ## Write clients, deepcopy and CRDs anew from pkg/apis
	@hack/update-codegen.sh

.PHONY: verify
verify: ## Fail if anything generated is stale, or a planted fault fits no longer
	@test/mutants/mutants.sh --check
	@hack/verify-codegen.sh

.PHONY: lint
lint: bin/.lint-tools ## Run golangci-lint; .golangci.yml says which linters, and why
	@bin/golangci-lint run --allow-parallel-runners ./...
	@cd test/bench && ../../bin/golangci-lint run --allow-parallel-runners ./...

bin/.lint-tools: hack/lint/go.mod hack/lint/go.sum
	@echo "Building golangci-lint into bin/ from Go modules (a few minutes the first time) ..."
	@mkdir -p bin
	@go build -C hack/lint -o ../../bin/ tool
	@touch $@

### The local control plane: hack/localcluster.sh says what it is and which variables `up` reads

.PHONY: cluster-tools
cluster-tools: bin/.cluster-tools ## Build the local control plane from Go modules: about 7 minutes, once

# The stamp is newer than the lists of modules exactly when the binaries are built from them.
bin/.cluster-tools: hack/localcluster/go.mod hack/localcluster/go.sum hack/coredns/go.mod hack/coredns/go.sum hack/coredns/main.go
	@hack/localcluster.sh tools
	@touch $@

.PHONY: cluster-up
cluster-up: cluster-tools ## Start it; leaves .localcluster/kubeconfig and bin/kubectl (NODES=4: KWOK nodes of 110 pods)
	@hack/localcluster.sh up

.PHONY: cluster-down
cluster-down: ## Stop it and remove it
	@hack/localcluster.sh down

### Real nodes: test/e2e/e2e.sh says how, docs/e2e.md what they are

.PHONY: e2e-tools
e2e-tools: bin/.e2e-tools ## Build kubelet, containerd, runc, Multus and CNI plugins from Go modules: about ten minutes, once

bin/.e2e-tools: $(wildcard test/e2e/tools/*/go.mod test/e2e/tools/*/go.sum test/e2e/*/*.go) test/e2e/tools.sh \
		hack/localcluster/go.mod hack/localcluster/go.sum hack/localcluster/kubelet/main.go
	@test/e2e/e2e.sh tools
	@touch $@
