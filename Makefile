# Everything runs in .venv, which the first target that needs it creates with the versions in constraints.txt.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
CONSTRAINTS ?= constraints.txt
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS)
# Extras for users; docs/licenses.py has the others.
EXTRAS := plot dataframe lightning ogb serve parts ray mcp energy postgres
BUDGET ?= 5min
# Tests that wait for processes leave a core idle: one worker more than cores, up to four.
CORES := $(or $(shell nproc 2>/dev/null),2)
WORKERS ?= $(if $(filter 1 2,$(CORES)),$(shell expr $(CORES) + 1),4)
# Which tests take longest is printed, and every test's seconds are in build/, for whoever makes them faster.
# Threads that spin at barriers stall the other tests (a3gnn/threads/wait_policy.py). Where an environment forbids
# bytecode, each of the hundreds of processes that tests start would compile all of a3gnn anew.
PYTEST = OMP_WAIT_POLICY=PASSIVE PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal \
	--durations=40 --junitxml=build/$@.xml
BENCHMARKS := engine emulated service surrogate_card
PEERS := .peers
SCALES ?= 22 24 26
SCALE_FOLDER ?= build/scale
PEER_PYTHON ?= $(PYTHON)

.PHONY: tune help test test-slow test-change test-weekly test-oldest test-newest coverage oldest kernels lint docs dist \
	licenses notebooks bench scale corpus grids policy peers services clean

tune: $(VENV)/.installed  ## install, then tune on the built-in graph
	$(BIN)/a3gnn tune --dataset synthetic: --memory-limit 1GiB --budget $(BUDGET)

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 14

test: $(VENV)/.dev  ## run the tests, but for the slow ones
	$(PYTEST) -m "not slow and not weekly and not margin"

test-slow: $(VENV)/.dev  ## run the tests that take more than about ten seconds each
	$(PYTEST) -m "slow and not weekly and not margin"

test-change: $(VENV)/.dev  ## run both of these at once, as .ci/run does: the slow ones first
	$(PYTEST) -m "not weekly and not margin"

test-weekly: $(VENV)/.dev  ## run the notebooks, pages, sweeps and benchmarks that no change has to wait for, and tests that decide by seconds
	$(PYTEST) -m "weekly or margin"

test-oldest:  ## run make test with the oldest versions that pyproject.toml allows
	$(MAKE) test VENV=build/oldest CONSTRAINTS=constraints-oldest.txt

test-newest:  ## run make test with the newest versions of today
	$(MAKE) test VENV=build/newest CONSTRAINTS=/dev/null

# Where tests fail, too, the lines that ran are listed.
coverage: $(VENV)/.dev  ## run make test and count lines: the rooms of a3gnn, the thinnest first
	$(PYTEST) -m "not slow and not weekly and not margin" --cov --cov-report= || touch build/failed
	$(BIN)/python -m tests.coverage | tee build/coverage.md
	! rm build/failed 2> /dev/null

oldest: $(VENV)/bin/python  ## write constraints-oldest.txt, after the versions in pyproject.toml changed
	$(PIP) uv
	$(BIN)/uv pip compile --quiet --no-deps --resolution lowest-direct --python-version 3.11 $(EXTRAS:%=--extra %) \
		--no-header --no-annotate --output-file constraints-oldest.txt pyproject.toml

kernels: $(VENV)/.installed  ## compile what most tests need: each of the tests' processes would do so at its start
	PYTHONPATH=.:surrogate:envs $(BIN)/python -m tests.kernels

lint: $(VENV)/.dev  ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.docs  ## build the docs site into site/
	$(BIN)/python -m docs.reference_pages
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build
	@echo "site/index.html is the docs site; to search in it, serve it: $(BIN)/python -m http.server --directory site"

# hatchling writes the same bytes for the same commit: its times are the commit's, its version is in constraints.txt.
dist: $(VENV)/bin/python  ## build the wheel and the source package of this commit into dist/
	$(PIP) build hatchling
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m build --quiet --no-isolation --outdir dist

licenses: $(VENV)/.dev  ## list the licenses of what is installed for users, into build/licenses.md
	mkdir -p build
	$(BIN)/python -m pip check
	$(BIN)/python -m docs.licenses > build/licenses.md

notebooks: $(VENV)/.dev  ## execute the notebooks in place
	for notebook in notebooks/*.ipynb; do \
		$(BIN)/jupyter-nbconvert --to notebook --execute --inplace $$notebook || exit 1; \
	done

bench: $(VENV)/.dev  ## run the benchmarks; peers that are not there are reported so
	for name in $(BENCHMARKS); do $(BIN)/python -m benchmarks.$$name || exit 1; done

scale: $(VENV)/.dev  ## graphs of 4, 17 and 67 million nodes from generated files to exact predictions (up to 75 GB of disk)
	$(BIN)/python -m benchmarks.scale.whole $(SCALE_FOLDER) --scale $(SCALES) --memory-limit 16GiB

corpus: $(VENV)/.dev  ## measure the shipped profiles again (an hour and a half, on a machine with nothing else to do)
	$(BIN)/python -m benchmarks.corpus --export profiles/corpus.jsonl.gz

grids: $(VENV)/.dev  ## measure the grids that decisions are replayed on (two hours, on a machine with nothing else to do)
	$(BIN)/python -m benchmarks.grids

policy: $(VENV)/.dev  ## train the policy that ships (five minutes), after the knobs or the profiles changed
	$(BIN)/python -m benchmarks.policy train

peers: $(PEERS)/dgl/.installed $(PEERS)/pyg/.installed  ## build the environments of PyG and DGL (half an hour)

services:  ## install PostgreSQL, Chromium and OpenCL on the processor by apt, for the tests that use them; as root
	apt-get update -q
	DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends postgresql chromium \
		g++ pocl-opencl-icd ocl-icd-opencl-dev opencl-headers

clean:  ## remove the environment and what the tools cached
	rm -rf $(VENV) build site .mypy_cache .ruff_cache .pytest_cache .hypothesis

# Python 3.11 brings pip 23, which took 153 s of processor time to install .[dev] here; pip 26 took 108 s (once each).
$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit(f"a3gnn needs Python >= 3.11, got {sys.version}; make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade pip

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml $(CONSTRAINTS)
	@echo "installing a3gnn and what it needs into $(VENV) (a few minutes the first time)"
	$(PIP) --editable '.[plot]'
	@touch $@

$(VENV)/.docs: $(VENV)/.installed
	$(PIP) --editable '.[docs]'
	@touch $@

# The extra dev has the extra docs.
$(VENV)/.dev: $(VENV)/.installed
	$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.docs

# DGL 2.1 has no wheels for Python 3.12 and later.
$(PEERS)/dgl/.installed: benchmarks/engine/peers/dgl.txt
	$(PEER_PYTHON) -m venv $(PEERS)/dgl
	$(PEERS)/dgl/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

$(PEERS)/pyg/.installed: benchmarks/engine/peers/pyg.txt benchmarks/engine/peers/pyg-sampler.txt
	$(PEER_PYTHON) -m venv $(PEERS)/pyg
	$(PEERS)/pyg/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/engine/peers/pyg.txt
	@echo "compiling PyG's sampler (half an hour on two cores)"
	$(PEERS)/pyg/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation -r benchmarks/engine/peers/pyg-sampler.txt
	@touch $@
