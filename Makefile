# `make demo` and `make test` set up everything. They need Python 3.11, 3.12 or 3.13, and
# take the first of these names that is one; `make PYTHON=...` names another.
PYTHON ?=
CANDIDATES = $(or $(PYTHON),python3.11 python3.12 python3.13 python3 python)
# Each name is run: it may stand for a shim that fails, or for another version. `venv`
# needs ensurepip, which some systems package apart.
SUITABLE := import ensurepip, sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))
FOUND = $(shell for name in $(CANDIDATES); do \
    if $$name -c '$(SUITABLE)' > /dev/null 2>&1; then echo $$name; break; fi; done)
MISSING = MotleyGP needs Python 3.11, 3.12 or 3.13 with its venv module; got none from: \
    $(CANDIDATES)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
GPFLOW := build/gpflow-env
PEERS := $(foreach peer,gpflow gpytorch gpjax,build/$(peer)-env/.ready)
# Modules are compiled when they are first imported: most of those installed never are.
unexport PYTHONDONTWRITEBYTECODE
# Compiled programs are kept here, not in the user's folder: processes that tests start
# find those of the processes before them.
export MOTLEYGP_PROGRAM_CACHE ?= $(CURDIR)/build/programs
PIP_FLAGS := --quiet --disable-pip-version-check --no-compile

.PHONY: help demo test coverage test-slow test-package test-browser lint format bench bench-peers docs clean

help:
	@echo "make demo          fit toy data, print the scores, write a picture and a report"
	@echo "make test          lint, types and tests"
	@echo "make coverage      the tests again: shapes checked at each call, lines counted"
	@echo "make test-slow     the long checks, and those of test-package"
	@echo "make test-package  the wheel in an empty environment, and scikit-learn's checks"
	@echo "make test-browser  the report in a real browser"
	@echo "make bench         time a training step against GPflow"
	@echo "make bench-peers   MotleyGP beside GPflow, GPyTorch and GPJax, in half an hour"
	@echo "make docs          build the documentation into build/site"
	@echo "make lint          ruff, the type checker and the import rules alone"
	@echo "make format        rewrite the code as ruff formats it"

# The version is listed because the installed metadata repeat it.
$(READY): pyproject.toml requirements-dev.txt src/motleygp/_version.py
	$(or $(FOUND),$(error $(MISSING))) -m venv $(VENV)
	$(BIN)/python -m pip install $(PIP_FLAGS) -r requirements-dev.txt
	$(BIN)/python -m pip install $(PIP_FLAGS) --no-deps --no-build-isolation -e .
	@touch $(READY)

demo: $(READY)
	$(BIN)/motleygp demo

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright --level error
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Each of the two workers has one thread: more threads make small matrices slower. The
# workers start with one half of the tests each, in order, so that a file compiles its
# shared programs once; a worker that is done takes tests from the other. Most of the time
# goes to compiling, which XLA's older emitters without optimisations do several times as
# fast; the slow tests use the default ones.
QUICK := NPROC=1 XLA_FLAGS=--xla_cpu_use_fusion_emitters=false JAX_DISABLE_MOST_OPTIMIZATIONS=1
WORKERS := -n 2 --dist worksteal
# Every call of a function of the library checks its arguments' types and shapes.
CHECKED := --jaxtyping-packages=motleygp,motleygp_reproduce,beartype.beartype

test: lint
	$(QUICK) $(BIN)/python -m pytest $(WORKERS)

coverage: $(READY)
	rm -f .coverage .coverage.*
	$(QUICK) $(BIN)/python -m pytest $(WORKERS) $(CHECKED) --cov --cov-report=term

test-slow: $(READY)
	NPROC=1 $(BIN)/python -m pytest -n 2 $(CHECKED) -m "slow or package"

# The empty environment is filled from the package index.
test-package: $(READY)
	NPROC=1 $(BIN)/python -m pytest -n 2 -m package

# Debian's Chromium is installed if none is there; other systems must have one.
test-browser: $(READY)
	command -v chromium chromium-browser > /dev/null || \
	    { apt-get update && apt-get install --yes --no-install-recommends chromium; }
	$(BIN)/python -m pip install $(PIP_FLAGS) -r requirements-browser.txt
	NPROC=1 $(BIN)/python -m pytest -m browser tests/test_browser.py

# An environment for each of the other libraries.
build/%-env/.ready: benchmarks/%-requirements.txt
	$(or $(FOUND),$(error $(MISSING))) -m venv build/$*-env
	build/$*-env/bin/python -m pip install $(PIP_FLAGS) -r $<
	@touch $@

bench: $(READY) $(GPFLOW)/.ready
	$(BIN)/python benchmarks/step.py --gpflow $(GPFLOW)/bin/python
	$(BIN)/python benchmarks/schemes.py

# It keeps what it has measured: stopped, it goes on where it was.
bench-peers: $(READY) $(PEERS)
	$(BIN)/python benchmarks/peers.py

docs: $(READY)
	$(BIN)/mkdocs build --strict --site-dir build/site

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .coverage .coverage.*
