# Everything that a fresh checkout needs is made into .venv; nothing is written to the home folder.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --no-cache-dir --disable-pip-version-check -q
PYTEST ?= $(BIN)/python -m pytest -n auto
# Words for `make demo`.
Q ?= rust async cancellation
export Q

.PHONY: demo test lint bench eval clean

demo: .venv/installed
	@examples/demo.sh "$$Q"

test: .venv/dev
	$(PYTEST) $(T)

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: .venv/dev
	$(BIN)/python benchmarks/run.py

eval: .venv/dev
	$(BIN)/python benchmarks/evaluate.py

.venv/installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("lspipe needs Python 3.11 or newer, this is %d.%d: make PYTHON=..." % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -m venv .venv || { echo "$(PYTHON) has no venv module: install it (Debian: python3-venv)" >&2; exit 1; }
	$(PIP) install -e '.[rg]'
	@touch $@

.venv/dev: .venv/installed
	$(PIP) install -e '.[rg,dev]'
	@touch $@

.venv: .venv/installed

clean:
	rm -rf .venv build dist *.egg-info .hypothesis .mypy_cache .ruff_cache .coverage
