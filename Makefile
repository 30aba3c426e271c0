# One command each: `make demo`, `make test`. A virtual environment is made on first use.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO ?= demo
CODE := src tests benchmarks
# more than there are processors: tests wait a third of their time for other programs, or compilers
PYTEST_WORKERS ?= 4
BUDGET ?= 1h

# Tests start hundreds of programs: what was compiled once is kept.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test check style types examples suite docs packages slow fuzz mutants bench papers dist clean

help:
	@echo "make demo    first result on a synthetic hospital"
	@echo "make check   style, types, examples in docstrings"
	@echo "make test    style, types, all tests but the slow ones"
	@echo "make docs    the documentation as a site, in build/site"
	@echo "make slow    long statistical tests, and all examples of those that try many"
	@echo "make fuzz    new random examples for MINUTES=10, in all rooms or ROOM=tables"
	@echo "make mutants guarantees broken on purpose, one by one: tests must notice; ROOM=cells for a part"
	@echo "make bench   speed against other tools, as ratios; BUDGET=30m limits its time"
	@echo "make papers  tables and figures of the papers again, on their pages; QUICK=--quick for a part"
	@echo "make dist    wheel and source archive, tried in an environment of their own"

# what `make demo` needs: the package and its pictures
$(VENV)/.installed: pyproject.toml
	@scripts/install $(PYTHON) $(VENV) -e '.[report]'
	@touch $@

# what tests need: every extra, and the tools
$(READY): pyproject.toml
	@scripts/install $(PYTHON) $(VENV) -e '.[all]' --group test
	@touch $(VENV)/.installed $@

demo: $(VENV)/.installed
	@scripts/demo $(BIN) $(DEMO)

check: style types examples

style: $(READY)
	@$(BIN)/ruff check --quiet $(CODE)
	@$(BIN)/ruff format --quiet --check $(CODE)

types: $(READY)
	@$(BIN)/mypy

examples: $(READY)
	@$(BIN)/pytest --quiet tests/docs/test_docstrings.py --workers $(PYTEST_WORKERS)

# types are checked on one processor while tests begin on the other
test:
	@$(MAKE) --no-print-directory -j 4 types suite

# not told that make runs several things at once: tests that run make themselves are on their own
suite: packages style
	@env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL \
		$(BIN)/pytest -m "not slow" --workers $(PYTEST_WORKERS)

# the site is read from disk, without a network; the reference in it is read from the code
docs:
	@scripts/install $(PYTHON) $(VENV) -e '.[docs]'
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "build/site/index.html"

slow: $(READY)
	SCIPY_ARRAY_API=1 $(BIN)/pytest -m "slow or hypothesis" --hypothesis-profile=thorough

MINUTES ?= 10
fuzz: $(READY)
	$(BIN)/python scripts/fuzz.py --minutes $(MINUTES) $(ROOM)

mutants: $(READY)
	$(BIN)/python scripts/mutants.py $(ROOM)

bench: $(READY)
	$(BIN)/python -m benchmarks --budget $(BUDGET) $(BENCH)

papers: $(READY)
	@for name in $$($(BIN)/python -c "from sfumato.papers import PAPERS; print(*PAPERS)"); do $(BIN)/sfumato paper $$name $(QUICK) || exit; done

dist:
	@scripts/dist $(PYTHON)

# servers that some tests start; without them these tests are skipped, and say so
packages:
	@scripts/packages

clean:
	rm -rf $(DEMO) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
