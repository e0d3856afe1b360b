# `make run` and `make test` work in a fresh clone: they make .venv and install PRISM there with its dependencies, once
# and again only when what is installed has changed; after that they need no network.
#
# TORCH says which torch to install where .venv has none; without a GPU the CPU build is smaller:
#   make run TORCH="torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu"
PYTHON ?= python3
TORCH ?= torch==2.13.0
BIN := .venv/bin
INSTALLED := .venv/.installed
FRAMEWORKS := .venv/.frameworks

.PHONY: run test test-gpu test-all lint docs images ext clean

run: $(INSTALLED)
	rm -rf runs/quickstart
	$(BIN)/python -m prism.coordinator scenarios/quickstart.yaml --out runs/quickstart

# How many processes tests/test_kills.py strikes.
KILLS ?= 23

# How many processes run the tests, each a file at a time. Files keep their order: by the number of their tests, those
# with few and long ones would come last, and one process alone would be left with them.
PROCESSES ?= 2

test: lint docs
	$(BIN)/pytest -n $(PROCESSES) --dist loadfile --no-loadscope-reorder -m "not slow or gpu" --kills $(KILLS)

# The tests that need a GPU, and say so where there is none.
test-gpu: $(INSTALLED)
	$(BIN)/pytest -m gpu -rs

test-all: lint $(FRAMEWORKS)
	$(BIN)/pytest --kills 60

lint: $(INSTALLED)
	$(BIN)/ruff check
	$(BIN)/mypy

# The documentation, into build/site; what does not hold together is an error.
docs: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build -q

# The pictures in docs/images, from runs of the scenarios that they show; needs Chromium.
IMAGES := quickstart will_it_fit half_network find_the_deadlock thousand_ranks
images: $(INSTALLED)
	rm -rf build/images && mkdir -p build/images
	-for name in $(IMAGES); do $(BIN)/python -m prism.coordinator scenarios/$$name.yaml --out build/images/$$name -q; done
	$(BIN)/python -m tests.report.screenshots build/images docs/images

# The extensions again, those whose sources have changed.
ext:
	$(BIN)/python setup.py -q build_ext --inplace

clean:
	rm -rf build runs prism/gpu/*.so *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis $(INSTALLED) $(FRAMEWORKS)

# Megatron-Core without what it would pull in (Transformer Engine, CUDA), as its programs on a CPU want it.
$(FRAMEWORKS): $(INSTALLED)
	DS_BUILD_OPS=0 $(BIN)/pip install --no-build-isolation -e ".[test,frameworks]"
	$(BIN)/pip install --no-deps megatron-core==0.16.1
	$(BIN)/pip install einops packaging pyyaml
	touch $@

# No build isolation: the extensions must be built against the torch that will load it.
$(INSTALLED): pyproject.toml setup.py $(wildcard ext/torch/* ext/nccl/*.cpp ext/nccl/*.h ext/nccl/cuda/* ext/nccl/shim/* ext/cuda/*.cpp ext/cuda/*.h ext/spill/*)
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -c "import torch" 2>/dev/null || $(BIN)/pip install $(TORCH)
	$(BIN)/pip install "setuptools>=77" wheel ninja
	$(BIN)/pip install --no-build-isolation -e ".[test,docs]"
	touch $@
