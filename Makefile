# `make` lists the targets. Each sets up what it needs (scripts/setup).

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

CARGO := scripts/cargo
# Passed on to the command of `make demo`, `make bench` and `make bench-peers`.
ARGS ?=
# How long `make fuzz` runs each target, in seconds.
FUZZ_SECONDS ?= 600

.PHONY: help
help: ## List the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## Install what is missing: Debian packages and Rust
	@scripts/setup

.PHONY: build
build: setup ## Build the commands, target/release/weft and weft-lab
	$(CARGO) build --locked --release --package weft --package weft-lab

.PHONY: build-demo
build-demo: setup
	$(CARGO) build --locked --profile demo --no-default-features --package weft-lab

.PHONY: demo
demo: build-demo ## Show a policy at work on real traffic; options by ARGS='--duration 30'
	@scripts/demo $(ARGS)

.PHONY: test
test: setup ## Run all checks and all tests
	@scripts/test

.PHONY: test-long
test-long: setup ## All checks and all tests, with a minute for each loop of changed inputs
	@scripts/test --long

.PHONY: test-kernels
test-kernels: setup ## Test on two newer kernels in an emulated machine (fetches them; needs root; exit 3: skipped)
	@scripts/test-kernels

.PHONY: test-prometheus
test-prometheus: setup ## Test the daemon's metrics with Debian's prometheus (fetches its package, installs nothing)
	@scripts/test-prometheus

.PHONY: test-engines
test-engines: setup ## Run a campaign on GNU parallel, HyperQueue, Slurm and Ray, with kills (fetches them; needs root; exit 3: skipped)
	@scripts/test-engines $(ARGS)

.PHONY: test-python
test-python: setup ## Build the Python package's wheel and test it in a fresh environment (fetches from PyPI; exit 3: skipped)
	@scripts/test-python $(ARGS)

.PHONY: test-traces
test-traces: setup ## Test traces and tables with Perfetto's messages and pyarrow (from PyPI, in target/; exit 3: skipped)
	@scripts/test-traces

.PHONY: package
package: setup ## Make a Debian package of the release build, in target/package
	@scripts/package

.PHONY: test-package
test-package: setup ## Install the package in a fresh Debian, boot it, and test it there (needs root; exit 3: skipped)
	@scripts/test-package

.PHONY: playground
playground: setup ## Make the playground: policies and arrivals in a page, by WebAssembly; tried in Chromium (installs it; exit 3: skipped)
	@scripts/playground

.PHONY: demo-containers
demo-containers: setup ## Two containers share a link by the CNI plugin (needs root; exit 3: skipped)
	@scripts/demo-containers $(ARGS)

.PHONY: demo-deadlines
demo-deadlines: build ## memcached meets deadlines under load by lstf, and not by fair (needs root; exit 3: skipped)
	@scripts/demo-deadlines $(ARGS)

.PHONY: image
image: setup ## Make an image of the daemon as an OCI archive, and run it with podman (needs root; exit 3: skipped)
	@scripts/image --test

.PHONY: lint
lint: setup ## Run the format check and the lints only
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets --features weft-fuzz/targets -- -D warnings

.PHONY: fmt
fmt: setup ## Format the sources
	$(CARGO) fmt --all

.PHONY: bench
bench: setup ## Measure the engine; options by ARGS=
	$(CARGO) bench --locked --package weft-sim $(ARGS)

.PHONY: bench-peers
bench-peers: setup ## Compare the simulator's speed with ns-3 (installs it); options by ARGS='--json FILE'
	@scripts/bench-peers $(ARGS)

.PHONY: audit
audit: setup ## Check dependencies: licences, bans, sources, advisories (builds cargo-deny; exit 3: no advisories)
	@scripts/audit

.PHONY: fuzz
fuzz: setup ## New cases for property tests, then the parsers, FUZZ_SECONDS=600 each (needs nightly Rust and cargo-fuzz)
	scripts/fuzz $(FUZZ_SECONDS)

.PHONY: clean
clean: ## Remove what was built
	$(CARGO) clean
