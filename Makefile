# Sets up, serves, tests. `make help` lists the targets; every one of them can be repeated.
#
#   TORCH_INDEX=<address> make chat   takes torch from that package index (its processor build is about 0.2 GB; the
#                                     default registry's GPU build is 2.9 GB with its libraries). The choice is kept until `make clean`.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup weights chat test weaviate constraints wheel clean

VENV := .venv
RUN := $(VENV)/bin/python
STAMP := $(VENV)/.installed
UV_VERSION := 0.13.9
WEAVIATE_VERSION := 1.39.0

# The first Python that is new enough; 3.11 is the one everything is tested with.
PYTHON = $(shell for name in python3.11 python3.12 python3.13 python3; do \
  if $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then command -v $$name; break; fi; done)
UV := $(or $(shell command -v uv),.uv/bin/uv)

# uv does not read pip's configuration: hand it the index that pip is set to use, if there is one.
PIP_INDEX = $(or $(PIP_INDEX_URL),$(shell $(PYTHON) -m pip config get global.index-url 2>/dev/null))
INDEX = $(or $(UV_DEFAULT_INDEX),$(UV_INDEX_URL),$(PIP_INDEX))
WITH_INDEX = $(if $(INDEX),UV_DEFAULT_INDEX="$(INDEX)")
export UV_HTTP_TIMEOUT ?= 180
export UV_PYTHON_DOWNLOADS := never

# Another TORCH_INDEX than the environment was made with: make it again.
TORCH_INDEX_FILE := $(VENV)/.torch-index
KNOWN_TORCH_INDEX := $(shell cat $(TORCH_INDEX_FILE) 2>/dev/null)
TORCH_INDEX ?= $(KNOWN_TORCH_INDEX)
ifneq ($(strip $(TORCH_INDEX)),$(KNOWN_TORCH_INDEX))
.PHONY: $(STAMP)
NEW_VENV := yes
endif

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) weights  ## make .venv with the pinned packages, and fetch the language model's weights

chat: setup  ## set up, then serve the chat on http://127.0.0.1:7860
	@$(RUN) -m ui

test: setup  ## set up, then lint, check types and run the tests
	@echo "==> Fetching the small language model's weights for the end-to-end tests, if they are not here"
	@$(RUN) -m program.weights --model 0.5b
	@echo "==> Checking style and types"
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(RUN) -m mypy
	@echo "==> Running the tests"
	@$(RUN) -m pytest

weights: $(STAMP)
	@echo "==> Fetching the language model's weights, if they are not here (1.1 GB; RAG_WEIGHTS names a folder that has them)"
	@$(RUN) -m program.weights

weaviate: $(STAMP)  ## build the Weaviate server that its tests run, once (needs Go; about 6 minutes on two cores)
	@folder="$$($(RUN) -c 'from program.settings import Settings; print(Settings().cache / "weaviate")')"; \
	if [ -x "$$folder/weaviate-server" ]; then echo "==> Weaviate is in $$folder"; exit; fi; \
	command -v go >/dev/null || { echo "Go 1.26 or newer is needed to build Weaviate (https://go.dev/dl)." >&2; exit 1; }; \
	echo "==> Building Weaviate $(WEAVIATE_VERSION) into $$folder (190 MB; about 6 minutes on two cores, once)"; \
	CGO_ENABLED=0 GOBIN="$$folder" go install github.com/weaviate/weaviate/cmd/weaviate-server@v$(WEAVIATE_VERSION)

.uv/bin/uv:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed, and none was found." >&2; exit 1; }
	@echo "==> Fetching the installer uv $(UV_VERSION) into .uv (about 25 MB)"
	@"$(PYTHON)" -m venv .uv || { echo "On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@.uv/bin/python -m pip install --quiet uv==$(UV_VERSION)

# A processor-only torch is installed first, without its dependencies, which then come from the ordinary registry; its
# version, for example 2.15.0+cpu, satisfies the pin 2.15.0, so that nothing of CUDA is asked for.
$(STAMP): pyproject.toml constraints.txt hatch_build.py | $(UV)
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed, and none was found." >&2; exit 1; }
	@if [ -n "$(NEW_VENV)" ] || ! $(RUN) -c '' 2>/dev/null; then \
	  echo "==> Making the environment $(VENV) with $$($(PYTHON) --version)"; \
	  $(UV) venv --quiet --clear --python "$(PYTHON)" $(VENV); \
	fi
	@if [ -n "$(TORCH_INDEX)" ]; then \
	  echo "==> Installing torch from the index in TORCH_INDEX"; \
	  $(UV) pip install --python $(RUN) --constraints constraints.txt --no-deps --default-index "$(TORCH_INDEX)" torch; \
	fi
	@echo "==> Installing the packages pinned in constraints.txt ($(if $(TORCH_INDEX),0.5,3.3) GB to download if none is cached)"
	@$(WITH_INDEX) $(UV) pip install --python $(RUN) --constraints constraints.txt --editable '.[dev]'
	@$(RUN) -c 'import xllamacpp' 2>/dev/null || \
	  echo "==> llama.cpp does not load. If it lacks libgomp.so.1: apt-get install libgomp1 (Debian, Ubuntu)" >&2
	@echo "$(TORCH_INDEX)" > $(TORCH_INDEX_FILE)
	@touch $@

constraints: | $(UV)  ## pin the newest versions that pyproject.toml allows, for every platform
	@$(WITH_INDEX) $(UV) pip compile pyproject.toml --extra dev --universal --python-version 3.11 --upgrade \
	  --no-annotate --no-header --no-emit-index-url --quiet --output-file constraints.txt
	@echo "==> $$(wc -l < constraints.txt) versions pinned"

wheel: | $(UV)  ## build a wheel that runs outside the checkout, into dist
	@$(WITH_INDEX) $(UV) build --wheel --out-dir dist

clean:  ## remove the environment and everything built (indexes and weights are kept elsewhere)
	rm -rf $(VENV) .uv dist build .mypy_cache .ruff_cache .pytest_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
