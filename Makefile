# `make demo` shows the main job, `make test` checks everything but vLLM. Each installs what it needs, in folders of its own.

PYTHON ?= python3
BIN := .venv/bin
INSTALL := -m pip install -qq --disable-pip-version-check
PYTEST := $(BIN)/python -m pytest

.DEFAULT_GOAL := help
.PHONY: help install demo test test-canary test-vllm test-hub readme lint types contracts schemas check-schemas bench fuzz mutate refresh-check clean

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 15

install: .venv/stamp  ## lockllm and all that checks it, in .venv

# A stamp is as new as what it was made from; a half-made environment has none.
.venv/stamp: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python $(INSTALL) -e ".[dev]"
	@touch $@

.venv-transformers/stamp: tests/servers/transformers.txt
	rm -rf .venv-transformers
	$(PYTHON) -m venv .venv-transformers
	.venv-transformers/bin/python $(INSTALL) -r $<
	@touch $@

# Client 2.x is in .venv; these are the older ones.
.venv-hub-%/stamp: tests/hub/client-%.txt pyproject.toml
	rm -rf .venv-hub-$*
	$(PYTHON) -m venv .venv-hub-$*
	.venv-hub-$*/bin/python $(INSTALL) -e . -r $<
	@touch $@

.venv-olah/stamp: tests/hub/olah.txt
	rm -rf .venv-olah
	$(PYTHON) -m venv .venv-olah
	.venv-olah/bin/python $(INSTALL) -r $<
	@touch $@

# torchvision, torchaudio and torchcodec come as CUDA builds that do not import beside a CPU torch; text needs none of them.
.venv-vllm/stamp: tests/servers/vllm.txt
	rm -rf .venv-vllm
	$(PYTHON) -m venv .venv-vllm
	.venv-vllm/bin/python $(INSTALL) --no-compile -r $<
	.venv-vllm/bin/python -m pip uninstall -q -y torchvision torchaudio torchcodec
	@touch $@

.demo/stamp: pyproject.toml
	$(PYTHON) -m venv .demo/venv
	.demo/venv/bin/python $(INSTALL) -e ".[demo]"
	@touch $@

demo: .demo/stamp  ## the main job on a real server: lock, verify, a change, the report, the diff
	@.demo/venv/bin/python -m examples.demo

test: .venv/stamp .venv-transformers/stamp  ## every test but vLLM's, against real servers
	$(PYTEST) -n 2 --dist loadfile -m "not vllm and not canary"

test-canary: .venv/stamp  ## the canary's slow tests: more steps, gateways, history
	$(PYTEST) -m canary

# The environment takes 3 GB of disk, the server 3 GB of memory. Where either is short, this says so and ends well.
test-vllm: .venv/stamp  ## the tests against vLLM on the CPU: 3 GB, a few minutes
	@if test -e .venv-vllm/stamp; then disk=0; else disk=6; fi; \
	free=$$(df -BG --output=avail . | tail -1 | tr -dc 0-9); \
	memory=$$(awk '/MemAvailable/ {print int($$2 / 1048576)}' /proc/meminfo); \
	if test "$$free" -lt "$$disk" || test "$$memory" -lt 5; then \
		echo "test-vllm: skipped: needs $$disk GB of disk and 5 GB of memory, found $$free and $$memory"; \
	else \
		$(MAKE) --no-print-directory .venv-vllm/stamp && $(PYTEST) -m vllm; \
	fi

test-hub: .venv/stamp .venv-hub-0/stamp .venv-hub-1/stamp .venv-olah/stamp  ## the Hub's older clients, and another server of its interface
	for each in 0 1; do .venv-hub-$$each/bin/python -m pytest -n 4 -p no:cacheprovider \
		tests/hub/test_refusals.py tests/hub/test_listing.py || exit 1; done
	$(PYTEST) tests/hub/test_olah.py

lint: .venv/stamp  ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check -q .

types: .venv/stamp  ## mypy, strict
	$(BIN)/mypy

contracts: .venv/stamp  ## which room may import which
	$(BIN)/lint-imports

SCHEMAS := spec lock observation report diff inspect

MINUTES ?= 60

fuzz: .venv/stamp  ## every kind of hostile input for MINUTES, each case watched; needs a wheel of atheris to be guided
	-$(BIN)/python $(INSTALL) -e ".[fuzz]"
	nice -n 19 $(BIN)/python -m tests.fuzz --minutes $(MINUTES)

# Beside CI: a quarter of an hour for judge/, an hour for the bounds. MUTATE=judge or MUTATE=bounds runs one of them.
MUTATE ?= judge bounds

mutate: .venv/stamp  ## planted faults: judge/ must catch 95 of 100; which version bounds no test notices
	$(BIN)/python $(INSTALL) -e ".[mutate]"
	rm -rf mutants
	for each in $(MUTATE); do nice -n 19 $(BIN)/python -m tests.mutate.$$each || exit 1; done

refresh-check: .venv/stamp  ## the three newest releases of vLLM and SGLang read anew: 2 GB of wheels; nothing may change
	$(BIN)/python -m tools.refresh vllm --newest 3 --check
	$(BIN)/python -m tools.refresh sglang --newest 3 --check

schemas: .venv/stamp  ## write schemas/ from the code's own types
	@mkdir -p schemas
	@for name in $(SCHEMAS); do $(BIN)/lockllm schema $$name > schemas/$$name.json || exit 1; done

check-schemas: .venv/stamp  ## whether schemas/ is what the code says
	@made=$$(mktemp -d) && trap 'rm -rf "$$made"' EXIT && \
	for name in $(SCHEMAS); do $(BIN)/lockllm schema $$name > $$made/$$name.json || exit 1; done && \
	if diff -ru schemas $$made; then echo "schemas/ holds the $(words $(SCHEMAS)) that the code writes"; \
	else echo "schemas/ is not what the code writes: run make schemas and review it" >&2; exit 1; fi

readme: .venv/stamp  ## run what the README shows
	$(PYTEST) tests/test_readme.py

bench: .venv/stamp  ## lockllm beside its peers, as ratios
	$(BIN)/python -m benchmarks

clean:  ## remove every environment and cache
	rm -rf .venv .venv-transformers .venv-vllm .venv-hub-0 .venv-hub-1 .venv-olah .demo .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache mutants
