# What both makefiles need, the package's and the simulator's: compiler, flags, nvcc, and how tests are run.  A makefile
# says before which goals build nothing (NO_BUILD), which set up first and then build through a make of their own
# (SETS_UP), and which are all files (FILE_GOALS).
.DELETE_ON_ERROR:
SHELL := /bin/sh

BUILD   ?= build
ifneq ($(words $(BUILD)),1)
$(error BUILD is '$(BUILD)': expected a folder whose name has no space, since make splits names at spaces)
endif
# For example address,undefined builds an instrumented library; give it a BUILD of its own.
SANITIZE ?=
# 0 builds no GPU backend.
GPU ?= 1
# 1 shows every command of the build instead of a line per file.
V ?=
Q := $(if $(filter 1,$(V)),,@)
# $(call step,WHAT,FILE) prints that line.
step = $(if $(Q),@echo '  $(1)	$(2)')

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

# --- what a build needs: checked before anything is fetched or built ------------------------------------------
WANTED := $(or $(MAKECMDGOALS),$(.DEFAULT_GOAL))
ifneq ($(filter-out $(NO_BUILD),$(WANTED)),)
ifeq ($(shell command -v $(firstword $(CC))),)
$(error no C compiler '$(CC)' in PATH: install gcc, or name another with CC=)
endif
ifeq ($(shell mkdir -p '$(BUILD)' 2> /dev/null && test -w '$(BUILD)' && echo yes),)
$(error cannot write $(abspath $(BUILD)): give BUILD= a folder of your own, and NVFP4_VENV= one for the Python environment)
endif
endif
# Before a recipe that calls make: that make shares the jobs of this one, and `make -n` still runs nothing.
SHARES := $(if $(findstring n,$(filter-out -% %=%,$(firstword $(MAKEFLAGS)))),,+)
# One job per processor, if -j was not given and every goal is a file.
JOBS := $(shell nproc 2> /dev/null || echo 1)
ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS))$(filter-out $(FILE_GOALS) $(BUILD)/%,$(WANTED)),0)
MAKEFLAGS += -j$(JOBS)
endif

# --- which parts can be built here --------------------------------------------------------------------
AVX2_FLAGS   := -mavx2 -mfma -mf16c
AVX512_FLAGS := $(AVX2_FLAGS) -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx512bf16
AMX_FLAGS    := $(AVX512_FLAGS) -mavx512vbmi -mavx512fp16 -mamx-tile -mamx-bf16
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
ifeq ($(call accepts,$(AMX_FLAGS)),yes)
override CPPFLAGS += -DNVFP4_HAVE_AMX
CPU_PARTS += / AMX
endif
ifneq ($(findstring aarch64,$(shell $(CC) -dumpmachine 2>/dev/null)),)
override CPPFLAGS += -DNVFP4_HAVE_NEON
CPU_PARTS += / NEON
endif

NVCC_LOG := $(BUILD)/nvcc.txt
ifeq ($(GPU),1)
ifneq ($(filter-out $(NO_BUILD) $(SETS_UP),$(WANTED)),)
override NVCC := $(shell mkdir -p $(BUILD); NVCC="$(NVCC)" scripts/find_nvcc.sh $(PYTHON) 2>$(NVCC_LOG))
NVCC_REASON := $(shell cat $(NVCC_LOG) 2>/dev/null)
endif
else
override NVCC :=
NVCC_REASON := GPU=0
endif
# The flags of all parts; a makefile adds those of its own.
BASE_CPPFLAGS := $(CPPFLAGS)

# --- objects --------------------------------------------------------------------------------------------
.PHONY: FORCE
FORCE:

# $(call flags_stamp,FILE,VARIABLE): a file whose time changes with the flags, so that objects of another configuration
# are rebuilt.
define flags_stamp
$(1): FORCE
	@mkdir -p $$(@D)
	@echo '$$($(2))' | cmp -s - $$@ || echo '$$($(2))' > $$@
endef

# --- tests ----------------------------------------------------------------------------------------------
# The build runs while the tests' Python is set up, with one job more.
TEST_PYTHON := $(BUILD)/python.txt
# The modules are compiled here, once: every worker of the tests would do so for itself.  Some need the build, yet.
.PHONY: test-python
test-python:
	@mkdir -p $(BUILD) && scripts/setup.sh test > $(TEST_PYTHON)
	@PYTHONDONTWRITEBYTECODE= "$$(cat $(TEST_PYTHON))" -m pytest --collect-only -qq -p no:cacheprovider $(TESTS) > /dev/null 2>&1 || :

# With a pytest-xdist that keeps the order of files (3.7), each worker takes whole files; there is one worker more than
# processors, since some tests wait for a deadline.  Waiting OpenMP threads sleep.
PARALLEL := -n $(shell expr $(JOBS) + 1) --maxprocesses 8 --dist loadfile --no-loadscope-reorder
HAS_XDIST := import importlib.metadata as m, sys; sys.exit(tuple(map(int, m.version("pytest-xdist").split(".")[:2])) < (3, 7))
# $(call run_tests,TARGETS): builds the targets, then runs TESTS.
run_tests = $(MAKE) --no-print-directory -f $(firstword $(MAKEFILE_LIST)) -j$$(($(JOBS) + 1)) test-python $(1) && \
  python=$$(cat $(TEST_PYTHON)) && \
  { "$$python" -c '$(HAS_XDIST)' 2> /dev/null && parallel='$(PARALLEL)' || parallel=; } && \
  NVFP4_TESTS_BUILT=1 PYTHONDONTWRITEBYTECODE= OMP_WAIT_POLICY=passive "$$python" -m pytest $$parallel $(TESTS) $(PYTEST_ARGS)
