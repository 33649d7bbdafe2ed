# Everything runs in .venv, which the first target that needs it creates with the versions in constraints.txt.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
BUDGET ?= 90s

.PHONY: tune test lint notebooks bench clean

tune: $(VENV)/.installed  ## install, then tune on the built-in graph
	$(BIN)/a3gnn tune --dataset synthetic: --priority throughput --memory-limit 1GiB --budget $(BUDGET)

test: $(VENV)/.dev  ## run the tests
	$(BIN)/python -m pytest

lint: $(VENV)/.dev  ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

notebooks: $(VENV)/.dev  ## execute the notebooks in place
	for notebook in notebooks/*.ipynb; do \
		$(BIN)/jupyter-nbconvert --to notebook --execute --inplace $$notebook || exit 1; \
	done

bench: $(VENV)/.dev  ## run the benchmarks
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

clean:  ## remove the environment and what the tools cached
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit(f"a3gnn needs Python >= 3.11, got {sys.version}; make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "installing a3gnn and what it needs into $(VENV) (a few minutes the first time)"
	$(PIP) --editable '.[plot]'
	@touch $@

$(VENV)/.dev: $(VENV)/.installed
	$(PIP) --editable '.[dev]'
	@touch $@
