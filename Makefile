# `make demo` and `make test` need Python 3.10 or newer and make; everything else is installed into .venv by them.
# Another Python: `make PYTHON=/path/to/python3.12 demo`. Pytest's options: `make test PYTEST_ARGS="-x -k ring"`.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL: # all targets share one .venv
.DEFAULT_GOAL := help
.PHONY: help demo figures test lint format types imports docs fuzz chaos bench ci clean distclean

# The machine's own python3 where it is new enough (the one its owner prepared), else the newest of the others.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11 python3.10; do \
	"$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null \
	&& { echo "$$python"; break; }; done)

VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable
PYTEST_ARGS ?=
# The post's own CSV files; they lie beside some checkouts and are not part of the repository.
SEED ?= ../shared/data/seed
# How long the campaigns are; the same tests run in a short form under `make test`.
FUZZ_CASES ?= 1000000
CHAOS_FAULTS ?= 300

help: ## what can be made here (the default)
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1	/' | expand -t 20

demo: $(VENV)/demo.stamp ## measure collectives on this machine: tables, a results file, pictures
	@PATH="$(CURDIR)/$(BIN):$$PATH" bash examples/demo.sh results/demo

figures: $(VENV)/demo.stamp ## draw the post's figures from its results, and write docs/the-post.md (SEED=DIR)
	@$(BIN)/python examples/the_post/make.py "$(SEED)"

test: $(VENV)/test.stamp ## run the tests
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(VENV)/dev.stamp ## style and layout of the code, and the layers that imports must keep to
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo

format: $(VENV)/dev.stamp ## rewrite the layout of the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(VENV)/dev.stamp ## check the types of src, strictly
	$(BIN)/mypy

docs: $(VENV)/docs.stamp ## build the documentation into site/
	$(BIN)/mkdocs build --strict --quiet

fuzz: $(VENV)/test.stamp ## the long fuzzing campaign over every input format (FUZZ_CASES=1000000)
	BUSBW_FUZZ_CASES=$(FUZZ_CASES) $(BIN)/python -m pytest -m fuzz --timeout=0 $(PYTEST_ARGS)

chaos: $(VENV)/test.stamp ## the long campaign that kills and stops ranks (CHAOS_FAULTS=300)
	BUSBW_CHAOS_FAULTS=$(CHAOS_FAULTS) $(BIN)/python -m pytest -m chaos --timeout=0 $(PYTEST_ARGS)

bench: $(VENV)/test.stamp ## speed and accuracy side by side with peers (every benchmarks/*/*.py)
	@shopt -s nullglob; runs=(benchmarks/*/[!_]*.py); \
	(( $${#runs[@]} )) || { echo "make bench: there is no benchmarks/*/*.py in this checkout" >&2; exit 1; }; \
	for run in "$${runs[@]}"; do echo "== $$run"; $(BIN)/python "$$run"; done

ci: ## everything that a change must pass, from nothing
	.ci/run

clean: ## remove what was built, but keep .venv and results/
	rm -rf build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## remove .venv as well
	rm -rf $(VENV)

# One virtual environment, filled step by step: each stamp says that an extra of pyproject.toml is installed.
$(BIN)/python:
	@if [ -z "$(PYTHON)" ]; then \
		echo "busbw needs Python 3.10 or newer with its venv module (Debian: apt install python3-venv); none was found on PATH" >&2; exit 1; fi
	@echo "Setting up .venv with $$($(PYTHON) --version) (once)" >&2
	@$(PYTHON) -m venv $(VENV)

$(VENV)/demo.stamp: EXTRAS := all
$(VENV)/test.stamp: EXTRAS := all,test
$(VENV)/docs.stamp: EXTRAS := docs
$(VENV)/dev.stamp: EXTRAS := dev
$(VENV)/dev.stamp: HOLDS := $(VENV)/demo.stamp $(VENV)/test.stamp $(VENV)/docs.stamp
$(VENV)/%.stamp: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing busbw[$(EXTRAS)] into .venv (again only when pyproject.toml or constraints.txt change)" >&2
	@$(INSTALL) '.[$(EXTRAS)]'
	@touch $@ $(HOLDS)
