# The two commands are `make run` and `make test`; `make help` lists the rest.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/sh

BUILD   ?= build
LIBRARY := $(BUILD)/libcustom_kernel.so
# Set to e.g. address,undefined for an instrumented library (with another BUILD).
SANITIZE ?=
# Set to 0 to build no GPU backend.
GPU ?= 1

ifeq ($(origin CC),default)
CC := gcc
endif
CFLAGS ?= -O3
override CFLAGS += -std=c11 -fPIC -fvisibility=hidden -pthread -ffp-contract=off -Wall -Wextra -Wpedantic -Wshadow -Wmissing-prototypes -Werror
override CPPFLAGS += -D_GNU_SOURCE
override LDFLAGS += -shared -pthread -Wl,-z,defs -Wl,--exclude-libs,ALL
LDLIBS += -lm
ifneq ($(SANITIZE),)
override CFLAGS += -g -fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer
override LDFLAGS += -fsanitize=$(SANITIZE)
endif

# --- which parts can be built here --------------------------------------------------------------------
AVX2_FLAGS   := -mavx2 -mfma -mf16c
AVX512_FLAGS := $(AVX2_FLAGS) -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx512bf16
accepts = $(shell echo '__m512i x;' | $(CC) $(1) -include immintrin.h -fsyntax-only -x c - 2>/dev/null && echo yes)
CPU_PARTS := portable C
ifeq ($(call accepts,$(AVX2_FLAGS)),yes)
override CPPFLAGS += -DNVFP4_HAVE_AVX2
CPU_PARTS += / AVX2
endif
ifeq ($(call accepts,$(AVX512_FLAGS)),yes)
override CPPFLAGS += -DNVFP4_HAVE_AVX512
CPU_PARTS += / AVX-512 VNNI
endif

NVCC_LOG := $(BUILD)/nvcc.txt
ifeq ($(GPU),1)
ifneq ($(filter-out help clean format lint bundle lint-submission submit,$(or $(MAKECMDGOALS),help)),)
override NVCC := $(shell mkdir -p $(BUILD); NVCC="$(NVCC)" scripts/find_nvcc.sh $(PYTHON) 2>$(NVCC_LOG))
NVCC_REASON := $(shell cat $(NVCC_LOG) 2>/dev/null)
endif
else
override NVCC :=
NVCC_REASON := GPU=0
endif

# --- the library --------------------------------------------------------------------------------------
SOURCES := $(wildcard submission/core/*.c)
SOURCES += $(filter-out $(if $(findstring AVX2,$(CPU_PARTS)),,%_avx2.c) $(if $(findstring 512,$(CPU_PARTS)),,%_avx512.c),\
             $(wildcard submission/cpu/*.c))
OBJS := $(SOURCES:%.c=$(BUILD)/%.o)
GPU_PARTS :=
# Each GPU backend adds its objects, libraries, NVFP4_HAVE_* flag and its name in GPU_PARTS when NVCC is set.
-include $(wildcard submission/*/build.mk)

$(BUILD)/%_avx2.o: override CFLAGS += $(AVX2_FLAGS)
$(BUILD)/%_avx512.o: override CFLAGS += $(AVX512_FLAGS)

# Changes when the flags do, so that no object of another configuration is linked.
FLAGS_STAMP := $(BUILD)/flags.txt
$(FLAGS_STAMP): FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) $(LDLIBS) $(NVCC)' | cmp -s - $@ || \
	  echo '$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) $(LDLIBS) $(NVCC)' > $@

$(BUILD)/%.o: %.c $(FLAGS_STAMP)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

$(LIBRARY): $(OBJS)
	$(CC) $(LDFLAGS) -o $@ $(OBJS) $(LDLIBS)
-include $(OBJS:.o=.d)
-include $(wildcard simulator/build.mk tests/simulator/h200/features/build.mk scripts/bench/micro/build.mk)

# The fuzz driver of the ABI takes the objects themselves: an instrumented program starts without preloading.
$(BUILD)/abi_fuzz: $(BUILD)/tests/submission/c/abi_fuzz.o $(OBJS)
	$(CC) $(filter-out -shared -Wl%,$(LDFLAGS)) -o $@ $^ $(LDLIBS)
abi-fuzz: $(BUILD)/abi_fuzz

.PHONY: FORCE abi-fuzz help setup build library run test test-programs bench bundle lint-submission submit format lint clean rounds-check rounds-render rerun history compare blackwell-table bring-up sanitize mutate micro
FORCE:

help: ## list the targets (the default)
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

library: $(LIBRARY)

build: library $(TILE_TABLE) ## build the C library with every backend that can be built here
	@echo 'built $(LIBRARY)'
	@echo '  cpu        built ($(CPU_PARTS))'
	@echo '  hopper     $(if $(filter hopper,$(GPU_PARTS)),built (sm_90a),not built: $(or $(NVCC_REASON),not in this tree))'
	@echo '  blackwell  $(if $(filter blackwell,$(GPU_PARTS)),built (sm_100a$(if $(BLACKWELL_103), and sm_103a)),not built: $(or $(NVCC_REASON),not in this tree))'

setup: ## find or make a Python with torch
	@scripts/setup.sh run > /dev/null

run: build ## set up, build, run the ten tests and the four benchmarks on the best backend
	@python=$$(scripts/setup.sh run) && \
	$$python eval/eval.py test eval/cases/test.txt && \
	$$python eval/eval.py benchmark eval/cases/benchmark.txt

# What tests run beside the library: built before them, because several of them run at a time.
TEST_PROGRAMS := $(PTXSIM) $(SIM_SHARED) $(TENSOR_TEST_LIBRARY) $(SIM_NO_MEMORY)
TEST_PROGRAMS += $(if $(filter hopper,$(GPU_PARTS)),$(SIM_LIBRARY) $(BUILD)/features_sim $(BUILD)/micro_sim \
                   $(BUILD)/libcudart_sim.a)
test-programs: $(TEST_PROGRAMS)
	@:

# Files of tests are dealt out to workers, one a core, where a pytest-xdist is there that can keep their order.
# Waiting OpenMP threads sleep.
PARALLEL := -n logical --maxprocesses 8 --dist loadfile --no-loadscope-reorder
HAS_XDIST := import importlib.metadata as m, sys; sys.exit(tuple(map(int, m.version("pytest-xdist").split(".")[:2])) < (3, 7))
test: ## set up, build, pass every test
	@$(MAKE) --no-print-directory -j$$(nproc) build test-programs
	@python=$$(scripts/setup.sh test) && \
	{ $$python -c '$(HAS_XDIST)' 2> /dev/null && parallel='$(PARALLEL)' || parallel=; } && \
	NVFP4_TESTS_BUILT=1 OMP_WAIT_POLICY=passive $$python -m pytest $$parallel $(PYTEST_ARGS)

mutate: build test-programs ## plant a few hundred faults, list those no test notices (an hour or two; MUTATE_ARGS='--area core')
	@python=$$(scripts/setup.sh test) && $$python -m scripts.mutate $(MUTATE_ARGS)

bench: build ## time the CPU backend against torch, and the host cost of a call
	@python=$$(scripts/setup.sh run) && \
	$$python -m scripts.bench.cpu && \
	$$python -m scripts.bench.host

TARGET ?= auto
bundle: ## write build/submission.py, the one file to submit (TARGET=b200, h200, cpu or what fits here)
	@python=$$(scripts/setup.sh test) && $$python -m scripts.release.bundle --target $(TARGET) $(BUNDLE_ARGS)

FILE ?= $(BUILD)/submission.py
lint-submission: ## check any submission against the leaderboard's rules (FILE=)
	@python=$$(scripts/setup.sh test) && $$python -m scripts.release.lint $(FILE)

submit: ## send FILE with popcorn-cli and read its verdict (SUBMIT_ARGS='--mode leaderboard --local')
	@python=$$(scripts/setup.sh test) && $$python -m scripts.release.submit $(FILE) $(SUBMIT_ARGS)

R ?=
rounds-check: ## check the optimisation rounds: order in git, digests, figures, verdicts
	@python=$$(scripts/setup.sh test) && $$python -m scripts.rounds check

rounds-render: ## regenerate the tables, blocks and plot of shark_tank/
	@python=$$(scripts/setup.sh test) && $$python -m scripts.rounds render

rerun: ## R=N: build both commits of a round, measure again, say whether its verdict holds
	@test -n "$(R)" || { echo 'rerun: give R=N, the number of a measured round'; exit 2; }
	@python=$$(scripts/setup.sh test) && $$python -m scripts.rounds rerun $(R)

history: ## render the rounds as one page, build/history/index.html, with plots
	@python=$$(scripts/setup.sh test) && $$python -m scripts.history

compare: build ## on a CUDA device: time the GPU backend against cuBLAS and Triton
	@python=$$(scripts/setup.sh run) && $$python -m scripts.bench.check_gpu && $$python -m scripts.bench.compare $(COMPARE_ARGS)

cost-model: build simulator ## count on the simulator again, and predict the Blackwell kernel's times from that (minutes)
	@python=$$(scripts/setup.sh test) && \
	$$python -m scripts.cost_model.counters cost-model --json shark_tank/cost_model_counters.json && \
	$$python -m scripts.cost_model && $$python -m scripts.evidence.readme

BRING_UP_ARGS ?=
bring-up: ## on a B200 or H200: build, check, time, compare, write build/bring_up.json to send back
	@python=$$(scripts/setup.sh run) && $$python -m scripts.bring_up $(BRING_UP_ARGS)

blackwell-table: build $(SIM_LIBRARY) ## simulate the Blackwell backend: problems x configurations x modes (hours)
	@python=$$(scripts/setup.sh test) && NVFP4_LIBRARY=$(abspath $(SIM_LIBRARY)) $$python -m scripts.evidence.blackwell_table $(BLACKWELL_TABLE_ARGS)

MICRO_ARGS ?=
micro: $(BUILD)/micro ## on an sm_90a device: measure what a model of its time needs (seconds), write build/micro.json
	@python=$$(scripts/setup.sh run) && $$python -m scripts.bench.micro $(MICRO_ARGS)

SANITIZERS ?= memcheck racecheck synccheck
sanitize: build ## on a CUDA device: compute-sanitizer on every configuration of the GPU backend
	@python=$$(scripts/setup.sh run) && \
	for tool in $(SANITIZERS); do echo "$$tool" && \
	  compute-sanitizer --tool $$tool --error-exitcode 1 --kernel-name-exclude kernel_substring=at:: \
	    $$python -m scripts.bench.check_gpu --only rings --configs all || exit 1; done

C_FILES := $(shell git ls-files '*.c' '*.h' '*.cu' '*.cuh' 2>/dev/null)
format: ## format C, CUDA and Python
	@python=$$(scripts/setup.sh test) && bin=$$(dirname $$python) && \
	PATH=$$bin:$$PATH clang-format -i $(C_FILES) && PATH=$$bin:$$PATH ruff format . && PATH=$$bin:$$PATH ruff check --fix .

lint: ## check formatting and lint, changing nothing
	@python=$$(scripts/setup.sh test) && bin=$$(dirname $$python) && \
	PATH=$$bin:$$PATH clang-format --dry-run -Werror $(C_FILES) && PATH=$$bin:$$PATH ruff format --check . && \
	PATH=$$bin:$$PATH ruff check .

clean: ## remove what was built (the virtual environment stays)
	rm -rf $(BUILD)
