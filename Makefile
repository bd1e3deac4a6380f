# Two commands matter: `make demo` and `make test`. Both create .venv on first use.
PYTHON  ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
PIP     := $(BIN)/python -m pip install --quiet --constraint constraints.txt
# Stamps: the library with plots and pandas, which the demo needs; then the development dependencies.
LIBRARY := $(VENV)/.library
DEV     := $(VENV)/.dev

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all docs lint types hashes minimal wheel reproduce audit format clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

$(LIBRARY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(PIP) --editable '.[plots]' pandas
	@touch $@

$(DEV): $(LIBRARY)
	$(PIP) --editable '.[dev]'
	@touch $@

setup: $(DEV)  ## create .venv with the library and all development dependencies

demo: $(LIBRARY)  ## train on a real data set and explain three predictions
	$(BIN)/suwr demo

# One thread per worker, because the workers already use all cores.
test: lint types  ## ruff, mypy, pip check, then the tests but for the slow ones
	$(BIN)/python -m pip check
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal -m "not slow"

test-all: lint types  ## as test, with the slow tests
	$(BIN)/python -m pip check
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

docs: $(DEV) docs/examples/breast_cancer.html docs/examples/docstrings.html  ## build the documentation site into build/site in strict mode
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs/examples/breast_cancer.html: examples/html_page.py | $(DEV)
	$(BIN)/python $<

docs/examples/docstrings.html: examples/texts.py | $(DEV)
	$(BIN)/python $<

lint: $(DEV)  ## ruff: lint and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(DEV)  ## mypy
	$(BIN)/mypy

hashes: $(DEV)  ## digests of the pinned versions; needs network access
	$(BIN)/python benchmarks/reliability/hashes.py

minimal: $(DEV)  ## smoke test with the oldest supported versions and no extras
	$(BIN)/python benchmarks/reliability/minimal.py

wheel: $(DEV)  ## build the wheel, check its files, run the demo from it alone, and copy it to dist
	$(BIN)/python benchmarks/reliability/wheel.py

reproduce: $(DEV)  ## list the commands that reproduce the paper's experiments
	@$(BIN)/python -m suwr_experiments --help

audit: $(DEV)  ## known vulnerabilities of the pinned versions; needs network access
	$(BIN)/python -m pip install --quiet pip-audit
	$(BIN)/pip-audit --requirement constraints.txt --no-deps --disable-pip

format: $(DEV)  ## apply ruff fixes and formatting
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## remove generated files
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache suwr-demo
