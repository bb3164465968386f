# Every target works from a fresh clone with Python 3.11 or newer and make: it creates .venv and installs the
# pinned versions of what it needs, once.  `make test PYTHON=python3.12` uses that interpreter, in .venv-python3.12.

.DEFAULT_GOAL := help
SHELL := /bin/sh

PYTHON ?=
VENV ?= .venv$(if $(PYTHON),-$(notdir $(PYTHON)))
RUN := $(VENV)/bin/python
SOURCES := src tests benchmarks docs examples publishing scripts .ci

# The pins hold for the packages and for the build backend, whichever of the two variables pip knows.  Everything is
# installed from files with known hashes, but for PyTorch, whose files differ between machines.
PINS := PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt
PIP := $(PINS) PIP_DISABLE_PIP_VERSION_CHECK=1 $(RUN) -m pip install -qq

# `make demo` installs the core only, so that a newcomer waits for nothing else.
CORE := $(VENV)/.installed-core
DEV := $(VENV)/.installed-dev
DOCS := $(VENV)/.installed-docs

.PHONY: help
help:  ## list these commands
	@echo "almostsure: damage budgets that hold with probability one"
	@echo
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1 | \2/p' Makefile | awk -F'|' '{ printf "%-15s %s\n", $$1, $$2 }'
	@echo
	@echo "  PYTHON=python3.12 chooses the interpreter."

.PHONY: demo
demo: $(CORE)  ## run the demonstration: one map, three constraints, and an HTML report
	@mkdir -p out && $(RUN) -m almostsure demo --output out/almostsure-report.html
	@echo && echo "In this shell the command is found after: . $(VENV)/bin/activate"

.PHONY: test
test: $(DEV)  ## run every test, doctest and documented snippet
	@$(RUN) -m pytest -n $(or $(JOBS),2) $(ARGS)

.PHONY: lint
lint: $(DEV)  ## ruff, mypy --strict, and the contracts about imports
	@failed=; \
	$(RUN) -m ruff check $(wildcard $(SOURCES)) || failed=1; \
	$(RUN) -m ruff format --check $(wildcard $(SOURCES)) || failed=1; \
	$(RUN) -m mypy || failed=1; \
	$(VENV)/bin/lint-imports || failed=1; \
	test -z "$$failed"

.PHONY: format
format: $(DEV)  ## let ruff repair and format the sources
	@$(RUN) -m ruff check --fix --quiet $(wildcard $(SOURCES))
	@$(RUN) -m ruff format $(wildcard $(SOURCES))

.PHONY: bench
bench: $(DEV)  ## run each benchmark and its peer, and write the ratios into docs/benchmarks.md
	@$(RUN) scripts/benchmarks_page.py --run $(or $(NAMES),all) $(if $(ARGS),-- $(ARGS))

.PHONY: fuzz
fuzz: $(DEV)  ## compare 10⁶ random models with plain twins, and play 10⁹ shielded steps; resumes where it stopped
	@$(RUN) tests/fuzz/run.py $(ARGS)

.PHONY: oldest
oldest:  ## run the core tests with the oldest versions that pyproject.toml allows
	@sh scripts/oldest.sh $(PYTHON)

.PHONY: mutants
mutants: $(DEV)  ## mutation testing: which small changes of the code no test notices; under an hour
	@$(PIP) 'cosmic-ray>=8.4' 'pytest-cov>=7'
	@$(RUN) scripts/mutants.py $(ARGS)

.PHONY: docs
docs: $(DOCS)  ## build the documentation site, in site/
	@PYTHONPATH=scripts $(VENV)/bin/zensical build --strict
	@echo "The documentation is in site/index.html"

.PHONY: pins
pins:  ## update constraints.txt and requirements*.txt to the newest versions
	@sh scripts/pins.sh $(PYTHON)

.PHONY: clean
clean:  ## remove environments, caches and build outputs
	rm -rf .venv .venv-* build dist site out .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .benchmarks
	find src tests benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# ---------------------------------------------------------------- environments

$(RUN):
	@python="$$(sh scripts/find-python.sh $(PYTHON))" && \
	  echo "Creating $(VENV) with $$("$$python" --version) …" && "$$python" -m venv "$(VENV)"

$(CORE): pyproject.toml constraints.txt requirements.txt | $(RUN)
	@echo "Installing almostsure, which takes a minute or two …"
	@$(PIP) --require-hashes --requirement requirements.txt
	@$(PIP) --no-deps --no-build-isolation --editable .
	@echo "Compiling its kernels …"
	@$(RUN) -m almostsure.warm
	@touch $@

$(DEV): $(CORE) requirements-dev.txt
	@echo "Installing what the tests and the linters need …"
	@$(PIP) --require-hashes --no-deps --requirement requirements-dev.txt
	@$(PIP) --no-build-isolation --editable '.[storm,test,lint]'  # PyTorch; the rest is there
	@touch $@

$(DOCS): $(CORE) requirements-docs.txt
	@echo "Installing Zensical …"
	@$(PIP) --require-hashes --no-deps --requirement requirements-docs.txt
	@touch $@
