# make setup | demo | serve | test | lint | coverage | docs | hooks -- each target works from a fresh clone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: setup demo serve test lint coverage docs hooks clean

setup: $(VENV)/.core ## a virtual environment with the packages that users need

demo: setup ## a simulated machine develops a fault under loads absent from training
	$(BIN)/cgsa demo

serve: setup ## the live service with simulated machines, in a browser
	$(BIN)/cgsa serve --demo

test: $(VENV)/.dev lint ## everything that must pass before a change lands
	$(BIN)/pytest -n auto

lint: $(VENV)/.dev ## formatter, linter, type checker, import rules, names
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/check_names.py

coverage: $(VENV)/.dev ## all tests, with line coverage on screen and in htmlcov/
	$(BIN)/pytest -n auto --cov --cov-report=term:skip-covered --cov-report=html

docs: $(VENV)/.dev ## HTML pages, beginning at docs/_build/html/docs/index.html
	$(BIN)/sphinx-build -q -W -b html -c docs . docs/_build/html

hooks: $(VENV)/.dev ## run the linters on every commit and the type checker on every push
	$(BIN)/pre-commit install

clean:
	rm -rf $(VENV) demo demo-service docs/_build htmlcov .coverage

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) --editable '.[serve]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.core
