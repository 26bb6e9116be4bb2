# `make` alone lists what there is. Everything runs in $(VENV), which is made and kept up to date on the way.

VENV ?= .venv
PYTHON ?=
TARGET ?= shell
FUZZ_SECONDS ?= 300
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
PYTEST := $(BIN)/pytest -rs
# Processes that share the unit tests: as many as there are cores, at most 4, since each collects all tests; 0 runs them in
# one. One that has finished takes tests of another, so that a file's tests mostly stay together with what they share.
WORKERS ?= auto
SHARED := -n $(WORKERS) --maxprocesses 4 --dist worksteal
# Clusters that the end-to-end tests use at the same time: most of their time goes by in waiting, for a minute of grace and
# the like. The tests of a package, which share a cluster, stay together; 0 runs all in one process.
CLUSTERS ?= 2
CLUSTERED := -n $(CLUSTERS) --dist loadscope
UV_COMPILE = $(BIN)/python hack/uv.py pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest \
	--generate-hashes --no-header --no-annotate --no-emit-index-url $(LOCK_FLAGS)

SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

##@ Try it

.PHONY: demo
demo: $(STAMP) ## Show the main job on a real control plane (NODE=real: Stoker in the cluster; KEEP=1 leaves it up)
	@$(BIN)/python -m e2e demo $(if $(KEEP),--keep) $(if $(NODE),--node=$(NODE))

.PHONY: cluster
cluster: $(STAMP) ## Start the control plane with the operator, leave it up; eval "$(make cluster)" sets KUBECONFIG and PATH
	@$(BIN)/python -m e2e up

.PHONY: cluster-down
cluster-down: $(STAMP) ## Stop what `make cluster` or `make demo KEEP=1` left up
	@$(BIN)/python -m e2e down

##@ Test

.PHONY: test
test: packages binaries ## Run the unit tests, then the end-to-end tests (ARGS=... goes to pytest)
	failed=0; \
	$(PYTEST) $(SHARED) -m "not long" tests $(ARGS) || failed=$$?; \
	$(PYTEST) $(CLUSTERED) -m "not long" e2e $(ARGS) || failed=$$?; \
	exit $$failed

.PHONY: test-unit
test-unit: $(STAMP) packages ## Run the unit tests only, without a cluster (WORKERS=0 runs them in one process)
	$(PYTEST) $(SHARED) -m "not long" tests $(ARGS)

.PHONY: test-e2e
test-e2e: packages binaries ## Run the end-to-end tests only
	$(PYTEST) $(CLUSTERED) -m "not long" e2e $(ARGS)

.PHONY: test-long
test-long: binaries ## Run the tests that take longer than `make test` may
	$(PYTEST) -m long tests e2e $(ARGS)

.PHONY: fuzz
fuzz: build/atheris/.stamp ## Fuzz TARGET=shell, yaml or review for FUZZ_SECONDS=300, steered by coverage (hack/fuzz.py)
	PYTHONPATH=build/atheris:. $(BIN)/python hack/fuzz.py $(TARGET) -max_total_time=$(FUZZ_SECONDS) $(ARGS)

build/atheris/.stamp: $(STAMP) requirements/fuzz.txt
	$(BIN)/python -m pip install --quiet --upgrade --require-hashes --requirement requirements/fuzz.txt --target $(@D)
	@touch $@

.PHONY: binaries
binaries: $(STAMP) ## Find, download or build the clusters' programs (once per machine)
	@$(BIN)/python -m e2e binaries

.PHONY: packages
packages: ## Find what the tests take from the system (Chromium, libfaketime, runc), or install Debian's as root
	@hack/packages.sh

##@ Image

IMAGE ?= stoker:$(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' operator/src/stoker/__init__.py)

REQUIREMENTS ?= runtime

.PHONY: image
image: ## Build the image IMAGE=registry/stoker:tag for PLATFORMS, with SBOM and provenance, and push it
	@test -f requirements/image.txt || { echo "error: requirements/image.txt is missing, so no base image is pinned:" \
		"run make image-pin where docker reaches a registry, and commit what it writes" >&2; exit 1; }
	@mkdir -p build
	docker buildx build --metadata-file build/image.json --build-arg PYTHON_IMAGE="$$(cat requirements/image.txt)" \
		--build-arg REQUIREMENTS=$(REQUIREMENTS) --platform $(or $(PLATFORMS),linux/amd64) \
		--build-arg SOURCE_DATE_EPOCH="$$(git log -1 --format=%ct)" --label org.opencontainers.image.revision="$$(git rev-parse HEAD)" \
		--sbom=true --provenance=mode=max --tag $(IMAGE) --output type=image,push=true,rewrite-timestamp=true .

.PHONY: image-pin
image-pin: ## Pin the base image of today: ask the registry for its digest and write requirements/image.txt
	@hack/pin_image.sh python:3.13-slim > requirements/image.txt.new && mv requirements/image.txt.new requirements/image.txt
	@cat requirements/image.txt

.PHONY: wheel
wheel: $(STAMP) ## Build the wheel into build/wheel, the same byte by byte from the same files
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --no-index --wheel-dir build/wheel .

.PHONY: test-compiled
test-compiled: $(STAMP) ## Test the interpreter of scripts in build/wheel, built by STOKER_MYPYC=1 make wheel
	rm -rf build/installed && mkdir -p build/installed
	$(BIN)/python -m pip install --quiet --no-deps --no-index --target build/installed build/wheel/stoker-*-cp*.whl
	cd build/installed && ls stoker/shell/interpreter/walk.*.so
	PYTHONPATH=build/installed $(BIN)/python -m pytest --quiet -o pythonpath= tests/shell tests/lint/test_review.py

.PHONY: krew
krew: $(STAMP) ## Make the archive and manifest of `kubectl stoker` for krew (URI=where the release's archive will be)
	$(BIN)/python hack/krew.py $(URI)

##@ Develop

.PHONY: venv
venv: $(STAMP) ## Make the Python environment (PYTHON=python3.12 chooses the interpreter)
	@echo "$(VENV) is ready"

$(STAMP): requirements/runtime.txt requirements/test.txt hack/venv.sh
	@PYTHON=$(PYTHON) hack/venv.sh $(VENV)
	@touch $@

.PHONY: fmt
fmt: $(STAMP) ## Format the code and apply the safe fixes
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

.PHONY: lint
lint: $(STAMP) ## Check style, types, import layers and the house rules
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python hack/check_house.py

.PHONY: hooks
hooks: ## Let git check the form of your commits' messages (hack/hooks; undo: git config --unset core.hooksPath)
	@git config core.hooksPath hack/hooks

.PHONY: generate
generate: $(STAMP) ## Write everything that is generated from the models and the rules
	$(BIN)/python hack/generate.py

.PHONY: verify
verify: $(STAMP) ## Check that everything generated is up to date
	$(BIN)/python hack/generate.py --check

.PHONY: docs
docs: build/mkdocs/.stamp ## Build the site of docs/ into build/site; a broken link is an error
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=build/mkdocs $(BIN)/python -m mkdocs build --quiet --strict
	@echo "build/site/index.html"

build/mkdocs/.stamp: $(STAMP) requirements/docs.txt
	$(BIN)/python -m pip install --quiet --upgrade --require-hashes --requirement requirements/docs.txt --target $(@D)
	@touch $@

.PHONY: lock
lock: $(STAMP) ## Pin the dependencies of pyproject.toml anew (LOCK_FLAGS=--upgrade takes newer ones)
	$(UV_COMPILE) --output-file requirements/runtime.txt pyproject.toml
	$(UV_COMPILE) --output-file requirements/test.txt --constraints requirements/runtime.txt \
		--extra dev --extra build --extra report --extra traces pyproject.toml
	$(UV_COMPILE) --output-file requirements/fuzz.txt --group fuzz
	$(UV_COMPILE) --output-file requirements/report.txt --constraints requirements/test.txt --extra report pyproject.toml
	$(UV_COMPILE) --output-file requirements/lint.txt --constraints requirements/runtime.txt --group lint
	$(UV_COMPILE) --output-file requirements/build.txt --constraints requirements/test.txt --group image
	$(UV_COMPILE) --output-file requirements/docs.txt --constraints requirements/test.txt --group docs

.PHONY: clean
clean: ## Remove the environment, caches and build output (the programs' cache stays: it took long to build)
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find operator e2e hack tests -name __pycache__ -type d -prune -exec rm -rf {} + 2> /dev/null || true

.PHONY: help
help: ## Show this help
	@awk 'BEGIN { FS = ":.*## "; print "Usage: make TARGET" } \
		/^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z0-9-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
