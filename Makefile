# `make demo` and `make test` do everything on a fresh machine: virtual environment, dependencies, run. The demo needs a
# quarter of the packages: .venv has a stamp for those (.running) and one for all (.stamp).
# Nothing but the package registry is reached, and only while .venv is made.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PEERS := benchmarks/.venv-peers
STREAMERS := benchmarks/.venv-object-storage
FORMATS := tests/.venv-formats
STREAMING := tests/.venv-streaming
FLOORS := .venv-floors
BARE := .venv-bare
# Two workers: the tests start processes of their own. Tests of one group run in one worker: they share what they prepare.
PARALLEL := -n 2 --dist loadgroup
PYTEST := $(BIN)/python -m pytest
# Their advertisement for a successor; says nothing of our pages.
export NO_MKDOCS_2_WARNING := 1
# Python keeps compiled modules, whatever the caller's environment says: to compile torch anew takes each process of the
# tests 5 s of CPU time.
unexport PYTHONDONTWRITEBYTECODE
# Tests with other frameworks are not even collected without being asked for: to import those takes seconds.
WITHOUT_FRAMEWORKS := --ignore=tests/frameworks
FAST := $(PARALLEL) -m "not slow" $(WITHOUT_FRAMEWORKS)

.PHONY: help install demo test slow browser floors bare frameworks formats lint types types-here types-windows docs generate bench bench-peers bench-formats bench-object-storage mutants release clean

help:  ## Show this list.
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

install: $(VENV)/.stamp  ## Make the virtual environment, if it is not there or pyproject.toml changed.

# A stamp is written last, so that an interrupted installation is done again.
# --no-compile: Python compiles a module when it is first imported. Of 83 s of CPU time, pip spent 33 s on compiling all.
$(VENV)/.running: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "recordzoo needs Python 3.11 or later; say which: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-compile --editable '.[fast]'
	@touch $@

# pip before 25.1 knows no dependency groups; dev and docs are therefore extras.
$(VENV)/.stamp: $(VENV)/.running
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --editable '.[dev,docs,fast]'
	@touch $@

# -I: the checkout itself does not count as installed.
demo:  ## Show the whole way on generated pictures: download, resume, convert, compare, load. Offline.
	@if $(PYTHON) -I -c 'import recordzoo' 2> /dev/null; then python="$(PYTHON)"; else \
		$(MAKE) --no-print-directory $(VENV)/.running && python=$(BIN)/python; \
	fi && echo "$$python examples/demo.py --output demo-output" && "$$python" examples/demo.py --output demo-output

test: install  ## Run the fast tests.
	$(PYTEST) $(FAST)

slow: install  ## Run the slow tests.
	$(PYTEST) $(PARALLEL) -m "slow and not browser" $(WITHOUT_FRAMEWORKS)

# One worker: the site is built once. SITE is one that is built already.
browser: install  ## Run the tests in a headless Chromium (SITE=site: of the site that `make docs` built).
	$(PYTEST) -m browser $(if $(SITE),--site $(SITE)) tests/test_site.py tests/test_shown_in_browser.py

# Constrained to what is installed: nothing may bring another torch, or change what the other tests run with.
$(VENV)/.frameworks: $(VENV)/.stamp
	$(BIN)/python -m pip list --disable-pip-version-check --format=freeze --exclude-editable > $(VENV)/installed.txt
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --constraint $(VENV)/installed.txt \
		--editable '.[frameworks]'
	@touch $@

# Only uv can choose the oldest versions; they have wheels for the oldest Python.
# click 8.5 works with the oldest typer, but warns, and a warning fails the tests.
$(FLOORS)/.stamp: pyproject.toml
	$(PYTHON) -m venv --clear $(FLOORS)
	$(FLOORS)/bin/python -m pip install --disable-pip-version-check --quiet uv
	$(FLOORS)/bin/uv pip install --quiet --python $(FLOORS)/bin/python --resolution lowest-direct \
		--editable '.[dev,docs,fast]' 'click==8.4.*'
	@touch $@

floors: $(FLOORS)/.stamp  ## Run the fast tests with the oldest version of each dependency (PYTHON=python3.11).
	$(FLOORS)/bin/python -m pytest $(FAST)

$(BARE)/.stamp: pyproject.toml
	$(PYTHON) -m venv --clear $(BARE)
	$(BARE)/bin/python -m pip install --disable-pip-version-check --quiet --editable '.[dev,docs]'
	$(BARE)/bin/python -m pip uninstall --disable-pip-version-check --quiet --yes numba llvmlite simplejpeg isal
	@touch $@

bare: $(BARE)/.stamp  ## Run the fast tests without numba, libjpeg-turbo, simplejpeg and isal, as where they have no wheels.
	$(BARE)/bin/python -m pytest $(FAST) --bare

frameworks: $(VENV)/.frameworks  ## Run the tests with Lightning, accelerate and others (the extra `frameworks`).
	$(PYTEST) -n 2 tests/frameworks

# Old packages, which want old versions of others (numpy<2, without wheels for Python 3.13): an environment of their own,
# without what they depend on.
$(FORMATS)/.stamp: tests/formats.txt
	$(PYTHON) -m venv --clear $(FORMATS)
	$(FORMATS)/bin/python -m pip install --disable-pip-version-check --quiet --no-deps --requirement tests/formats.txt
	@touch $@

# What these packages depend on comes from $(VENV) with the frameworks: they want an older NumPy, but run with this one.
SITE_PACKAGES := import sysconfig; print(sysconfig.get_path('purelib'), end='')
$(STREAMING)/.stamp: tests/streaming.txt $(VENV)/.frameworks
	$(PYTHON) -m venv --clear $(STREAMING)
	echo "import site; site.addsitedir('$$($(BIN)/python -c "$(SITE_PACKAGES)")')" \
		> "$$($(STREAMING)/bin/python -c "$(SITE_PACKAGES)")/shared.pth"
	$(STREAMING)/bin/python -m pip install --disable-pip-version-check --quiet --no-deps --requirement tests/streaming.txt
	@touch $@

# Python 3.11 or 3.12 only (numpy<2).
formats: install $(FORMATS)/.stamp $(STREAMING)/.stamp  ## Import what the real torchrecord, msgpack, ... write; convert with Streaming and LitData.
	RECORDZOO_FORMATS_PYTHON=$(FORMATS)/bin/python RECORDZOO_STREAMING_PYTHON=$(STREAMING)/bin/python \
		$(PYTEST) tests/test_formats.py tests/test_foreign_datasets.py

lint: install  ## Check style and formatting.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install  ## Check types.
	@$(MAKE) --no-print-directory types-here types-windows

types-here: install
	$(BIN)/mypy

# A cache of its own: mypy drops what it found for another platform.
types-windows: install
	$(BIN)/mypy --platform win32 --no-warn-unreachable --cache-dir .mypy_cache/windows

# Not --quiet: it hides warnings from --strict, too.
docs: install  ## Build the site into site/; a warning is an error.
	$(BIN)/python docs/generate.py --check
	$(BIN)/mkdocs build --strict

generate: install  ## Write the types for editors anew.
	$(BIN)/python docs/generate.py

bench: install  ## Measure (PHOTOS=a folder, SECTION=opening, storing, preparing, precision or zoo) and write the page. As root, for cold caches.
	$(BIN)/python -m benchmarks $(if $(PHOTOS),--photos $(PHOTOS)) $(if $(SECTION),--section $(SECTION))

# Each alone, so that one that cannot be installed costs only itself; the benchmark reports it as missing.
$(PEERS)/.stamp: benchmarks/peers.txt pyproject.toml
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --disable-pip-version-check --quiet --constraint benchmarks/peers.txt --editable '.[fast]'
	@grep -v '^#' benchmarks/peers.txt | while read peer; do \
		$(PEERS)/bin/python -m pip install --disable-pip-version-check --quiet --constraint benchmarks/peers.txt "$$peer" \
			|| echo "cannot be installed: $$peer"; \
	done
	@touch $@

bench-peers: $(PEERS)/.stamp  ## Measure against other loaders (PHOTOS=..., ROW=one) and write their section.
	$(PEERS)/bin/python -m benchmarks.peers $(if $(PHOTOS),--photos $(PHOTOS)) $(if $(ROW),--row $(ROW))

$(STREAMERS)/.stamp: benchmarks/object-storage.txt pyproject.toml
	$(PYTHON) -m venv $(STREAMERS)
	$(STREAMERS)/bin/python -m pip install --disable-pip-version-check --quiet --requirement benchmarks/object-storage.txt --editable '.[fast,s3]'
	@touch $@

bench-formats: $(PEERS)/.stamp  ## Compare formats (PHOTOS=a folder) and write their section.
	$(PEERS)/bin/python -m benchmarks.formats $(if $(PHOTOS),--photos $(PHOTOS))

bench-object-storage: $(STREAMERS)/.stamp  ## Measure an epoch over S3 (PHOTOS=..., LINE=one) and write its section. As root.
	$(STREAMERS)/bin/python -m benchmarks.object_storage $(if $(PHOTOS),--photos $(PHOTOS)) $(if $(LINE),--line $(LINE))

# A folder outside the checkout: the clone, which is broken, and the coverage of its tests. Takes half an hour.
MUTANTS := /tmp/recordzoo-mutants

mutants: install  ## Break covered lines, one at a time, and count what the tests notice (RESULT=a JSON file).
	$(BIN)/python -m pip install --disable-pip-version-check --quiet 'coverage>=7.6' 'pytest-cov>=6'
	$(BIN)/python tools/mutants.py --scratch $(MUTANTS) --result $(or $(RESULT),$(MUTANTS)/result.json)

release: install  ## Build a release and check it in empty environments; publishes nothing (REHEARSAL=1: at any time).
	$(BIN)/python -m tools.release all $(if $(REHEARSAL),--rehearse)

clean:  ## Remove what these commands made.
	rm -rf $(MUTANTS) $(VENV) $(NEWEST) $(FLOORS) $(BARE) $(PEERS) $(PEERS)-313 $(STREAMERS) $(FORMATS) $(STREAMING) site dist release-notes.md demo-output .pytest_cache .mypy_cache .ruff_cache
