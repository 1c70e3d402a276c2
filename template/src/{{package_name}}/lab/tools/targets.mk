# Template's file: replaced by "copier update". Change it in the template, or override it from your own files.
# The Makefile of the project includes this file.
# setup: environment, packages, git, hooks. TORCH=cpu or TORCH=cu126 chooses another build of torch than PyPI's own.
# add:   a package more: make add PACKAGE=einops          kernel: the environment for notebooks on JupyterHub
# check: everything that a commit must pass        fix: repairs what can be repaired of it
# test:  the tests
PYTHON ?= python3
BIN ?= .venv/bin
PACKAGE_NAME := $(notdir $(patsubst %/lab/,%,$(wildcard src/*/lab/)))
SETUP = PYTHONPATH=src $(PYTHON) -m $(PACKAGE_NAME).lab.setup

.PHONY: setup add kernel check fix test
setup:
	@$(SETUP)

add:
	@$(SETUP) add

kernel:
	@$(SETUP) kernel

# Inside a larger repository pre-commit would look for the hooks at its top.
check:
	@if test -e .git; then $(BIN)/pre-commit run --all-files; \
	else $(BIN)/python -m $(PACKAGE_NAME).lab.hooks; fi

fix:
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format .
	@$(BIN)/ruff check .

test:
	@$(BIN)/python -m pytest
