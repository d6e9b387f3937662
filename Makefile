# Everything a person does with a checkout. `make run` and `make test` set up what they need first.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Two cores are what we promise to be quick on; more are used where there are more.
JOBS   ?= $(shell n=$$(nproc 2>/dev/null || echo 2); [ $$n -gt 8 ] && n=8; echo $$n)
# AGAIN=--last-failed runs only what failed before.
PYTEST := $(BIN)/python -m pytest $(AGAIN)
# Tests of one file share what is slow to start, so they stay together; files that take long come first
# (tests/conftest.py), not those that have many tests.
TOGETHER := --dist loadfile --no-loadscope-reorder
SLOW   := --timeout=1200 $(TOGETHER) --durations=15
QUICK  := not system and not chaos and not gpu and not bench and not kubernetes and not terraform
# Quick tests wait for a third of their time, for processes and networks: more of them keep the cores busy.
BESIDE := $(shell echo $$(($(JOBS) + ($(JOBS) < 4 ? 2 : $(JOBS) / 2))))
# So do the slow ones, for nearly half of theirs.
ONE_MORE := $(shell echo $$(($(JOBS) + 1)))

# pip's index settings hold for uv as well, unless uv has its own.
INDEX = $${UV_DEFAULT_INDEX:-$${UV_INDEX_URL:-$$($(BIN)/pip config get global.index-url 2>/dev/null || true)}}
UVPIP = index="$(INDEX)"; $${index:+env} $${index:+UV_DEFAULT_INDEX=$$index} $(BIN)/uv pip
# uv's own limit, 60 s for a file, is too short on a machine whose cores are all taken.
export UV_COMPILE_BYTECODE_TIMEOUT ?= 600

.PHONY: help run up test test-system test-gpu test-kubernetes test-terraform chaos lint format bench lock clean

help:
	@echo "make run          run configs/suites/quickstart.yaml on this machine, the whole pipeline"
	@echo "make up           Prefect server with UI, deployments, schedule and reaper, here"
	@echo "make test         lint, types, import rules, and the quick tests"
	@echo "make test-system  slow tests of the whole: real servers, workers, builds"
	@echo "make chaos        kill tests (CHAOS_SAMPLE=n runs n of them)"
	@echo "make test-gpu     the pipeline on CUDA, where there is a GPU (docs/gpu.md)"
	@echo "make test-kubernetes  on the real cluster of SLICEBENCH_TEST_CONTEXT (CONTRIBUTING.md)"
	@echo "make test-terraform  what env export writes, by terraform or tofu itself"
	@echo "make bench        ratios against peers, measured in the same call"
	@echo "make lint         lint, types and import rules alone"
	@echo "make lock         write the lock files anew"
	@echo "make clean        remove .venv and caches of this checkout"

$(VENV)/bootstrap.stamp: requirements/bootstrap.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "slicebench needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1)."; \
	  echo "Name another one: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "This Python has no venv. On Debian and Ubuntu: sudo apt-get install python3-venv"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bootstrap.lock
	@touch $@

$(VENV)/run.stamp: $(VENV)/bootstrap.stamp requirements/run.lock pyproject.toml
	@echo "installing what slicebench needs into $(VENV), once: a minute or so, more on a busy machine …"
	@$(UVPIP) install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements/run.lock
	@$(UVPIP) install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/dev.stamp: $(VENV)/run.stamp requirements/dev.lock
	@echo "installing what its checks and tests need, once …"
	@$(UVPIP) install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements/dev.lock
	@touch $@

run: $(VENV)/run.stamp
	$(BIN)/slicebench run quickstart

up: $(VENV)/run.stamp
	$(BIN)/slicebench up

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/dev.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Types take one core for a minute where nothing is known yet: they are checked beside the tests, and told last.
test: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	@$(BIN)/mypy > $(VENV)/types.out 2>&1 & types=$$!; \
	  $(PYTEST) -m "$(QUICK)" -n $(BESIDE) $(TOGETHER); tests=$$?; \
	  wait $$types; types=$$?; cat $(VENV)/types.out; [ $$tests$$types = 00 ]

test-system: $(VENV)/dev.stamp
	$(PYTEST) -m system -n $(ONE_MORE) $(SLOW)

chaos: $(VENV)/dev.stamp
	$(PYTEST) -m chaos -n $(ONE_MORE) $(SLOW)

test-gpu: $(VENV)/dev.stamp
	$(PYTEST) -m gpu --timeout=900

test-kubernetes: $(VENV)/dev.stamp
	$(PYTEST) -m kubernetes --timeout=900

test-terraform: $(VENV)/dev.stamp
	$(PYTEST) -m terraform --timeout=900

bench: $(VENV)/dev.stamp
	$(BIN)/python -m tests.bench

LOCK = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate
lock: $(VENV)/bootstrap.stamp
	$(LOCK) --upgrade pyproject.toml --group dev -o requirements/dev.lock
	$(LOCK) requirements/bootstrap.in -c requirements/dev.lock -o requirements/bootstrap.lock
	$(LOCK) pyproject.toml -c requirements/dev.lock -o requirements/run.lock
	$(LOCK) runtime/requirements.in -c requirements/dev.lock -o runtime/requirements.lock
	$(LOCK) deployments/reaper/requirements.in -c requirements/dev.lock -o deployments/reaper/requirements.lock

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache *.egg-info
	find flows tasks runtime tests -name __pycache__ -type d -prune -exec rm -rf {} +
