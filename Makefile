# make setup | demo | serve | test | lint | docs -- each does all that it needs, starting from a fresh clone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: setup demo serve test lint docs clean

setup: $(VENV)/.core ## what users need

demo: setup ## a machine goes from healthy to faulty under loads the model never saw
	$(BIN)/cgsa demo

serve: setup ## machines under watch, in a browser
	$(BIN)/cgsa serve --demo

test: $(VENV)/.dev lint ## everything that must hold
	$(BIN)/pytest -n auto

lint: $(VENV)/.dev
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

docs: $(VENV)/.dev ## HTML pages in docs/_build/html
	$(BIN)/sphinx-build -q -W -b html docs docs/_build/html

clean:
	rm -rf $(VENV) demo demo-service docs/_build

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) --editable '.[serve]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.core
