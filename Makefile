# `make test` and `make demo` do all set-up on a machine with Python 3.11 and nothing else.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
GPFLOW := build/gpflow-env

.PHONY: help demo test test-slow test-browser lint format types bench docs clean

help:
	@echo "make demo       fit a toy, print its scores, make a picture and a report"
	@echo "make test       lint, types and tests, with coverage"
	@echo "make test-slow  the long checks, and the wheel in an empty environment"
	@echo "make test-browser  the report in a real browser"
	@echo "make bench      time a training step against GPflow"
	@echo "make docs       build the documentation into build/site"
	@echo "make lint       ruff and the type checker alone"
	@echo "make format     rewrite the code as ruff formats it"

$(READY): pyproject.toml requirements-dev.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(READY)

demo: $(READY)
	$(BIN)/motleygp demo

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright --level error

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# One thread each for the two workers: more make small matrices slower. Each gets half of
# the tests in their order, so that what a file shares is compiled once, and helps the other.
# Most of the time goes to compiling, which XLA's older emitters do twice as fast; the slow
# tests have the usual ones. What one has compiled the other need not.
test: lint
	rm -rf .coverage .coverage.* build/compiled
	NPROC=1 XLA_FLAGS=--xla_cpu_use_fusion_emitters=false \
	    JAX_COMPILATION_CACHE_DIR=$(CURDIR)/build/compiled \
	    JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0.05 \
	    $(BIN)/python -m pytest -n 2 --dist worksteal --cov --cov-report=term

test-slow: $(READY)
	NPROC=1 $(BIN)/python -m pytest -n 2 -m slow

# Debian's Chromium is installed where that is allowed; elsewhere it must be there.
test-browser: $(READY)
	command -v chromium chromium-browser > /dev/null || \
	    { apt-get update && apt-get install --yes --no-install-recommends chromium; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-browser.txt
	NPROC=1 $(BIN)/python -m pytest -m browser tests/test_browser.py

$(GPFLOW)/.ready: benchmarks/gpflow-requirements.txt
	$(PYTHON) -m venv $(GPFLOW)
	$(GPFLOW)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

bench: $(READY) $(GPFLOW)/.ready
	$(BIN)/python benchmarks/step.py --gpflow $(GPFLOW)/bin/python
	$(BIN)/python benchmarks/schemes.py

docs: $(READY)
	$(BIN)/mkdocs build --strict --site-dir build/site

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .coverage .coverage.*
