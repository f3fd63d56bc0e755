# headrace: build, test, measure. `make help` lists the targets.
# Needs Go, Python 3.10+ with venv, a C and C++ compiler and make; all else is installed
# by the targets themselves, into build/ and .venv*/, at pinned versions.

GO      ?= go
PYTHON  ?= python3
# Each package has been tested on its seeds by then; this shows that every fuzzer still runs.
FUZZTIME ?= 1s
FUZZSECONDS ?= 180

export CGO_ENABLED ?= 1
# Go's own flags, and silence about functions of NVML's header that nobody calls.
export CGO_CFLAGS ?= -O2 -g -Wno-deprecated-declarations
BUILD  := -trimpath -ldflags="-s -w"
# giouring takes a function of package syscall by name, which the linker refuses
# without this flag (golang/go#67401): only builds with the tag uring have it.
LINKNAME := -checklinkname=0
CFLAGS := -O2 -g -fPIC -std=c11 -Wall -Wextra -Werror
PKG    := python/headrace
LINTER := build/tools/golangci-lint
WHEEL  := dist/wheel.stamp
TAG    ?= manylinux_2_34_x86_64

# Files whose change makes a new binary, library or wheel.
GOFILES := $(shell find . -path './.*' -prune -o -path ./build -prune -o -path ./data -prune -o -name '*.go' ! -name '*_test.go' -print) \
	$(wildcard codec/*.s cuda/*.[ch] cuda/nvcomp/*.[ch] cuda/kernels/*.ptx) go.mod go.sum
PYFILES := $(shell find python -name '*.py' -o -name '*.pyi' -o -name 'py.typed' -o -name 'pyproject.toml' 2>/dev/null)

.PHONY: help build uring lib wheel demo kernels kernels-check test check test-go test-device test-nocgo test-python test-torch test-gpu test-gpu-decoders fuzz-decoders gpu-binaries test-oracle test-decoders race fuzz-short lint vuln fmt brain brain-picture bench bench-compare bench-gpu tables soak clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# --- products

build: bin/headrace ## the command, bin/headrace

uring: ## the command with the io_uring reader, in place of bin/headrace
	$(GO) build -trimpath -tags uring,nvml -ldflags="-s -w $(LINKNAME)" -o bin/headrace ./cmd/headrace

lib: $(PKG)/libheadrace.so $(PKG)/libheadrace_client.so ## the shared libraries of the Python package

wheel: $(WHEEL) ## the wheel, dist/*.whl

demo: build ## write sample data and stream an epoch of random crops
	bin/headrace demo

# With NVML, which is loaded when the launcher asks for it and need not be there.
bin/headrace: $(GOFILES)
	$(GO) build $(BUILD) -tags nvml -o $@ ./cmd/headrace

$(PKG)/libheadrace.so: $(GOFILES) $(wildcard cabi/*.h)
	$(GO) build $(BUILD) -buildmode=c-shared -o $@ ./cabi

$(PKG)/libheadrace_client.so: $(wildcard cabi/client/*.c cabi/client/*.h)
	$(CC) $(CFLAGS) -shared -o $@ $(filter %.c,$^) -lm

$(WHEEL): bin/headrace $(PKG)/libheadrace.so $(PKG)/libheadrace_client.so $(PYFILES) .venv/ready
	rm -rf dist build/wheel python/build && mkdir -p dist $(PKG)/_bin && cp bin/headrace $(PKG)/_bin/
	.venv/bin/pip wheel -q --no-deps --no-build-isolation -w build/wheel ./python
	.venv/bin/wheel tags --remove --python-tag py3 --abi-tag none --platform-tag $(TAG) build/wheel/*.whl
	mv build/wheel/*.whl dist/ && rm -rf python/build && touch $@

# --- environments: one to build and lint, one clean for the tests of the wheel, one with the oracles

.venv/ready: tools/requirements.txt
	$(PYTHON) -m venv .venv || { echo 'no venv module: apt-get install python3-venv'; exit 1; }
	.venv/bin/pip install -q --disable-pip-version-check -r $< && touch $@

.venv-wheel/ready: tools/requirements-test.txt $(WHEEL)
	rm -rf .venv-wheel && $(PYTHON) -m venv .venv-wheel
	.venv-wheel/bin/pip install -q --disable-pip-version-check -r $< dist/*.whl && touch $@

.venv-torch/ready: tools/requirements-torch.txt
	$(PYTHON) -m venv .venv-torch
	.venv-torch/bin/pip install -q --disable-pip-version-check --no-cache-dir -r $< && touch $@

.venv-torch/wheel: .venv-torch/ready $(WHEEL)
	.venv-torch/bin/pip install -q --disable-pip-version-check --no-deps --force-reinstall dist/*.whl && touch $@

.venv-oracle/ready: tools/requirements-oracle.txt
	$(PYTHON) -m venv .venv-oracle
	.venv-oracle/bin/pip install -q --disable-pip-version-check -r $< && touch $@

.venv-oracle/wheel: .venv-oracle/ready $(WHEEL)
	.venv-oracle/bin/pip install -q --disable-pip-version-check --no-deps --force-reinstall dist/*.whl && touch $@

$(LINTER): tools/go.mod tools/go.sum
	$(GO) -C tools build -o $(CURDIR)/build/tools/ tool

# --- the CUDA kernels, by NVIDIA's compilers from their wheels; no GPU, no toolkit

NVCC_WHEELS := nvidia-cuda-nvcc==13.0.* nvidia-nvvm==13.0.* nvidia-cuda-crt==13.0.* nvidia-cuda-runtime==13.0.*

kernels: build/kernels/nvrtc/ready ## compile cuda/kernels and the kernel of examples/gonative to the images that are committed
	$(PYTHON) cuda/kernels/build.py image build/kernels/nvrtc
	$(PYTHON) examples/gonative/compile.py build/kernels/nvrtc

kernels-check: build/kernels/nvcc/ready ## registers and spills of the image; the source by nvcc, and by clang-19 if it is there
	$(PYTHON) cuda/kernels/build.py check build/kernels/nvcc

build/kernels/nvrtc/ready:
	$(PYTHON) -m venv $(@D) && $(@D)/bin/pip install -q --disable-pip-version-check nvidia-cuda-nvrtc-cu12==12.2.140 && touch $@

build/kernels/nvcc/ready:
	$(PYTHON) -m venv $(@D) && $(@D)/bin/pip install -q --disable-pip-version-check $(foreach w,$(NVCC_WHEELS),'$(w)') && touch $@

# --- tests

PARTS := test-go test-device test-nocgo fuzz-short test-python test-oracle test-decoders

test: ## everything that CI runs, save lint; says what each part took
	@echo 'the first run compiles zstd (C) and fills the environments: a minute or two more'
	@begin=$$(date +%s); for part in $(PARTS); do \
		start=$$(date +%s); $(MAKE) --no-print-directory $$part || exit 1; \
		echo "== $$part: $$(( $$(date +%s) - start )) s"; \
	done; echo "== test: $$(( $$(date +%s) - begin )) s in all"

check: ## vet and the quick tests, a minute or two
	$(GO) vet ./...
	$(GO) test -short ./nd/... ./zarr/... ./codec/... ./store/... ./sampler/... ./rank/... ./pipeline/... ./loader/... ./agentapi ./coord ./coord/group ./coord/fence ./metrics/... ./launcher/topology ./cmd/...

test-go: ## vet and test the Go packages
	$(GO) vet ./...
	$(GO) test ./...
	$(GO) -C tools vet ./...
	$(GO) -C tools test ./...

# Both at once: each computes on one core at most.
test-device: ## the tests of the engine again, on a fake GPU that obeys at once and on one that puts work off
	mkdir -p build && $(GO) test -c -o build/pipeline.test ./pipeline
	cd pipeline && for kind in fake lazy; do ../build/pipeline.test -test.short -test.timeout 10m -device $$kind & \
		running="$$running $$!"; done; for p in $$running; do wait $$p || failed=1; done; test -z "$$failed"

# One build has all twins: what CGO_ENABLED=0 alone adds is the assembly, which is in the first
# build, beside them. Vet compiles all; only what has files for this build is tested.
TWINS := CGO_ENABLED=0 $(GO)
test-nocgo: ## without cgo and assembly: the pure Go twins; NVML, which test-go does not have; bugs in the coordinator, which must be found
	$(TWINS) vet -tags purego ./...
	$(TWINS) test -tags purego ./codec/...
	$(TWINS) test -tags purego -short ./pipeline
	$(GO) vet -tags nvml ./launcher/nvml
	$(GO) test -tags nvml ./launcher/nvml
	$(GO) vet -tags coordfault ./coord/... ./cmd/headrace
	$(GO) test -tags coordfault -run 'Faults|Simulate' ./coord/... ./cmd/headrace

# The library with an export that only panics: for the tests of what a panic does.
build/panic/libheadrace.so: $(GOFILES) $(wildcard cabi/*.h)
	$(GO) build $(BUILD) -tags headrace_panic -buildmode=c-shared -o $@ ./cabi

# The fake driver that the Go tests have built.
build/fake/libcuda.so.1: $(wildcard cuda/cudatest/fake/* cuda/kernels/*.h cuda/kernels/*.c[cu])
	mkdir -p $(@D) && $(GO) test ./cuda/cudatest -count 1 -run '^TestLibrary$$' -library $(CURDIR)/$@

test-python: .venv-wheel/ready build build/panic/libheadrace.so build/fake/libcuda.so.1 ## the Python tests against the wheel in a clean environment
	cd python/tests && ../../.venv-wheel/bin/python -P -m pytest -q

# Two parts, each with a limit of its own: the Python tests again, now that there are
# torch and tables, and real jobs under torchrun and under our launcher.
test-torch: .venv-torch/wheel build build/panic/libheadrace.so ## with torch (a download of 3 GB): trainers, torchrun beside our launcher
	cd python/tests && timeout 300 ../../.venv-torch/bin/python -P -m pytest -q -k "torch or table or dlpack"
	timeout 600 .venv-torch/bin/python -P -m pytest -q tests/torch

gpu-binaries: build $(WHEEL) build/gpu/writers.corpus ## what test-gpu runs, into build/gpu: for a machine without Go
	mkdir -p build/gpu && rm -f build/gpu/headrace-*.whl && cp dist/*.whl bin/headrace build/gpu/
	$(GO) test -c -trimpath -ldflags="-s -w" -o build/gpu/cuda.test ./cuda
	$(GO) test -c -trimpath -ldflags="-s -w" -o build/gpu/pipe.test ./pipeline

test-gpu: ## everything that needs a GPU, from build/gpu; needs Python with pytest and a driver, no Go
	$(PYTHON) tests/gpu/run.py

# The campaign of the decoders (tests/decoders): on this processor a small part of it.
test-decoders: .venv-oracle/ready ## the GPU decoders' host build on what encoders write, and on damaged chunks
	.venv-oracle/bin/python -P -m pytest -q tests/decoders
	.venv-oracle/bin/python tests/decoders/campaign.py host --most 70000 --every 20 --damaged 5000 >/dev/null

build/gpu/writers.corpus: .venv-oracle/ready $(wildcard tests/decoders/*.py tests/decoders/*/*.go)
	mkdir -p $(@D) && .venv-oracle/bin/python tests/decoders/campaign.py writers --go "$(GO)" $@

# Coverage-guided fuzzing. What it finds is decoded again by the tests of cuda/kernels, which know what is right.
SANITIZED := -std=c++17 -O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all -ffp-contract=off
build/fuzz/fuzz: tests/decoders/fuzz.cc $(wildcard tests/decoders/*.h cuda/kernels/*.h cuda/kernels/*.c[cu])
	mkdir -p $(@D) && $(CXX) $(SANITIZED) -fsanitize-coverage=trace-pc,trace-cmp -DON_HOST -DZSTD_SEQUENCES_SHARED=0 -o $@ $<

fuzz-decoders: build/fuzz/fuzz ## the GPU decoders' host build, FUZZSECONDS a family, from the corpus in cuda/kernels/testdata on
	for family in bytes zstd inflate; do build/fuzz/fuzz $$family $(FUZZSECONDS) $$$$ build/fuzz/$$family.corpus \
		cuda/kernels/testdata/corpus/$$family.corpus || exit 1; done
	$(GO) test -count 1 ./cuda/kernels -run TestCorpus -corpus $(CURDIR)/build/fuzz

test-gpu-decoders: ## the whole campaign on a GPU: 24000 chunks, a million damaged ones, compute-sanitizer; needs nvcc, numcodecs, zstandard
	$(PYTHON) tests/decoders/campaign.py gpu $(patsubst %,--writers %,$(wildcard build/gpu/writers.corpus))

test-oracle: .venv-oracle/wheel build ## the differential suite against zarr-python, numcodecs and tensorstore
	.venv-oracle/bin/python -P -m pytest -q tests/oracle

race: ## the Go tests under the race detector
	$(GO) test -race ./...

fuzz-short: ## each fuzzer for FUZZTIME
	GO="$(GO)" tools/fuzz.sh $(FUZZTIME)

soak: race build/gpu/writers.corpus ## long fuzzing, a larger differential suite, the lazy fake GPU, 20000 seeds of the simulator, 256 members of gossip, 200 rounds of an elastic job, 2000 launches and 1 GB of output a rank
	$(GO) test ./pipeline -device lazy
	$(GO) test -race -tags uring -ldflags=$(LINKNAME) ./store ./pipeline -run 'Access|Direct|Block|Ring|Close|Reader|BatchesEqual'
	SOAK=1 SIM_SEEDS=20000 $(GO) test ./coord/sim -timeout 3h
	SOAK=1 GOSSIP_SEEDS=5 $(GO) test ./coord/agent -run TestGossip -timeout 1h
	$(GO) test ./cmd/headrace -run TestElasticRounds -rounds 200 -timeout 1h
	$(GO) test ./cmd/headrace -run TestElasticRounds -rounds 50 -relays -parallel 5 -timeout 1h
	CYCLES=2000 TEE_BYTES=1000000000 $(GO) test ./launcher -run 'TestNothingIsLeft|TestTeeLosesNothing'
	SOAK=1 $(GO) test -race ./launcher -run TestLive -count 5 -timeout 30m
	SOAK=1 $(GO) test ./examples/slurm -count=3
	SOAK=1 $(GO) -C tools test ./kubernetes -count=3
	GO="$(GO)" tools/fuzz.sh 2m
	$(MAKE) fuzz-decoders
	$(MAKE) test-oracle ORACLE_ROUNDS=20
	.venv-oracle/bin/python tests/decoders/campaign.py host --writers build/gpu/writers.corpus --most 140000 --damaged 100000
	.venv-oracle/bin/python tests/decoders/campaign.py host --fibers --most 70000 --every 7 --damaged 20000

# --- checks

lint: $(LINTER) .venv/ready ## golangci-lint, gofumpt, tidy, ruff, pyright, the tables of docs/performance.md
	$(LINTER) run ./...
	$(LINTER) fmt --diff ./...
	$(GO) mod tidy -diff
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/pyright
	$(PYTHON) bench/table.py --check

vuln: $(LINTER) ## known vulnerabilities of the dependencies (asks the Go vulnerability database)
	build/tools/govulncheck ./...

fmt: $(LINTER) .venv/ready ## format Go and Python
	$(LINTER) fmt ./...
	.venv/bin/ruff check --fix-only -q . && .venv/bin/ruff format .

# --- measurements

bench: ## the Go benchmarks
	$(GO) test -run '^$$' -bench . -benchmem ./...

brain: .venv-oracle/wheel ## the example on a real MRI volume; BRAIN= takes its flags
	.venv-oracle/bin/python -W ignore examples/brain/brain.py $(BRAIN)

brain-picture: ## the same, and its picture becomes the one of the README
	$(MAKE) brain BRAIN="--montage docs/images/brain.png $(BRAIN)"

bench-compare: .venv-oracle/wheel build ## headrace beside tensorstore, zarrs-python and zarr-python on the same files
	.venv-oracle/bin/python bench/compare.py

bench-gpu: build ## the scenarios of GPUs on the first GPU; writes bench/results
	$(PYTHON) bench/gpu.py --commit $$(git describe --always --dirty)

tables: ## write the tables of docs/performance.md from bench/results
	$(PYTHON) bench/table.py

clean: ## remove what the targets made, environments and data too
	rm -rf bin build dist data .venv .venv-wheel .venv-torch .venv-oracle $(PKG)/*.so $(PKG)/*.h $(PKG)/_bin
