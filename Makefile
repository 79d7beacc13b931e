PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

# Number of test processes. Tests with servers mostly wait; each of these processes runs about 2 GiB of servers.
UNIT_WORKERS ?= 3
TEST_WORKERS ?= 6
unexport PYTHONDONTWRITEBYTECODE  # without cached bytecode, every worker and every program compiles all modules again

.PHONY: help setup check format test unit e2e images demo bench crds charts lock clean

help: ## show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

setup: $(STAMP) ## create the virtual environment from the lock file

$(STAMP): requirements/dev.txt pyproject.toml
	@echo 'Installing the locked packages into $(VENV) (about a minute) ...'
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/pip install --quiet --require-hashes -r requirements/dev.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

check: $(STAMP) ## check lint, formatting, types, layers and generated files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m rig.purity
	$(BIN)/python -m rig.class_names
	$(BIN)/python -m shared.api.crds --check crds
	$(BIN)/python -m shared.api.reference --check docs/api.md
	$(BIN)/python -m rig.charts --check

format: $(STAMP) ## apply the formatter and the safe fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

unit: $(STAMP) ## run the tests that need no server
	$(BIN)/pytest -n $(UNIT_WORKERS) tests/unit

test: $(STAMP) ## set up everything and run every test (those of `make e2e` only as root, where nodes can run)
	$(BIN)/python -m rig setup
	$(BIN)/python -m rig node setup --if-possible
	$(BIN)/pytest -n $(TEST_WORKERS)

e2e: $(STAMP) ## run the tests on real nodes, with the images and the charts (root)
	$(BIN)/python -m rig node setup
	LARDER_E2E=required $(BIN)/pytest tests/e2e

images: $(STAMP) ## build both images with buildah (root); print their size and how long they take to start
	$(BIN)/python -m rig node setup
	$(BIN)/python -m rig node images

demo: $(STAMP) ## run the whole system on a real control plane; KEEP=1 leaves it running
	$(BIN)/larder demo $(if $(KEEP),--keep)

bench: $(STAMP) ## compare Larder's transfers with other tools; BENCH='link --rounds 1' selects one (docs/benchmarks.md)
	$(BIN)/python -m tests.bench $(BENCH)

crds: $(STAMP) ## write crds/*.yaml and docs/api.md from the Structs in shared/api
	$(BIN)/python -m shared.api.crds crds
	$(BIN)/python -m shared.api.reference docs/api.md
	$(BIN)/python -m rig.charts

charts: $(STAMP) ## write the charts' copies of crds/*.yaml and the tables of values in their READMEs
	$(BIN)/python -m rig.charts

lock: ## resolve the requirements again, with hashes and without index addresses
	for extra in agent controller dev; do $(BIN)/uv pip compile --quiet --universal --upgrade --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-header --extra $$extra pyproject.toml -o requirements/$$extra.txt; done
	echo 'transformers>=5,<6' | $(BIN)/uv pip compile --quiet --upgrade --python-version 3.13 --generate-hashes \
	  --no-emit-index-url --no-header --no-annotate --no-emit-package numpy - -o examples/model-server/requirements.txt

clean: ## remove the virtual environment and the tools' caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
