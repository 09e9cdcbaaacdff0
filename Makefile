# The two commands of the README: `make search` and `make test`. Both make the environment first.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
export OMP_WAIT_POLICY := PASSIVE

.PHONY: env web browser search test test-fast test-dft faults audit lint format bench docs site clean

env: $(VENV)/.done

$(VENV)/.done: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -c constraints.txt "torch==2.13.0"
	$(BIN)/pip install -q -c constraints.txt -e ".[dev,chgnet,sevennet,mattersim-tests,server,verify,ray,notebook,web,docs]"
	$(BIN)/pip install -q -c constraints.txt --no-deps mattersim
	$(BIN)/anchor potentials fetch mattersim-1m mattersim-5m
	@touch $@

# The crystal viewer of report, page and notebooks: web/ is built into the package, from the lock file.
web: env
	cd web && PATH=$(abspath $(BIN)):$$PATH npm ci --no-audit --no-fund && PATH=$(abspath $(BIN)):$$PATH npm run build

# Chromium for the browser tests (root, Debian or Ubuntu); without it they skip.
browser: env
	apt-get install -y --no-install-recommends chromium

search: env
	$(BIN)/anchor search

test: env
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-fast: env
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow"

# GPAW is GPL and needs a compiler: only this target installs it. The tests run without it, too, and skip.
test-dft: env
	CC=g++ $(BIN)/pip install -q -c constraints.txt -e ".[dft]"
	$(BIN)/python -m pytest tests/dft

# Needs to mount small file systems (root): wrong command lines, 10,000 random inputs for each reader, ten
# processor minutes of bad days, Ray clusters, thousands of requests to the page.
faults: env
	$(BIN)/python tests/faults/bad_lines.py
	$(BIN)/python tests/faults/fuzz.py
	$(BIN)/python tests/faults/campaigns.py --minutes 10
	$(BIN)/python tests/faults/ray_faults.py
	ANCHOR_API_CASES=500 $(BIN)/python -m pytest tests/server/test_api.py

# Needs the network, PyPI itself, not a mirror: known weaknesses of all pinned packages (a package that cannot be
# looked up is a failure), and a list of them (CycloneDX) in sbom.json.
audit:
	@test -x .audit/bin/pip-audit || { $(PYTHON) -m venv .audit && .audit/bin/pip install -q pip-audit==2.10.1 cyclonedx-bom==7.5.0; }
	.audit/bin/cyclonedx-py requirements constraints.txt -o sbom.json
	.audit/bin/pip-audit --strict -r constraints.txt --no-deps --disable-pip

lint: env
	$(BIN)/ruff check --fix . && $(BIN)/ruff format . && $(BIN)/mypy

bench: env
	@for file in benchmarks/*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

docs: env
	$(BIN)/python -m anchor.cli.reference docs

# The documentation as pages for the browser, in site/.
site: docs
	$(BIN)/zensical build --clean --strict

clean:
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache
