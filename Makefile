# demo: a project in build/myproj, set up, trained, shown    test: the suite    test-slow: what takes longer
# test-newest, test-lowest: a project with other versions of its packages: make test-newest PYTHON=python3.13
# test-cluster: jobs on real schedulers (root)    test-gpu: what only a GPU can show, on a machine that has one    bench: the measurements
# Both use uv when it is installed, else venv and pip; TORCH=cpu takes the small build of torch.
PYTHON ?= python3
UV := $(shell command -v uv)
PROJECT := build/myproj

# The tested set of packages, for this repository's own environments and for the project that `make demo` sets up.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export UV_CONSTRAINT := $(CURDIR)/constraints.txt
ifdef PIP_FIND_LINKS
export UV_FIND_LINKS ?= $(PIP_FIND_LINKS)
endif

ifdef UV
venv = uv venv --quiet --clear --python '>=3.11' $(1)
install = uv pip install --quiet $(if $(TORCH),--torch-backend $(TORCH)) --python $(1)
else
venv = $(PYTHON) -m venv --clear $(1)
install = $(if $(TORCH),$(1)/bin/python -m pip install --quiet uv && $(1)/bin/uv pip install --quiet --torch-backend $(TORCH) --python $(1),$(1)/bin/python -m pip install --quiet)
endif

.PHONY: demo test test-slow test-cluster test-gpu test-newest test-lowest bench
demo: build/copier/ready
	@echo "== a project with the default answers: $(PROJECT)"
	@build/copier/bin/copier copy --defaults --overwrite --quiet --vcs-ref HEAD "$(CURDIR)" $(PROJECT)
	@$(MAKE) --no-print-directory -C $(PROJECT) setup
	@echo "== data, training, record"
	@cd $(PROJECT) && . .venv/bin/activate && set -ex; \
	    test -e data/digits.h5 || lab data pack digits; \
	    lab train trial=baseline; \
	    lab runs show @last
	@echo; echo "== where to look next"
	@echo "  cd $(PROJECT) && . .venv/bin/activate"
	@echo "  README.md                    what to do in a project, in order"
	@echo "  lab runs list                the runs so far; each is a directory below runs/"
	@echo "  lab trials new wide --from baseline     your first idea"

test: .venv/ready
	@.venv/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder # two files at a time

test-cluster: .venv/ready
	@if [ "$$(id -u)" = 0 ]; then .venv/bin/python -m pytest -m cluster; \
	else echo "test-cluster: skipped: it starts a Slurm and a Grid Engine, which needs root: sudo make test-cluster"; fi

test-slow: .venv/ready
	@.venv/bin/python -m pytest -n 2 -m slow

test-newest test-lowest: build/copier/ready
	@build/copier/bin/python hooks/try_versions.py $(@:test-%=%) --python $(PYTHON) $(if $(TORCH),--torch $(TORCH))

test-gpu: .venv/ready
	@rm -f build/gpu-figures.txt
	@.venv/bin/python -m pytest tests/gpu -rs
	@if [ -e build/gpu-figures.txt ]; then echo "== figures of this GPU"; cat build/gpu-figures.txt; fi

bench: .venv/ready
	@set -e; for file in benchmarks/*.py; do echo "== $$file"; .venv/bin/python "$$file"; done

build/copier/ready: constraints.txt
	$(call venv,build/copier)
	$(call install,build/copier) copier uv
	@touch $@

.venv/ready: constraints.txt
	$(call venv,.venv)
	$(call install,.venv) -r constraints.txt
	@touch $@
