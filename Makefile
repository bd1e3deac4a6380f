# Two commands matter: `make demo` and `make test`. Both set up .venv by themselves.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup demo test docs lint types minimal reproduce audit format clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

setup: $(STAMP)  ## create .venv and install suwr with everything its developers need

demo: $(STAMP)  ## train on a real data set and tell the story of three predictions
	$(BIN)/suwr demo

# One thread per worker: the workers already use every core.
test: lint types  ## ruff, mypy, then every test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

docs: $(STAMP)  ## build the documentation site into build/site, strictly (a test does so too)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

lint: $(STAMP)  ## style and common mistakes
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)  ## static types
	$(BIN)/mypy

minimal: $(STAMP)  ## smoke test with the oldest versions and no extras, in a scratch environment
	$(BIN)/python benchmarks/reliability/minimal.py

reproduce: $(STAMP)  ## list the commands that reproduce the paper's experiments
	@$(BIN)/python -m suwr_experiments --help

audit: $(STAMP)  ## known vulnerabilities of the pinned versions, where the advisories can be reached
	$(BIN)/python -m pip install --quiet pip-audit
	$(BIN)/pip-audit --requirement constraints.txt --no-deps --disable-pip

format: $(STAMP)  ## rewrite the sources in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## remove what the commands above made
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache suwr-demo
