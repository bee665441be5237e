# Every target works on a fresh machine: what it needs, it makes or installs first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# The image's base, and the Python in it.
BASE ?= python:3.13-slim
BASE_PYTHON ?= 3.13
IMAGE ?= wheeltapper:0.1.0
VERSIONS ?= 3.10 3.11 3.12 3.13

.DEFAULT_GOAL := help
.PHONY: help install slurm kubernetes kubernetes-up kubernetes-down compiler tools demo demo-kubernetes image chart \
	test test-releases test-release test-kills test-kubernetes unit pythons lint types contracts format docs wheel-test bench build clean

help: ## show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(READY) ## make .venv with wheeltapper and its tools in it

$(READY): pyproject.toml
	@echo "Installing wheeltapper and its tools into $(VENV) …"
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(f"wheeltapper needs Python 3.10 or newer, and $(PYTHON) is {v[0]}.{v[1]}; say PYTHON=…" if v < (3, 10) else 0)'
	@$(PYTHON) -m venv $(VENV) || { echo "The venv module is missing. On Debian: apt-get install python3-venv"; exit 1; }
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

slurm: $(READY) ## install Slurm and MUNGE where that is allowed, or say what to install
	@$(BIN)/python -m tests.e2e.slurm.cluster.install make $(MAKECMDGOALS)

compiler: ## install a C compiler where that is allowed, or say what to install: the tests build a stand-in for NVML
	@command -v cc >/dev/null || command -v gcc >/dev/null || \
	    { [ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get install -y -qq --no-install-recommends gcc libc6-dev; } || \
	    echo "There is no C compiler here, so the tests of NVML are skipped; type: sudo apt-get install gcc libc6-dev"

demo: $(READY) slurm ## play the whole loop on a real 4-node Slurm cluster on this machine (root)
	@$(BIN)/python -m tests.e2e.slurm.demo

tools: $(READY) ## install PostgreSQL, promtool and a browser for the tests where that is harmless, or say what to install
	@$(BIN)/python -m tests.tools

test: lint types contracts slurm compiler tools wheel-test ## lint, types, contracts, and every test, on a real Slurm cluster too
	$(BIN)/pytest -n 3 --dist loadfile -m 'not kubernetes'

kubernetes: $(READY) ## build a real Kubernetes for tests, once, or say what to install for it
	@$(BIN)/python -m tests.e2e.kubernetes.cluster.install make $(MAKECMDGOALS)

kubernetes-up: kubernetes ## start a cluster for yourself, and say how to use it
	@$(BIN)/python -m tests.e2e.kubernetes.cluster.manage up

kubernetes-down: $(READY) ## end that cluster
	@$(BIN)/python -m tests.e2e.kubernetes.cluster.manage down

demo-kubernetes: kubernetes ## play the whole loop on a real Kubernetes cluster on this machine (root)
	@$(BIN)/python -m tests.e2e.kubernetes.demo

image: $(READY) ## build the image with docker: make image BASE=python:3.13-slim IMAGE=wheeltapper:0.1.0
	docker build --tag $(IMAGE) --build-arg BASE=$(BASE) "$$($(BIN)/python -m charts.image_context $(BASE_PYTHON))"

chart: kubernetes ## make the chart's schema, its copy of monitoring/ and the snapshots of its tests anew
	$(BIN)/python -m charts.values_schema
	$(BIN)/python -m charts.monitoring
	$(BIN)/python -m charts.snapshots "$$($(BIN)/python -c 'from tests.e2e.kubernetes.cluster import cache; print(cache.find().bin)')/helm"

test-kubernetes: kubernetes ## the tests that need a Kubernetes cluster
	$(BIN)/pytest tests/e2e/kubernetes -n 2 --dist loadfile --durations=25

test-releases: slurm ## the tests on real clusters, against 22.05, 24.11 and 26.05 of Slurm; says how long it takes
	@$(BIN)/python -m tests.e2e.slurm.releases

test-kills: slurm ## kill -9 of service and slurmctld over 200 interruptions, half an hour: make test-kills COUNT=200 SEED=7
	@WHEELTAPPER_REQUIRE_SLURM=1 WHEELTAPPER_KILLS=$(or $(COUNT),200) WHEELTAPPER_KILLS_SEED=$(SEED) \
	    $(BIN)/pytest -s tests/e2e/slurm/test_kills.py

test-release: slurm ## the same against one release: make test-release RELEASE=24.11
	@$(BIN)/python -m tests.e2e.slurm.releases $(or $(RELEASE),$(error say which one: make test-release RELEASE=24.11))

unit: $(READY) ## the tests that need no cluster
	$(BIN)/pytest tests/unit tests/integration

pythons: $(addprefix python-,$(VERSIONS)) ## the tests that need no cluster, on every Python of VERSIONS (3.10 to 3.13) that is installed

python-%:
	@python$* -c 'import ensurepip' 2>/dev/null || { echo "python$* is not installed, and was not tried"; exit 0; }; \
	echo "Python $*"; \
	python$* -m venv build/python$* && \
	build/python$*/bin/pip install --quiet --disable-pip-version-check --editable '.[dev]' && \
	build/python$*/bin/pytest -q -n 2 -p no:cacheprovider tests/unit tests/integration

lint: $(READY) ## ruff and shellcheck
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/shellcheck hooks/prolog hooks/epilog hooks/healthcheck slurm/epilogslurmctld .ci/run tests/e2e/kubernetes/cluster/files/runc tests/e2e/kubernetes/cluster/files/nslookup

format: $(READY) ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(READY) ## mypy, strict
	$(BIN)/mypy

contracts: $(READY) ## which room may import what
	$(BIN)/lint-imports --cache-dir build/import-linter

docs: $(READY) ## write docs/checks from the checks themselves
	$(BIN)/python -m tests.pages

wheel-test: $(READY) ## build the wheel and try it with the sources out of reach
	$(BIN)/python -m tests.wheel

bench: $(READY) ## measure; figures go to build/bench.jsonl
	$(BIN)/python -m tests.bench

build: $(READY) ## build the wheel and the source archive into dist/
	$(BIN)/python -m build --outdir dist .

clean: ## remove what the targets above made
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
