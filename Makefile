# Longshore's tasks. `make` alone lists them.

CARGO  ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
STEP   := scripts/step.sh
# For tests that nextest does not run, which sees to time limits itself: so long even where all is
# to be compiled and others use the machine.
LIMIT  := timeout --foreground 2700

# For each fuzz target, and for each part of the soak.
FUZZ_SECONDS ?= 300
SOAK_MINUTES ?= 60

# What a program under Longshore needs: the command and the POSIX shim beside it.
PRODUCT := -p longshore-cli -p longshore-preload

# The shared-memory code in a build in which loom takes the steps of threads.
LOOM := env RUSTFLAGS='--cfg loom' CARGO_TARGET_DIR=$(TARGET)/loom $(CARGO) test -p longshore-ring --release --test loom

.DEFAULT_GOAL := help
export PREFIX ?= /usr/local
export DESTDIR ?=

.PHONY: help ahead build install uninstall demo test deps toolchain lint unit doctest model-check loom miri boundaries docs e2e e2e-unserved soak bench bench-tables bench-impaired peers bench-instructions check-instructions bench-instructions-keep fuzz lint-deps update-tools mutants check-mutants clean packetdrill compat claims claims-times papers check-prediction check-aarch64

help: ## this list
	@echo 'Longshore: TCP/IP beside the program instead of in the kernel.'
	@echo
	@echo 'Start here:'
	@echo '  make demo      build it, serve files with nginx on it, compare with the kernel'
	@echo '  make test      everything that must pass before a commit (some 12 minutes, 20 the first time)'
	@echo
	@echo 'All tasks:'
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { sub(/\$$\(TARGET\)/, "$(TARGET)", $$2); printf "  %-24s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo 'By hand, after `make build`, as root:'
	@echo '  $(TARGET)/release/longshore run --addr 10.77.0.2/24 -- nginx -g "daemon off;"'
	@echo '  curl http://10.77.0.2/'

# The toolchain of rust-toolchain.toml, for everything that is compiled.
toolchain:
	@scripts/tools.sh stable

build: toolchain ## the program and its shim, in $(TARGET)/release
	$(CARGO) build --release $(PRODUCT)

install: build ## the program, its shim, manual, completions, and a configuration, to PREFIX=/usr/local
	@scripts/install.sh $(TARGET)/release

uninstall: ## take away what install put there
	@scripts/install.sh --remove

deps: toolchain ## install the programs that demo and test run (Debian), and the toolchain
	@scripts/install-deps.sh test

demo: deps ## nginx on Longshore: files, rates, crossings, beside the kernel
	@$(STEP) 'build' $(CARGO) build --release --quiet $(PRODUCT) -p longshore-measure
	@$(TARGET)/release/longshore-demo

# All of it runs, whatever fails, and then it is said what did. A short while for each fuzz
# target, and the same inputs each time, so that a failure is of the change; `make fuzz`
# takes longer and goes elsewhere each time.
test: export FUZZ_SECONDS = 30
test: export FUZZ_SEED = 1
test: deps ## all checks and tests; each fuzz target for half a minute
	@scripts/test.sh lint boundaries unit doctest loom miri docs e2e fuzz

# What the steps of `test` compile beside the workspace's tests, and nothing else: they find
# it done, or wait until it is. A step says itself what does not compile.
ahead: toolchain
	-@$(LOOM) --no-run --quiet
	-@$(CARGO) build --release --quiet $(PRODUCT)
	-@scripts/fuzz.sh --build
	-@scripts/miri.sh --no-run

lint: toolchain ## formatting and clippy
	@$(STEP) 'formatting' $(CARGO) fmt --all --check
	@$(STEP) 'formatting of fuzz targets' $(CARGO) fmt --manifest-path fuzz/Cargo.toml --check
	@$(STEP) 'clippy' $(CARGO) clippy --workspace --all-targets --all-features --quiet -- -D warnings

boundaries: toolchain ## which crate may use what
	@$(STEP) 'boundaries' scripts/check-boundaries.sh

# Both of these compile the whole workspace, and so the same.
unit: toolchain ## unit and property tests of all crates
	@$(STEP) 'unit tests' scripts/nextest.sh --workspace -E 'not package(longshore-e2e)'
	@$(STEP) 'at two workers' env LONGSHORE_TEST_WORKERS=2 \
		scripts/nextest.sh --workspace -E 'package(longshore-sockets)'

e2e: deps ## unmodified programs, end to end, on the kernel and on Longshore
	@$(STEP) 'build' $(CARGO) build --release --quiet $(PRODUCT)
	@$(STEP) 'end to end' scripts/nextest.sh --workspace -E 'package(longshore-e2e)'

# Not part of `make test`: it proves something of the tests.
e2e-unserved: deps ## what passes without Longshore, which no end-to-end test should, a quarter of an hour
	@$(STEP) 'build' $(CARGO) build --release --quiet $(PRODUCT)
	@$(STEP) 'end to end, without Longshore' scripts/e2e-unserved.sh

doctest: toolchain ## the examples in the documentation
	@$(STEP) 'doc tests' $(LIMIT) $(CARGO) test --workspace --doc --quiet

model-check: loom miri ## loom and Miri on the shared-memory code

loom: toolchain ## every order of steps in the shared-memory code
	@$(STEP) 'loom' $(LIMIT) $(LOOM)

miri: ## undefined behaviour in the shared-memory code and the interface on it
	@$(STEP) 'miri' $(LIMIT) scripts/miri.sh

docs: toolchain ## documentation without a broken link, and with the counts that are written down
	@$(STEP) 'counts of docs/instructions.md' scripts/bench-instructions.sh --document
	@$(STEP) 'rustdoc' env RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps --document-private-items --quiet

soak: deps ## the long versions: 1 GB, 1000 kills, SOAK_MINUTES=60 each of simulation and fuzzing
	@$(STEP) 'simulation' env LONGSHORE_MINUTES=$(SOAK_MINUTES) \
		$(CARGO) test -p longshore-tcp --release --test sim any_path -- --nocapture
	@$(STEP) 'simulation of whole stacks' env LONGSHORE_MINUTES=$(SOAK_MINUTES) \
		$(CARGO) test -p longshore-stack --lib simulation_delivers -- --nocapture
	@$(STEP) 'fuzzing' scripts/fuzz.sh $$(($(SOAK_MINUTES) * 60))
	@$(STEP) 'build' $(CARGO) build --release --quiet $(PRODUCT)
	@$(STEP) 'end to end, without Longshore' scripts/e2e-unserved.sh
	@$(STEP) 'end to end over a modelled bus' scripts/e2e-over.sh bus:pcie-gen4x8
	@$(STEP) 'end to end over a link' scripts/e2e-over.sh link
	@$(STEP) 'soak' env LONGSHORE_SOAK=1 LONGSHORE_MINUTES=$(SOAK_MINUTES) scripts/nextest.sh --profile soak --workspace \
		-E 'package(longshore-e2e)'

bench: deps ## Longshore beside the kernel; BENCH="--quick bulk" to choose
	@scripts/install-deps.sh rates
	@$(STEP) 'build' $(CARGO) build --release --quiet $(PRODUCT) -p longshore-measure
	@$(TARGET)/release/longshore-bench $(BENCH)

bench-tables: deps ## the tables of README.md and docs/performance.md measured anew, some 20 minutes, as root
	@scripts/install-deps.sh rates
	@$(STEP) 'build' $(CARGO) build --release --quiet $(PRODUCT) -p longshore-measure
	@$(TARGET)/release/longshore-bench --repeats 3 --markdown

peers: build ## Longshore beside pasta, slirp4netns, gVisor and smoltcp, which it fetches, as root; ROUNDS=3
	@scripts/install-deps.sh peers
	@scripts/peers-fetch.sh
	@scripts/peers.sh $(ROUNDS)

bench-impaired: deps ## goodput over bad paths, hours; CELLS='"loss 1 %" "rtt 20 ms"' to choose
	@$(STEP) 'build' $(CARGO) build --release --quiet $(PRODUCT) -p longshore-measure
	@$(TARGET)/release/longshore-bench $(BENCH) impaired $(CELLS)

bench-instructions: check-instructions ## instructions for each packet, counted by callgrind

check-instructions: toolchain ## the same; fails if a part has become dearer by more than 3 %
	@scripts/install-deps.sh bench
	@scripts/bench-instructions.sh

bench-instructions-keep: toolchain ## the same, and write the counts down for the next time
	@scripts/install-deps.sh bench
	@scripts/bench-instructions.sh --keep

# Counts alone: they repeat, whatever else the machine does.
claims: build ## what the papers claim, held against counts of this build; fails if what held no longer does
	@scripts/install-deps.sh measure
	@$(TARGET)/release/longshore measure all --only path --only characterize --only bus --fresh \
		--out $(TARGET)/claims.html --claims docs/papers/claims.md --plots docs/papers

claims-times: build ## the same for claims of times, which need a quiet machine
	@scripts/install-deps.sh measure
	@$(TARGET)/release/longshore measure all --only sweep --only latency --only cpu --only host \
		--fresh --out $(TARGET)/claims-times.html --claims docs/papers/claims.md \
		--plots docs/papers

papers: build ## all experiments of the papers: claims and plots of docs/papers, and a page; 8 minutes, a quiet machine
	@scripts/install-deps.sh measure
	@$(TARGET)/release/longshore measure all --fresh --out $(TARGET)/papers.html \
		--claims docs/papers/claims.md --plots docs/papers

check-prediction: build ## what is predicted of buses, held against the same work over modelled ones, within 10 %
	@scripts/install-deps.sh measure
	@$(TARGET)/release/longshore measure predict --check

packetdrill: build ## Google's packetdrill beside the kernel; PACKETDRILL=path of a checkout, or it is fetched
	@scripts/install-deps.sh packetdrill
	@scripts/packetdrill.sh $(PACKETDRILL)

compat: build ## tests of CPython, libuv, LTP, Node.js, Perl, Tcl beside the kernel, hours; LTP=path, COMPAT="--help"
	@scripts/install-deps.sh compat
	@PYTHONPATH=tests/compat python3 -m longshore_compat $(if $(LIBUV),--libuv $(LIBUV)) \
		$(if $(LTP),--ltp $(LTP)) $(COMPAT)

fuzz: ## fuzz packets, descriptors, segments, calls; FUZZ_SECONDS=300 for each
	@$(STEP) 'fuzzing' scripts/fuzz.sh $(FUZZ_SECONDS)

mutants: toolchain ## what changes of the code no test notices, hours; MUTANTS="wire crates/tcp/src/recovery/**" QUICK=1 SHARD=0/20 MINUTES=60
	@MUTANTS='$(MUTANTS)' QUICK='$(QUICK)' SHARD='$(SHARD)' MINUTES='$(MINUTES)' FRESH='$(FRESH)' scripts/mutants.sh

check-mutants: toolchain ## the tests of the program that makes those changes
	@$(STEP) 'mutants' env CARGO_TARGET_DIR=$(TARGET)/mutants/tool $(CARGO) test --quiet --locked --manifest-path tests/mutants/schema/Cargo.toml

# Not part of `make test`: it compiles all of it once more.
check-aarch64: toolchain ## for AArch64: clippy, the program, and the unit tests under qemu
	@scripts/check-aarch64.sh

lint-deps: toolchain ## licences and sources of the crates we use; advisories where they can be fetched
	@scripts/lint-deps.sh

update-tools: toolchain ## move all pins of toolchains and tools to the newest that pass
	@scripts/update-tools.sh

clean: ## remove what was built and measured
	$(CARGO) clean
	rm -rf bench-results
