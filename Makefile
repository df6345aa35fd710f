# `make setup serve test` need Python 3.11+ and make; everything else is fetched into .venv and build/.
SHELL := bash
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
UV := $(or $(shell command -v uv 2>/dev/null),build/uv/bin/uv)
PYTEST := $(BIN)/python -m pytest
N ?= 200

.PHONY: help setup lock serve test test-peers soak check bench docs wheel clean

help: ## what you can ask for
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1|\2/' | column -t -s '|'

build/uv/bin/uv:
	$(PYTHON) -m venv build/uv
	build/uv/bin/pip install --quiet --disable-pip-version-check uv

.venv/.ready: pyproject.toml requirements.lock | $(filter build/%,$(UV))
	$(UV) venv --quiet --allow-existing --python $(PYTHON) .venv
	$(UV) pip install --quiet --python $(BIN)/python -r requirements.lock
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --editable .
	@touch $@

setup: .venv/.ready ## make .venv with everything the other targets need

lock: | $(filter build/%,$(UV)) ## choose dependency versions anew
	$(UV) pip compile --quiet --universal --python-version 3.11 --all-extras --group dev --no-emit-index-url \
	  --no-annotate --no-header --upgrade --output-file requirements.lock pyproject.toml

serve: setup ## run the gateway with its web page
	$(BIN)/threadline serve $(if $(PORT),--port $(PORT))

test: setup ## every test of ours, a real PostgreSQL included
	$(PYTEST) -n 2 -m "not peers and not soak" tests

test-peers: setup wheel ## against real third parties, installed into build/
	$(PYTEST) -m peers tests

soak: setup ## the long runs: make soak N=500
	THREADLINE_SOAK=$(N) $(PYTEST) -s -m soak --timeout 0 tests

check: setup ## format, lint, types, layers, caps, stale docs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python scripts/reference.py --check
	$(PYTEST) -q tests/architecture tests/docs

bench: setup ## every workload beside its floor: build/bench/*.json and a table
	$(BIN)/python -m bench $(ARGS)

docs: setup ## write docs/reference anew from the code
	$(BIN)/python scripts/reference.py

wheel: setup ## build/dist/threadline-*.whl
	@rm -rf build/dist
	$(UV) build --quiet --wheel --out-dir build/dist --python $(BIN)/python .

clean: ## remove what these targets made
	rm -rf .venv build
