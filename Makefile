# One command each: `make demo`, `make test`. A virtual environment is made on first use.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO ?= demo
CODE := src tests benchmarks
PYTEST_WORKERS ?= 2
BUDGET ?= 1h

.PHONY: help demo test check docs packages slow fuzz bench clean

help:
	@echo "make demo    first result on a synthetic hospital"
	@echo "make check   style, types, examples in the documentation"
	@echo "make test    check, then all tests but the slow ones"
	@echo "make docs    the documentation as a site, in build/site"
	@echo "make slow    long statistical tests"
	@echo "make fuzz    new random examples for MINUTES=10, in all rooms or ROOM=tables"
	@echo "make bench   speed against other tools, as ratios; BUDGET=30m limits its time"

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

# what `make demo` needs: the package alone
$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet -e .
	@touch $@

# what tests need: every extra, and the tools
$(READY): pyproject.toml $(VENV)/.installed
	$(BIN)/python -m pip install --quiet -e '.[all]' --group test
	@touch $@

demo: $(VENV)/.installed
	@mkdir -p $(DEMO)
	$(BIN)/sfumato demo-data --output $(DEMO)/people.parquet --force
	$(BIN)/sfumato scan $(DEMO)/people.parquet

check: $(READY)
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy
	$(BIN)/pytest --quiet --doctest-modules src

test: packages check
	$(BIN)/pytest -m "not slow" -n $(PYTEST_WORKERS) --dist loadgroup

# the site is read from disk, without a network; the reference in it is read from the code
docs: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "build/site/index.html"

slow: $(READY)
	$(BIN)/pytest -m slow

MINUTES ?= 10
fuzz: $(READY)
	$(BIN)/python scripts/fuzz.py --minutes $(MINUTES) $(ROOM)

bench: $(READY)
	$(BIN)/python -m benchmarks --budget $(BUDGET) $(BENCH)

# servers that some tests start; without them these tests are skipped, and say so
packages:
	@scripts/packages

clean:
	rm -rf $(DEMO) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
