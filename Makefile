# The two commands of the README: `make search` and `make test`. Both make the environment first.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
export OMP_WAIT_POLICY := PASSIVE

.PHONY: env search test test-fast test-dft faults lint format bench docs clean

env: $(VENV)/.done

$(VENV)/.done: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -c constraints.txt "torch==2.13.0"
	$(BIN)/pip install -q -c constraints.txt -e ".[dev,chgnet,sevennet,mattersim-tests,server,verify]"
	$(BIN)/pip install -q -c constraints.txt --no-deps mattersim
	$(BIN)/anchor potentials fetch mattersim-1m mattersim-5m
	@touch $@

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

# Needs to mount small file systems (root): wrong command lines, then ten processor minutes of bad days.
faults: env
	$(BIN)/python tests/faults/bad_lines.py
	$(BIN)/python tests/faults/campaigns.py --minutes 10

lint: env
	$(BIN)/ruff check --fix . && $(BIN)/ruff format . && $(BIN)/mypy

bench: env
	@for file in benchmarks/*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

docs: env
	$(BIN)/python -m anchor.cli.reference docs

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
