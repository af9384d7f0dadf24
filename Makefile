# A bare checkout needs Python >= 3.11 and make; everything else lands in .venv, from wheels only.
BIN := .venv/bin
PYTHON ?=
ARGS ?=
# The matrices of the tests are small: BLAS threads only make them slower, and fight pytest's workers.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: .venv demo test lint format docs reproduce bench clean

demo: .venv
	$(BIN)/sojourn demo $(ARGS)

test: .venv
	$(ONE_THREAD) $(BIN)/pytest -n 2 --dist worksteal $(ARGS)

lint: .venv
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: .venv
	$(BIN)/sphinx-build --fail-on-warning --keep-going -b html docs docs/_build/html $(ARGS)

# Anew each time: a folder that is complete would be read, whichever code computed it.
reproduce: .venv
	rm -rf out/paper
	$(ONE_THREAD) $(BIN)/sojourn reproduce all --out out/paper $(ARGS)
	mkdir -p docs/reproduced
	cp out/paper/*.md out/paper/*.png docs/reproduced

bench: .venv
	$(ONE_THREAD) $(BIN)/python benchmarks/run.py $(ARGS)

.venv: .venv/.complete

.venv/.complete: pyproject.toml
	@python=$$(for p in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11 python; do \
	    $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; \
	  done); \
	if [ -z "$$python" ]; then \
	  echo "sojourn needs Python 3.11 or newer; say where it is: make PYTHON=/path/to/python3"; exit 2; \
	fi; \
	echo "building .venv with $$($$python --version) (a minute or two, once)"; \
	$$python -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --only-binary :all: -e '.[dev]'
	@touch $@

clean:
	rm -rf .venv docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
