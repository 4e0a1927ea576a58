# What a developer runs. A comment after a target's `##` is its line in `make help`.

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

### The local control plane: hack/localcluster.sh says what it is and which variables `up` reads

.PHONY: cluster-tools
cluster-tools: bin/.cluster-tools ## Build the local control plane from Go modules: about 5 minutes, once

# The stamp is newer than the list of modules exactly when the binaries are built from it.
bin/.cluster-tools: hack/localcluster/go.mod hack/localcluster/go.sum
	@hack/localcluster.sh tools
	@touch $@

.PHONY: cluster-up
cluster-up: cluster-tools ## Start it; leaves .localcluster/kubeconfig and bin/kubectl (NODES=4: KWOK nodes of 110 pods)
	@hack/localcluster.sh up

.PHONY: cluster-down
cluster-down: ## Stop it and remove it
	@hack/localcluster.sh down
