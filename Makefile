# Everything that a fresh checkout needs is made into .venv; nothing is written to the home folder.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --no-cache-dir --disable-pip-version-check -q
PYTEST ?= $(BIN)/python -m pytest -n auto
# Words for `make demo`.
Q ?= rust async cancellation
export Q
COVERED ?= tests/golden tests/pipeline

.PHONY: demo test matrix storm teeth coverage lint bench eval clean

demo: .venv/installed
	@examples/demo.sh "$$Q"

test: .venv/dev
	$(PYTEST) $(T)

# Each system call of each kind of owner, where `make test` samples the longest lives; and ten minutes of storm.
matrix: .venv/dev
	LSPIPE_MATRIX=all $(PYTEST) tests/proof/test_matrix.py

storm: .venv/dev
	LSPIPE_STORM=600 $(PYTEST) -n 0 tests/proof/test_storm.py

# Each guard taken out of a copy, and the test that notices. W: words of the guards' names.
teeth: .venv/dev
	$(BIN)/python tests/teeth.py $(W)

# Branch coverage of every process that these tests start. It measures and does not judge: `make test` does, where no
# test that looks at what a process opens sees the measuring, too.
coverage: .venv/dev
	rm -rf .coverage.d && mkdir .coverage.d
	-PYTHONPATH=$(CURDIR)/tests/coverage LSPIPE_COVERAGE=$(CURDIR)/.coverage.d CI= $(PYTEST) -q -W ignore \
	    -k 'not storm and not fuzz' $(COVERED) | tail -5
	$(BIN)/python tests/coverage/report.py .coverage.d

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
	rm -rf .venv build dist *.egg-info .hypothesis .mypy_cache .ruff_cache .coverage .coverage.d
