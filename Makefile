# Short on purpose: each target calls tools/setup, cmake, pip or pytest, which can all be called by hand too.
#
#   make         build, and install the package into ./.venv
#   make dev     quick build in build/dev; ./.venv then runs python/paddle straight from this checkout
#   make scripts install into ./.venv what paddlepaddle 1.8.5 brought along: Pillow, matplotlib, scipy, ...
#   make browser install the browser that tests of the page of a job use; without it they are skipped
#   make demo    train CTR-DNN on 2 servers and 2 workers on this machine, with a live table, AUC and a plot
#   make test    every check there is, the layout of C and Python files among them, with one closing line
#   make soak    the long tests, about two hours: many batches, big tables, all of MNIST, every layout of servers and
#                trainers, hundreds of faults, five minutes of each fuzz target, random Programs and random jobs for 15 each,
#                hostile ops and random Programs with the sanitizers for 10 each
#   make bench   measure speed and memory
#   make format  lay out the C files as .clang-format says
#   make clean   remove what was built
#   make help    show these lines

PYTHON ?= python3
JOBS ?= $(shell nproc)
DEV ?= build/dev
VENV := .venv/bin
# One build at a time in one checkout.
LOCKED := mkdir -p build && flock build/.lock

export PYTHON

.PHONY: install dev setup scripts browser demo test soak bench format clean help
install: setup
	@$(LOCKED) tools/install wheel -j$(JOBS)

dev: setup
	@$(LOCKED) tools/install dev -j$(JOBS) $(DEV)

setup:
	@$(LOCKED) tools/setup

scripts: setup
	@$(LOCKED) tools/install scripts

browser:
	@$(LOCKED) tools/packages packages-browser.apt

demo: install
	$(VENV)/python examples/demo.py

test: install
	$(VENV)/python tools/run_tests.py

soak: install
	$(VENV)/python tools/run_tests.py --fuzz-seconds 300 soak fuzz

bench: install
	$(VENV)/python bench/run.py
	$(VENV)/python bench/clicks.py
	$(VENV)/python bench/cluster.py
	$(VENV)/python bench/exchange.py
	$(VENV)/python bench/tables.py
	$(VENV)/python bench/curves.py
	$(VENV)/python bench/nodes.py

format: setup
	$(VENV)/clang-format -i $(shell find src include python/ext tests examples -name '*.[ch]')

clean:
	rm -rf build dist

help:
	@sed -n 's/^#   //p' Makefile
