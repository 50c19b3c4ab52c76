# make run: install and evaluate FP8 programs.  make test: install and run the tests.  PYTHON chooses the interpreter.
PYTHON ?= python3
VENV := .venv-$(notdir $(PYTHON))
BIN := $(VENV)/bin
JOBS ?= auto

.PHONY: run test oldest docs dist stress exhaustive lint bench generate clean

run: $(VENV)/run.stamp
	$(BIN)/minihlo run examples/fnuz_dot.mlir
	$(BIN)/minihlo run examples/transformer_block.mlir --input @examples/transformer_block_x.npy \
		--expected @examples/transformer_block_jax.npy
	@echo "Every code of the second result is the one that JAX computed."

test: $(VENV)/test.stamp
	$(BIN)/python -m pytest -n $(JOBS) -m "not exhaustive and not stress"

# The tests on the oldest jaxlib that is supported.
oldest: .venv-oldest/test.stamp
	.venv-oldest/bin/python -m pytest -n $(JOBS) -m "not exhaustive and not stress"

# What is uploaded: built, checked, and its tests run on what it installs.
dist: .venv-dist/dist.stamp $(VENV)/test.stamp
	rm -rf dist
	.venv-dist/bin/python -m build --no-isolation --outdir dist .
	.venv-dist/bin/python -m twine check --strict dist/*
	$(BIN)/python -m tools.distribution dist

# The documentation as a site, in build/site.
docs: .venv-docs/test.stamp
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/python -m mkdocs build --quiet --strict
	.venv-docs/bin/python -m tools.check_site build/site

stress: $(VENV)/test.stamp
	$(BIN)/python -m pytest -m stress

exhaustive: $(VENV)/test.stamp
	$(BIN)/python -m pytest -n $(JOBS) -m exhaustive

lint: $(VENV)/lint.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

bench: $(VENV)/test.stamp
	$(BIN)/python -m benchmarks.against_reference

generate: $(VENV)/test.stamp
	$(BIN)/python examples/transformer_block.py
	$(BIN)/python -m tools.mlir_tests
	$(BIN)/python -m tools.generate

$(VENV)/run.stamp: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/test.stamp: $(VENV)/run.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test,onnx,onnxruntime]'
	@touch $@

.venv-oldest/test.stamp: pyproject.toml
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[test,onnx,onnxruntime]' \
		$$(sed -n 's/.*"jaxlib>=\([0-9.]*\)".*/jax==\1 jaxlib==\1/p' pyproject.toml)
	@touch $@

.venv-dist/dist.stamp: pyproject.toml
	$(PYTHON) -m venv .venv-dist
	.venv-dist/bin/python -m pip install --quiet --disable-pip-version-check build twine 'setuptools>=77'
	@touch $@

.venv-docs/test.stamp: pyproject.toml
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	mkdir -p .venv-docs/sources/minihlo
	ln -sfn $(CURDIR)/interp $(CURDIR)/ops .venv-docs/sources/minihlo/
	@touch $@

$(VENV)/lint.stamp: $(VENV)/test.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[lint]'
	@touch $@

clean:
	rm -rf .venv-* build dist *.egg-info
