# Every target makes its own virtual environment and installs what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-torch test-lowest test-browser lint types docs docs-links bench paper beyond readme screenshots fuzz \
	release-files release-check clean

demo: $(VENV)/demo
	$(BIN)/lrrspm demo

test: lint
	$(BIN)/pytest

# What a GPU computes, by torch on the CPU. This version's CPU build is enough; pip may bring CUDA.
# The kernels are run by Triton's interpreter; a CPU build of torch brings no Triton, and there is
# none but for Linux. Triton 3.6 and before cannot interpret with NumPy 2.4.
TORCH ?= torch==2.13.0
TRITON ?= triton==3.8.0 ; sys_platform == "linux"

test-torch: $(VENV)/test
	$(BIN)/python -m pip install -q --disable-pip-version-check '$(TORCH)'
	$(BIN)/python -c 'import triton' 2>/dev/null || \
		$(BIN)/python -m pip install -q --disable-pip-version-check '$(TRITON)'
	$(BIN)/pytest tests/gpu tests/pipeline/test_devices.py

# The oldest versions that pyproject.toml allows. Newer packages that these need may warn of what
# they will drop, and old versions of Starlette leave files to the garbage collector.
LOWEST := .venv-lowest

test-lowest: $(LOWEST)/test
	$(LOWEST)/bin/python -m pytest -W ignore::DeprecationWarning \
		-W ignore::PendingDeprecationWarning -W ignore::pytest.PytestUnraisableExceptionWarning

$(LOWEST)/test: pyproject.toml
	test -x $(LOWEST)/bin/python || $(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install -q --disable-pip-version-check uv
	$(LOWEST)/bin/uv pip install -q --python $(LOWEST)/bin/python --upgrade \
		--resolution lowest-direct -e '.[test]'
	touch $@

test-browser: $(VENV)/browser
	$(BIN)/python -m tests.browser.chromium
	$(BIN)/pytest tests/browser

lint: $(VENV)/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

# pyright finds a package by the Python that comes first in PATH.
types: $(VENV)/types
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/basedpyright --ignoreexternal --verifytypes lrrspm

# The site, into docs/_build/html. Warnings are errors: a link or a name that leads nowhere, an
# example that fails, a page that no list names.
SPHINX := $(BIN)/python -m sphinx -W --keep-going -n -j auto -d docs/_build/doctrees

docs: $(VENV)/docs
	$(SPHINX) -b html docs docs/_build/html

# Addresses of other sites; needs the network, so it is no part of the tests.
docs-links: $(VENV)/docs
	$(SPHINX) -b linkcheck docs docs/_build/links

bench: $(VENV)/bench
	$(BIN)/python -m benchmarks

paper: $(VENV)/test
	$(BIN)/lrrspm paper all --results benchmarks/results/paper -o docs/results.md

beyond: $(VENV)/test
	$(BIN)/python -m benchmarks.beyond
	$(BIN)/python -m benchmarks.readme

readme: $(VENV)/test
	$(BIN)/python -m benchmarks.readme
	$(BIN)/python -m docs.figure

screenshots: $(VENV)/browser
	$(BIN)/python -m tests.browser.chromium
	$(BIN)/python -m docs.screenshots

# Seconds of each fuzzer.
FUZZ_SECONDS ?= 60

fuzz: $(VENV)/fuzz
	$(BIN)/python -m fuzz.images $(FUZZ_SECONDS)
	$(BIN)/python -m fuzz.models -max_total_time=$(FUZZ_SECONDS)

# The version in citations, and the list of licenses.
release-files: $(VENV)/release
	$(BIN)/python -m release.files

# Wheel, sdist and SBOM in dist/, tried in empty environments of each of these.
PYTHONS ?=

release-check: $(VENV)/release
	$(BIN)/python -m release.check $(PYTHONS)

$(VENV)/%: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[$*]'
	touch $@

clean:
	rm -rf $(VENV) $(LOWEST) build dist lrrspm-demo docs/_build docs/gallery docs/reference/generated
