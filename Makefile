# `make setup serve test` need Python 3.11+ and make; everything else is fetched into .venv and build/.
SHELL := bash
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
UV := $(or $(shell command -v uv 2>/dev/null),build/uv/bin/uv)
PYTEST := $(BIN)/python -m pytest
N ?= 200
# Images of containers often set it. Then every process that a test starts compiles all that it imports anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: chromium nginx ngircd help setup lock serve test test-fast test-peers soak check bench bench-peers docs web wheel clean

help: ## what you can ask for
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1|\2/' | column -t -s '|'

build/uv/bin/uv:
	$(PYTHON) -m venv build/uv
	build/uv/bin/pip install --quiet --disable-pip-version-check uv

# One .venv: .serve marks that it has what running needs, .ready that it has everything. Both only add, and agree on versions.
.venv/.serve: requirements-serve.lock
.venv/.ready: requirements.lock
.venv/.serve .venv/.ready: pyproject.toml | $(filter build/%,$(UV))
	$(UV) venv --quiet --allow-existing --python $(PYTHON) .venv
	$(UV) pip install --quiet --python $(BIN)/python -r $(filter %.lock,$^)
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --editable .
	@touch .venv/.serve $@

.venv/.peers: requirements-peers.lock .venv/.ready
	$(UV) pip install --quiet --python $(BIN)/python -r requirements-peers.lock
	@touch $@

setup: .venv/.ready ## make .venv with everything the other targets need

lock: | $(filter build/%,$(UV)) ## choose dependency versions anew
	$(UV) pip compile --quiet --universal --python-version 3.11 --all-extras --group dev --no-emit-index-url \
	  --no-annotate --no-header --upgrade --output-file requirements.lock pyproject.toml
	$(UV) pip compile --quiet --universal --python-version 3.11 --extra model --extra telegram --no-emit-index-url \
	  --no-annotate --no-header --constraint requirements.lock --output-file requirements-serve.lock pyproject.toml
	$(UV) pip compile --quiet --universal --python-version 3.11 --all-extras --group dev --group peers --no-emit-index-url \
	  --no-annotate --no-header --constraint requirements.lock --output-file requirements-peers.lock pyproject.toml

serve: .venv/.serve ## run the gateway with its web page; installs what that needs and no more
	$(BIN)/threadline serve $(if $(PORT),--port $(PORT))

# More workers than cores: many tests wait for processes, for leases to run out, or for a server.
WORKERS := -n $(shell echo $$(( 2 * $$(getconf _NPROCESSORS_ONLN) ))) --dist worksteal

test: setup ## every test of ours, a real PostgreSQL included
	$(PYTEST) $(WORKERS) -m "not peers and not soak" tests

test-fast: setup ## after every edit: the units and the contracts, on SQLite, without property tests
	$(PYTEST) $(WORKERS) -m "not peers and not soak and not postgres and not hypothesis" tests/unit tests/contract

# Programs of Debian that tests talk to; each is installed where it is missing and that is allowed.
chromium nginx ngircd: PACKAGE = $(if $(filter nginx,$@),nginx-light,$@)
chromium nginx ngircd:
	@PATH=$$PATH:/usr/sbin; command -v $@ >/dev/null || { apt-get update -qq && apt-get install -y -qq $(PACKAGE); } || \
	  { echo "$@ is missing and can't be installed here; install Debian's package $(PACKAGE)."; exit 1; }

test-peers: .venv/.peers wheel chromium nginx ngircd build/web/.ready build/telegram/.ready build/acp/.ready ## against real third parties, installed into build/ or by apt
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

build/peers/%/.ready: bench/peers/%.txt | $(filter build/%,$(UV))
	$(UV) venv --quiet --clear --python $(PYTHON) $(@D)
	$(UV) pip install --quiet --python $(@D)/bin/python -r $<
	@touch $@

bench-peers: setup $(patsubst bench/peers/%.txt,build/peers/%/.ready,$(wildcard bench/peers/*.txt)) ## the same work through other programs that keep conversations
	$(BIN)/python -m bench.peers $(ARGS)

docs: setup ## write docs/reference anew from the code
	$(BIN)/python scripts/reference.py

# Node is needed here only: the built page is kept beside its sources and is part of the wheel.
CLIENT := src/threadline/web/client
TELEGRAM_PEER := tests/peers/telegram
ACP_PEERS := tests/peers/acp
build/web/.ready: $(CLIENT)/package.json $(CLIENT)/package-lock.json
build/telegram/.ready: $(TELEGRAM_PEER)/package.json $(TELEGRAM_PEER)/package-lock.json
build/acp/.ready: $(ACP_PEERS)/package.json $(ACP_PEERS)/package-lock.json
build/acp/.ready: AFTER = && node node_modules/opencode-ai/postinstall.mjs # puts the program for this machine in its place
build/web/.ready build/telegram/.ready build/acp/.ready:
	@mkdir -p $(@D)
	cp $^ $(@D)/
	cd $(@D) && npm ci --silent --ignore-scripts --no-audit --no-fund $(AFTER)
	@touch $@

web: build/web/.ready ## build the page anew from src/threadline/web/client
	@rm -rf build/web/src build/web/css
	cp -R $(CLIENT)/. build/web/
	cd build/web && node build.mjs $(CURDIR)/$(or $(TO),src/threadline/web/static)

wheel: setup ## build/dist/threadline-*.whl
	@rm -rf build/dist
	$(UV) build --quiet --wheel --out-dir build/dist --python $(BIN)/python .

clean: ## remove what these targets made
	rm -rf .venv build
