# Everyday commands. `make run` and `make test` need only Python 3.11 or newer.
PYTHON ?= python3
BIN := .venv/bin
UV := $(BIN)/uv

# Trust the system's certificates too, as pip does, for networks with their own authority. The name depends on uv's version.
export UV_SYSTEM_CERTS = 1
export UV_NATIVE_TLS = 1

# Allow bytecode files: without them, each of the suite's many processes would compile all of the code again, 0.5 s each.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help venv venv-dev run test coverage crowd mutate drill selftest loss refresh-crowd refresh-rate burst sdks mcp-clients collector oauth-servers rolling image rotation check docs fmt lock fuzz bench bench-shapes bench-peers wheel clean

help:  ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 16

venv: .venv/.run  ## create .venv, which runs the gateway

venv-dev: .venv/.dev  ## create .venv with the test tools too

# A linked environment belongs to another checkout: the commands below would empty it, or install this checkout into it.
define refuse_link
	if [ -h .venv ]; then \
	  echo "make: .venv is a symbolic link to $$(readlink .venv), which make would overwrite. Remove the link: rm .venv" >&2; exit 1; fi
endef

# uv is fast; without it, pip does the same more slowly. Both show the progress of the packages, the longest step.
define install
	echo "make: installing uv"; $(PYTHON) -m venv --without-pip .venv && $(PYTHON) -m pip -q --python $(BIN)/python install uv \
	  && echo "make: installing the packages of $(1)" \
	  && $(UV) pip install --compile-bytecode --python $(BIN)/python --require-hashes -r $(1) \
	  && echo "make: installing the gateway" \
	  && $(UV) pip install -q --compile-bytecode --python $(BIN)/python --no-deps --no-build-isolation -e . \
	|| { echo "make: no uv here, using pip to install the packages of $(1)"; $(PYTHON) -m venv --clear .venv \
	  && $(BIN)/python -m pip install --require-hashes -r $(1) \
	  && $(BIN)/python -m pip install -q --no-deps --no-build-isolation -e .; }
	@echo "make: compiling Python files and the catalog"; $(BIN)/python -m compileall -q gateway middleware
endef

.venv/.run: requirements.lock pyproject.toml
	@$(refuse_link)
	@echo "make: setting up .venv, in half a minute or more, depending on the network"
	@$(call install,requirements.lock)
	@$(BIN)/gateway catalog list > /dev/null || true  # compiles the catalog, so that the first start is fast too
	@touch $@

.venv/.dev: requirements-dev.lock pyproject.toml
	@$(refuse_link)
	@echo "make: setting up .venv with the test tools, in half a minute or more, depending on the network"
	@$(call install,requirements-dev.lock)
	@$(BIN)/pytest --collect-only -q > /dev/null 2>&1 || true  # compiles the tests, which each of the suite's processes would do
	@touch .venv/.run $@

run: venv  ## start the gateway with its built-in fake provider, and connect a demo user
	@exec $(BIN)/gateway demo

# The suite creates and removes about 100,000 small files, and SQLite waits for the disk at each commit. So its files are in
# memory, if /dev/shm has 4 GiB free and allows programs to run. A test that needs a disk makes its own file system.
TEST_FILES = $$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 4194304' | grep -q . \
  && ! grep -q ' /dev/shm [^ ]* [^ ]*noexec' /proc/mounts && echo env PYTEST_DEBUG_TEMPROOT=/dev/shm)

# A test that runs on after its time limit (the code that it interrupts can swallow the limit's exception) ends its process,
# which prints the stacks of all threads. The report names the failed test, and the suite continues.
HANGS = -o faulthandler_timeout=1000 -o faulthandler_exit_on_timeout=true

# Six processes, since half of the tests wait for timers and processes; four under coverage, which needs more CPU. A process
# without tests takes over those of another.
test: venv-dev  ## run the whole test suite
	@$(TEST_FILES) $(BIN)/pytest -n 6 --dist worksteal $(HANGS)

coverage: venv-dev  ## run the whole test suite with line and branch coverage; fails below the threshold in pyproject.toml
	@rm -rf .coverage && mkdir .coverage
	@$(TEST_FILES) $(BIN)/coverage run -m pytest -n 4 --dist worksteal $(HANGS)
	@$(BIN)/coverage combine -q && $(BIN)/coverage report

crowd: venv-dev  ## send 100,000 requests over 50 connections, with random aborts
	@WIRE_CROWD=$${WIRE_CROWD:-100000} $(BIN)/pytest -q -s tests/wire/test_crowd.py

mutate: venv-dev  ## send random mutations of requests, and compare the gateway with h11 and nginx: SECONDS_MUTATE (300), SEED_MUTATE
	@$(BIN)/python -m tests.wire.mutate --seconds $${SECONDS_MUTATE:-300} $${SEED_MUTATE:+--seed $$SEED_MUTATE}

drill: venv-dev  ## long test of signals under load: SIGHUP, SIGTERM with a successor, 100 streams; uses wrk if it is installed
	@GATEWAY_DRILL=$${GATEWAY_DRILL:-16} $(BIN)/pytest -v -s -p no:xdist --timeout 900 tests/gateway/server/test_under_load.py tests/gateway/server/test_under_wrk.py

selftest: venv-dev  ## kill and stall processes, cut the network, fill the disk, and print what was lost: SELFTEST="--kills 1000 --postgres --keep FILE --seed 1"
	@$(BIN)/python -m tests.selftest $(SELFTEST)

loss: venv-dev  ## kill, stop and cut off three nodes in network namespaces behind nginx and HAProxy, and set wrong clocks (root, 40 minutes): LOSS="--only cut"
	@$(BIN)/python -m tests.loss $(LOSS)

refresh-crowd: venv-dev  ## send 500 requests on one expired connection, 20 times: 3 nodes on PostgreSQL, 4 workers on SQLite
	@REFRESH_ROUNDS=$${REFRESH_ROUNDS:-20} $(BIN)/pytest -v -s -p no:xdist tests/journeys/test_refresh_by_nodes.py

burst: venv-dev  ## let 10,000 tokens expire in one minute, and measure other calls meanwhile (20 minutes; 40 with BURST=20000)
	@BURST=$${BURST:-10000} $(BIN)/pytest -v -s -p no:xdist tests/journeys/test_burst.py

refresh-rate: venv-dev  ## measure refreshes a second and their CPU: SQLite, PostgreSQL with 1 and 3 nodes, with a synchronous standby 10 ms away
	@$(BIN)/python -m tests.journeys.refresh_rate $(REFRESH_RATE)

sdks: venv-dev  ## run the vendors' SDKs of docs/sdks.md through the gateway, in Python and Node; installs them outside the repository
	@GATEWAY_SDKS=all $(BIN)/pytest -v -p no:xdist tests/sdks

mcp-clients: venv-dev  ## run published MCP clients and the protocol's conformance suite against the MCP endpoint; installs them outside the repository
	@GATEWAY_MCP_CLIENTS=all $(BIN)/pytest -v -p no:xdist tests/mcp_clients

collector: venv-dev  ## send traces to Arize Phoenix, a published collector; installs it outside the repository (1 GB)
	@GATEWAY_COLLECTOR=all $(BIN)/pytest -v -p no:xdist tests/journeys/test_phoenix.py

oauth-servers: venv-dev  ## connect at five published OAuth servers, each a real process; installs them outside the repository (4 minutes)
	@GATEWAY_OAUTH_SERVERS=all $(BIN)/pytest -v -n 2 tests/oauth_servers tests/journeys/wrong_person/test_application.py

rolling: venv-dev  ## restart nodes one by one, then the database, behind nginx and HAProxy with streams open: GATEWAY_ROLLING requests a second (300)
	@GATEWAY_ROLLING=$${GATEWAY_ROLLING:-300} $(BIN)/pytest -v -s -p no:xdist tests/deploy/test_rolling.py

image: venv-dev  ## run the Dockerfile's build steps without Docker, in a fresh folder, and check that all wheels exist for amd64 and arm64
	@GATEWAY_IMAGE=1 $(BIN)/pytest -v -p no:xdist tests/deploy/test_image.py

rotation: venv-dev  ## rotate the encryption keys five times at 200 requests a second
	@ROTATION_RATE=$${ROTATION_RATE:-200} ROTATION_CONNECTIONS=$${ROTATION_CONNECTIONS:-100} ROTATION_ROUNDS=$${ROTATION_ROUNDS:-5} \
	  $(BIN)/pytest -v -s -p no:xdist --timeout 900 tests/journeys/test_key_rotation.py -k under_load

check: venv-dev  ## check style, types, imports between packages, dead code and the catalog
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@found=$$($(BIN)/vulture) || [ $$? = 3 ] || exit 1; ! echo "$$found" | grep -E "unused (function|method|class|property|import)|unused variable '[A-Z][A-Z_]+'|unreachable" | grep -v ^tests/
	@$(BIN)/gateway catalog lint

docs: venv-dev  ## generate the pages that come from code: catalog fields, auth modes, packages, the JSON Schema
	@$(BIN)/python -m tools.catalog_docs

fmt: venv-dev  ## format the code
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

lock: venv-dev  ## write the lock files again from pyproject.toml
	$(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --group build pyproject.toml -o requirements.lock
	$(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --group build --extra otel pyproject.toml -o requirements-otel.lock
	$(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --group dev pyproject.toml -o requirements-dev.lock

fuzz: venv-dev  ## send calls that /openapi.json allows and forbids to a gateway, a hundred times as many as in the tests
	EXAMPLES=$${EXAMPLES:-600} $(BIN)/pytest -q -p no:xdist --timeout 3600 tests/gateway/openapi/test_schemathesis.py

bench: venv  ## compare the gateway with other proxies; writes bench/results.md; short with BENCH=--quick
	@$(BIN)/python -m bench $(BENCH)

bench-shapes: venv-dev  ## compare ordinary calls of every shape with other proxies, with TLS to the upstream, and the gateway under other conditions (25 minutes; 5 with SHAPES=--quick)
	@$(BIN)/python -m bench.conditions $(SHAPES)

bench-peers:  ## install the other proxies and wrk (Debian and Ubuntu, as root)
	@for package in wrk nginx haproxy caddy golang-go nodejs; do \
	  case $$package in golang-go) has=go;; nodejs) has=node;; *) has=$$package;; esac; \
	  PATH=$$PATH:/usr/sbin command -v $$has > /dev/null && continue; \
	  apt-cache show $$package > /dev/null 2>&1 || { echo "make: there is no package $$package; the benchmark omits it"; continue; }; \
	  DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -q --no-install-recommends $$package || exit 1; \
	done; echo "make: if the installation started services, stop them: systemctl disable --now nginx haproxy caddy"

wheel: venv  ## build the wheel, in dist/
	@$(BIN)/python -m hatchling build -t wheel

clean:  ## remove .venv, dist/ and caches; .gateway/ stays
	rm -rf .venv dist .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis
