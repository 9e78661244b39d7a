# The commands of every day. `make run` and `make test` need Python 3.11 or newer and nothing else.
PYTHON ?= python3
BIN := .venv/bin
UV := $(BIN)/uv

# Take the system's certificates too, as pip does: a company's own authority is known there. Two spellings, by uv's version.
export UV_SYSTEM_CERTS = 1
export UV_NATIVE_TLS = 1

.DEFAULT_GOAL := help
.PHONY: help venv venv-dev run test drill check fmt lock wheel clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 16

venv: .venv/.run  ## the environment that runs the gateway

venv-dev: .venv/.dev  ## the same, with what the tests need

# uv is quick; where it cannot be had, plain pip does the same more slowly.
define install
	$(PYTHON) -m venv --without-pip .venv && $(PYTHON) -m pip -q --python $(BIN)/python install uv \
	  && $(UV) pip install -q --python $(BIN)/python --require-hashes -r $(1) \
	  && $(UV) pip install -q --python $(BIN)/python --no-deps --no-build-isolation -e . \
	|| { echo "make: no uv here, using pip"; $(PYTHON) -m venv --clear .venv \
	  && $(BIN)/python -m pip install -q --require-hashes -r $(1) \
	  && $(BIN)/python -m pip install -q --no-deps --no-build-isolation -e .; }
endef

.venv/.run: requirements.lock pyproject.toml
	@echo "make: setting up .venv"
	@$(call install,requirements.lock)
	@touch $@

.venv/.dev: requirements-dev.lock pyproject.toml
	@echo "make: setting up .venv with the test tools"
	@$(call install,requirements-dev.lock)
	@touch .venv/.run $@

run: venv  ## start the gateway with its built-in fake provider
	@exec $(BIN)/gateway demo

test: venv-dev  ## the whole test suite
	@$(BIN)/pytest -n 2

drill: venv-dev  ## the long form of signals under load: SIGHUP, SIGTERM, a successor on the same socket, 100 streams
	@GATEWAY_DRILL=16 $(BIN)/pytest -v -p no:xdist --timeout 900 tests/gateway/server/test_under_load.py tests/gateway/server/test_admin.py

check: venv-dev  ## style, types, floors and the catalog
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/gateway catalog lint

fmt: venv-dev  ## put the code into shape
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

lock: venv-dev  ## write both lock files anew from pyproject.toml
	$(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --group build pyproject.toml -o requirements.lock
	$(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --group dev pyproject.toml -o requirements-dev.lock

wheel: venv-dev  ## the package, in dist/
	@$(BIN)/python -m hatchling build -t wheel

clean:  ## remove the environment and what was built; .gateway/ stays
	rm -rf .venv dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
