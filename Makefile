# Each target does all of its own set-up on a Debian machine with a Rust toolchain.

CARGO ?= cargo
FUZZ_SECONDS ?= 300
SIM_HOURS ?= 2000
SIM_FROM ?= 1000
SIM_SEED ?=
ARGS ?=
# --ignored: only those that make test leaves out.
CLIENTS ?= --include-ignored
DIFFERENTIAL_SECONDS ?= 600
DIFFERENTIAL_SEED ?=
# Panics name the files of crates, and where those lie differs from machine to machine.
REMAP = --remap-path-prefix=$(CURDIR)=/redlock-proxy --remap-path-prefix=$(or $(CARGO_HOME),$(HOME)/.cargo)=/cargo

.DEFAULT_GOAL := help
.PHONY: help run release dist test-dist test-dist-quick test test-packages test-model test-sim test-planted test-mutants test-browser \
	test-clients test-instructions clients-page test-applications applications-page chaos reliability-page lint bench fuzz \
	fuzz-differential docs

help: ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

run: ## build, start three local masters and the proxy on 127.0.0.1:6379; ARGS="--listen HOST:PORT" elsewhere
	@scripts/install-missing redis-server redis-tools
	$(CARGO) build --release --locked
	@exec target/release/redlock-proxy dev $(ARGS)

release: ## build target/release/redlock-proxy, the same bytes in whatever directory
	RUSTFLAGS="$(RUSTFLAGS) $(REMAP)" $(CARGO) build --release --locked
	@sha256sum $${CARGO_TARGET_DIR:-target}/release/redlock-proxy

dist: ## build target/dist: a tarball with a static binary, a Debian package, an image, a Helm chart, and their sums
	@scripts/install-missing musl-tools ca-certificates python3
	RUSTFLAGS="$(RUSTFLAGS) $(REMAP)" CARGO=$(CARGO) scripts/dist

test-dist: dist ## the same, then use each file as its user would, and build it again in another directory
	@scripts/install-missing redis-server redis-tools skopeo lintian systemd
	CARGO=$(CARGO) scripts/check-dist

test-dist-quick: ## pack the binary that the tests have built, and use each file as far as that is possible
	@scripts/install-missing ca-certificates python3 redis-server redis-tools skopeo lintian systemd
	$(CARGO) build --locked
	@export CARGO=$(CARGO) DIST_BINARY=$${CARGO_TARGET_DIR:-target}/debug/redlock-proxy; \
		scripts/dist && scripts/check-dist

test: ## run all tests against real redis-server processes
	@scripts/install-missing redis-server redis-tools python3 python3-venv npm postgresql
	$(CARGO) test --locked

test-packages: ## give every file of config/, scripts and the metrics to the tool that will read it
	@scripts/install-missing redis-server redis-tools systemd prometheus python3 python3-venv curl \
		shellcheck yamllint mandoc zsh fish
	CARGO=$(CARGO) scripts/check-packages

test-model: ## explore all orders of events that the models of the decisions have, for some minutes
	$(CARGO) test --release --locked --test keyspace --test leases --test registers --test roster -- --include-ignored

test-sim: ## simulate SIM_HOURS of faults in virtual time, from seed SIM_FROM on; SIM_SEED=n shows one run
	SIM_HOURS=$(SIM_HOURS) SIM_FROM=$(SIM_FROM) SIM_SEED=$(SIM_SEED) \
		$(CARGO) test --profile simulation --locked --test simulation -- --ignored --nocapture

test-planted: ## plant every bug of tests/planted, for half an hour, and see that the test it names fails
	@scripts/install-missing redis-server redis-tools patch
	CARGO=$(CARGO) scripts/planted-bugs

test-mutants: ## change the decisions in every way that cargo-mutants knows, and see that a test fails
	@if ! $(CARGO) mutants --version >/dev/null 2>&1; then $(CARGO) install --locked cargo-mutants; fi
	$(CARGO) mutants --jobs 1 --output target

test-instructions: ## count the instructions of a request, and see that they are not many more than before
	@scripts/install-missing redis-server redis-tools valgrind
	CARGO=$(CARGO) scripts/instructions

test-browser: ## look at the status page with a headless Chromium
	@scripts/install-missing redis-server redis-tools chromium chromium-driver
	$(CARGO) test --locked --test status_page -- --include-ignored

test-clients: ## run the published clients of every language, some of which make test leaves out
	@scripts/install-missing redis-server redis-tools python3 python3-venv npm \
		$$(cat tests/clients/*/debian-packages 2>/dev/null)
	$(CARGO) test --locked --test unmodified_clients -- $(CLIENTS)

clients-page: ## the same, and write docs/clients.md
	UPDATE_DOCS=1 $(MAKE) test-clients

test-applications: ## run the published applications of every language, some of which make test leaves out
	@scripts/install-missing redis-server redis-tools $$(cat tests/applications/*/debian-packages)
	$(CARGO) test --locked --test unmodified_applications -- --include-ignored --nocapture

applications-page: ## the same, and write docs/applications.md
	UPDATE_DOCS=1 $(MAKE) test-applications

chaos: ## let everything fail under clients of this proxy and of others, CHAOS_SECONDS for each kind, from CHAOS_SEED
	@scripts/install-missing redis-server redis-tools python3 python3-venv npm \
		$$(cat tests/clients/java/debian-packages)
	$(CARGO) test --locked --test chaos every_ -- --include-ignored --nocapture --test-threads 1

reliability-page: ## the same, and write what was seen into docs/reliability.md
	UPDATE_DOCS=1 $(MAKE) chaos

lint: ## check format, lints, documentation and dependencies
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --document-private-items
	@if $(CARGO) deny --version >/dev/null 2>&1; then \
		$(CARGO) deny --locked check; \
	else \
		echo "dependencies not checked: cargo-deny is not installed (cargo install --locked cargo-deny)"; \
	fi

bench: ## measure against one Redis and twemproxy, and write benches/RESULTS.md
	@scripts/install-missing redis-server redis-tools nutcracker
	PATH="$$PATH:/usr/sbin" $(CARGO) bench --locked

fuzz: ## search for requests that break the decoder, for FUZZ_SECONDS
	@if ! $(CARGO) fuzz --version >/dev/null 2>&1; then $(CARGO) install --locked cargo-fuzz; fi
	@set -e; for target in $$($(CARGO) +nightly fuzz list); do \
		$(CARGO) +nightly fuzz run $$target -- -max_total_time=$(FUZZ_SECONDS); \
	done

fuzz-differential: ## compare with one Redis, for DIFFERENTIAL_SECONDS, from DIFFERENTIAL_SEED on
	@scripts/install-missing redis-server redis-tools
	DIFFERENTIAL_SECONDS=$(DIFFERENTIAL_SECONDS) $(if $(DIFFERENTIAL_SEED),DIFFERENTIAL_SEED=$(DIFFERENTIAL_SEED)) \
		$(CARGO) test --locked --test differential -- --nocapture

docs: ## write docs/commands.md, and build the documentation of the source in target/doc
	UPDATE_DOCS=1 $(CARGO) test --locked --test documentation command_table
	$(CARGO) doc --locked --no-deps --document-private-items
	@echo "open target/doc/redlock_proxy/index.html"
