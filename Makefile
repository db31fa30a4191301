# `make demo` and `make test` need python3 (3.11 or newer) and make, and nothing else.
PYTHON ?= python3
BIN := .venv/bin
ARGS ?=
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help venv demo test lint format e2e bench reliability reliability-full pins clean

help:  ## list the targets
	@awk -F ':.*## *' '/^[a-z0-9-]+:.*##/ { printf "%-18s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: .venv/.project  ## .venv with the pinned requirements and vyane, installed in place

.venv/.requirements: requirements/dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo \
		'vyane needs Python 3.11 or newer, and `$(PYTHON)` is not: name one with `make PYTHON=python3.11`.' >&2; exit 1; }
	@$(PYTHON) -m venv .venv || { echo \
		'`$(PYTHON) -m venv` does not work: install it (on Debian and Ubuntu: the package python3-venv).' >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/dev.txt
	@touch $@

.venv/.project: .venv/.requirements pyproject.toml
	$(BIN)/python -m pip install --quiet --no-build-isolation --no-deps -e .
	@touch $@

demo: venv  ## simulated sessions talk to each other, on a temporary home
	@$(BIN)/vyane demo $(ARGS)

test: export PYTHONDONTWRITEBYTECODE :=  # where it is set, each worker compiles every test again
test: venv  ## everything that needs no real client
	$(BIN)/pytest -q -n 2 tests $(ARGS)

lint: venv  ## ruff, the format and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: venv  ## put imports and layout in order
	$(BIN)/ruff check --fix --select I .
	$(BIN)/ruff format .

e2e: venv  ## the real client against a scripted model, offline (installs the client when missing)
	@tools=$$(scripts/install-test-tools) && eval "$$tools" && $(BIN)/pytest -q -n 2 tests/e2e $(ARGS)

bench: venv  ## the figures, as ratios in one run
	@$(BIN)/python -m benchmarks $(ARGS)

reliability: venv  ## kills, injected errors, power loss and races, a few minutes
	@tools=$$(scripts/install-test-tools) && eval "$$tools" && RELIABILITY=quick $(BIN)/pytest -q -n 2 tests/reliability $(ARGS)

reliability-full: venv  ## the same, as long as it takes; ARGS="--rule R7", ARGS=--resume
	@tools=$$(scripts/install-test-tools) && eval "$$tools" && RELIABILITY=full $(BIN)/pytest -q tests/reliability $(ARGS)

# An upgrade is `make pins ARGS=--upgrade`; its result is read before it is committed.
PIN = .venv-pins/bin/pip-compile --quiet --generate-hashes --no-emit-index-url --no-emit-find-links \
	--no-emit-trusted-host --strip-extras $(ARGS)
pins: export CUSTOM_COMPILE_COMMAND := make pins
pins:  ## compile the requirement files again
	test -x .venv-pins/bin/pip-compile || { $(PYTHON) -m venv .venv-pins && .venv-pins/bin/pip install --quiet pip-tools==7.6.2; }
	$(PIN) --output-file requirements/runtime.txt pyproject.toml
	$(PIN) --all-extras --output-file requirements/extras.txt pyproject.toml
	$(PIN) --output-file requirements/dev.txt requirements/dev.in

clean:  ## remove what these targets made
	rm -rf .venv .venv-pins .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
