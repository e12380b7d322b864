# `make run` and `make test` are the two commands; `make help` lists all targets.  ./nvfp4 runs the programs.
.DEFAULT_GOAL := help

NO_BUILD := help clean format lint lint-submission bundle submit setup lock history rounds-check rounds-render validation-report
# Targets that set up first and then build through a make of their own.
SETS_UP := run test bench compare sweep sanitize bring-up
FILE_GOALS := build library install simulator test-programs
include scripts/toolchain.mk

LIBRARY := $(BUILD)/libcustom_kernel.so
# The header's CUSTOM_KERNEL_VERSION as 1.2.3; the soname has the major number.
VERSION := $(shell sed -n 's/^\#define CUSTOM_KERNEL_VERSION 0x\(....\)\(..\)\(..\)u/0x\1 0x\2 0x\3/p' submission/custom_kernel.h \
             | xargs printf '%d.%d.%d')
SONAME := libcustom_kernel.so.$(firstword $(subst ., ,$(VERSION)))

# --- the library --------------------------------------------------------------------------------------
SOURCES := $(wildcard submission/core/*.c submission/core/*/*.c)
SOURCES += $(filter-out $(if $(findstring AVX2,$(CPU_PARTS)),,%_avx2.c) $(if $(findstring 512,$(CPU_PARTS)),,%_avx512.c) \
             $(if $(findstring AMX,$(CPU_PARTS)),,%_amx.c) $(if $(findstring NEON,$(CPU_PARTS)),,%_neon.c),\
             $(wildcard submission/cpu/*.c submission/cpu/kernels/*.c))
OBJS := $(SOURCES:%.c=$(BUILD)/%.o)
GPU_PARTS :=
# When NVCC is set, each GPU backend adds its objects, libraries, NVFP4_HAVE_* flag, and its name to GPU_PARTS.
-include $(wildcard submission/*/build.mk)

$(BUILD)/%_avx2.o: override CFLAGS += $(AVX2_FLAGS)
$(BUILD)/%_avx512.o: override CFLAGS += $(AVX512_FLAGS)
$(BUILD)/%_amx.o: override CFLAGS += $(AMX_FLAGS)

FLAGS_STAMP := $(BUILD)/flags.txt
$(eval $(call flags_stamp,$(FLAGS_STAMP),ALL_FLAGS))

$(BUILD)/%.o: %.c $(FLAGS_STAMP)
	@mkdir -p $(@D)
	$(call step,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

EXPORTS := submission/custom_kernel.map
$(LIBRARY): $(OBJS) $(EXPORTS)
	$(call step,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -Wl,-soname,$(SONAME) -Wl,--version-script=$(EXPORTS) -o $@ $(OBJS) $(LDLIBS) && \
	  ln -sf $(notdir $@) $(@D)/$(SONAME)
-include $(OBJS:.o=.d)
include submission/install.mk
-include $(wildcard scripts/tile_table/build.mk eval/timing/build.mk $(addprefix simulator/,build.mk package/build.mk tests/build.mk tests/fuzz/build.mk \
            tests/package/h200/features/build.mk calibration/benchmarks/build.mk))
# Expanded here: as a prerequisite of a target with its own flags, the stamp would otherwise hold those.
ALL_FLAGS := $(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) $(LDLIBS) $(NVCC)

.PHONY: help setup lock build library run test test-programs bench sweep bundle lint-submission submit format lint clean rounds-check rounds-render rerun history compare blackwell-table geforce-table validation-report bring-up sanitize micro timeline

help: ## start: list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## [a-z]+: / { group = text = $$2; sub(/:.*/, "", group); sub(/^[a-z]+: /, "", text); \
	  said[group] = said[group] sprintf("  make %-16s %s\n", $$1, text) } \
	  END { split("start build measure submit rounds develop", order, " "); \
	  for (i = 1; i in order; i++) printf "%s\n%s", order[i], said[order[i]] }' $(MAKEFILE_LIST)
	@echo 'variables: BUILD=folder NVFP4_VENV=folder PYTHON=python CC=compiler NVCC=nvcc GPU=0 V=1 SANITIZE=address,undefined'
	@echo '  (all of them: ENVIRONMENT.md; the programs: ./nvfp4)'

library: $(LIBRARY)

build: library $(TILE_TABLE) $(TIMING_CORE) ## build: the C library with every backend that builds here, and build/tile_table
	@echo 'built $(LIBRARY)'
	@echo '  cpu        built ($(CPU_PARTS))'
	@echo '  hopper     $(if $(filter hopper,$(GPU_PARTS)),built (sm_90a),not built: $(or $(NVCC_REASON),not in this tree))'
	@echo '  blackwell  $(if $(filter blackwell,$(GPU_PARTS)),built (sm_100a$(if $(filter 103,$(blackwell_ARCHS)), and sm_103a)),not built: $(or $(NVCC_REASON),not in this tree))'
	@echo '  geforce    $(if $(filter geforce,$(GPU_PARTS)),built (sm_120a$(if $(filter 121,$(geforce_ARCHS)), and sm_121a)),not built: $(or $(NVCC_REASON),not in this tree))'

setup: ## start: find or make a Python with torch and the development tools
	@scripts/setup.sh test

BUILDS := $(MAKE) --no-print-directory -j$(JOBS) build
READY := python=$$(scripts/setup.sh run) && $(BUILDS)

# dual_gemm, group_gemm, gemm or gemv, or a leaderboard's name, such as nvfp4_gemm.
PROBLEM ?= dual_gemm
PROBLEMS := dual_gemm group_gemm gemm gemv
ifneq ($(and $(filter run bench bundle compare,$(WANTED)),$(filter-out $(PROBLEMS),$(PROBLEM:nvfp4_%=%))),)
$(error PROBLEM is '$(PROBLEM)': expected one of $(PROBLEMS))
endif
run: ## start: set up, build, run a problem's tests and benchmarks on the best backend here (PROBLEM=group_gemm, gemm, gemv)
	$(SHARES)@$(READY) && ./nvfp4 eval test --problem $(PROBLEM) && ./nvfp4 eval benchmark --problem $(PROBLEM)

# Programs that tests run, built first because tests run in parallel.
TEST_PROGRAMS := $(SIM_TEST_PROGRAMS) $(if $(filter hopper,$(GPU_PARTS)),$(SIM_LIBRARY) $(BUILD)/features_sim $(BUILD)/micro_sim)
test-programs: $(TEST_PROGRAMS)
	@:

test: ## start: set up, build, run every test (one file: PYTEST_ARGS='-n 0 -x tests/submission/test_abi.py')
	$(SHARES)@$(call run_tests,build test-programs)

lock: ## develop: update scripts/dev.lock to the newest versions that pyproject.toml allows, with their hashes
	@python=$$(scripts/setup.sh run) && mkdir -p $(BUILD)/lock && cp pyproject.toml $(BUILD)/lock && \
	"$$python" -m pip install --quiet --target $(BUILD)/uv uv && cd $(BUILD)/lock && ../uv/bin/uv lock --quiet --upgrade && \
	../uv/bin/uv export --quiet --frozen --only-group dev --no-header --no-annotate -o dev.lock > /dev/null && \
	sed -E "s/( ;| and) \(+platform_machine.*'linux'\)* / /" dev.lock > $(CURDIR)/scripts/dev.lock && git diff --stat $(CURDIR)/scripts

bench: ## measure: time the CPU backend against torch, and the host cost of a call (PROBLEM=)
	$(SHARES)@$(READY) && ./nvfp4 bench cpu --problem $(PROBLEM) && ./nvfp4 bench host --problem $(PROBLEM)

sweep: ## measure: time every M against cuBLAS, on a CPU torch; write build/sweep.json (SWEEP_ARGS='--rows 1,64')
	$(SHARES)@$(READY) && ./nvfp4 bench sweep --json $(BUILD)/sweep.json $(SWEEP_ARGS)

# The shape, and the backend, which implies the chip.
M ?= 256
N ?= 4096
K ?= 7168
BACKEND ?= blackwell
timeline: build simulator ## measure: simulate one call's time; write build/timeline.json for Perfetto (M= N= K= BACKEND=)
	@python=$$(scripts/setup.sh run) && "$$python" -m scripts.bench.timeline $(M) $(N) $(K) $(BACKEND)

TARGET ?= auto
# popcorn for the leaderboard, or sol-execbench, which writes its files to build/sol-execbench.
BOARD ?= popcorn
ifneq ($(and $(filter bundle,$(WANTED)),$(filter-out popcorn sol-execbench,$(BOARD))),)
$(error BOARD is '$(BOARD)': expected popcorn or sol-execbench)
endif
ifneq ($(and $(filter bundle,$(WANTED)),$(filter sol-execbench,$(BOARD)),$(filter-out dual_gemm,$(PROBLEM:nvfp4_%=%))),)
$(error PROBLEM is '$(PROBLEM)': BOARD=sol-execbench takes dual_gemm alone)
endif
bundle: ## submit: write build/submission_TARGET.py, the one file to submit (TARGET=b200, h200, geforce, cpu; PROBLEM= BOARD=)
	@scripts/setup.sh run > /dev/null && $(if $(filter sol-execbench,$(BOARD)),\
	  ./nvfp4 python -m scripts.release.execbench $(if $(filter-out auto,$(TARGET)),--target $(TARGET)) $(BUNDLE_ARGS),\
	  ./nvfp4 bundle --problem $(PROBLEM) --target $(TARGET) $(BUNDLE_ARGS))

FILE ?= $(BUILD)/submission_b200.py
lint-submission: ## submit: check FILE against the leaderboard's rules
	@scripts/setup.sh run > /dev/null && ./nvfp4 lint $(FILE)

submit: ## submit: send FILE with popcorn-cli and read its verdict (SUBMIT_ARGS='--mode leaderboard --local')
	@scripts/setup.sh run > /dev/null && ./nvfp4 submit $(FILE) $(SUBMIT_ARGS)

R ?=
rounds-check: ## rounds: check the record: order of commits, digests, figures, verdicts
	@python=$$(scripts/setup.sh test) && "$$python" -m scripts.rounds check

rounds-render: ## rounds: regenerate the tables, blocks and plot of shark_tank/
	@python=$$(scripts/setup.sh test) && "$$python" -m scripts.rounds render

rerun: ## rounds: build both commits of round R, measure again, say whether its verdict holds (R=N)
	@test -n "$(R)" || { echo 'rerun: give R=N, the number of a measured round'; exit 2; }
	@python=$$(scripts/setup.sh test) && "$$python" -m scripts.rounds rerun $(R)

history: ## rounds: render the record as pages with plots, build/history/index.html
	@python=$$(scripts/setup.sh test) && "$$python" -m scripts.history

compare: ## measure: on a CUDA device: check the backend, time it against cuBLAS and Triton (PROBLEM=)
	$(SHARES)@$(READY) && ./nvfp4 bench check_gpu --problem $(PROBLEM) && ./nvfp4 bench compare --problem $(PROBLEM) $(COMPARE_ARGS)

cost-model: build simulator ## measure: simulate the Blackwell kernel's times (minutes)
	@python=$$(scripts/setup.sh test) && "$$python" -m simulator.calibration.calls && "$$python" -m scripts.rounds results

clock-report: ## measure: write every row of the simulated clock beside the chips' times, build/clock/
	@python=$$(scripts/setup.sh test) && "$$python" -m simulator.calibration.report

BRING_UP_ARGS ?=
bring-up: ## measure: on a new card: build, check, time, compare, write build/bring_up.json to send back
	@python=$$(scripts/setup.sh run) && "$$python" -m scripts.bring_up $(BRING_UP_ARGS)

blackwell-table: build $(SIM_LIBRARY) ## measure: simulate the Blackwell backend: problems x configurations x modes (hours)
	@python=$$(scripts/setup.sh test) && NVFP4_LIBRARY=$(abspath $(SIM_LIBRARY)) "$$python" -m simulator.validation.backend_table blackwell $(TABLE_ARGS)

geforce-table: build $(SIM_LIBRARY) ## measure: simulate the GeForce backend: problems x configurations x modes (hours)
	@python=$$(scripts/setup.sh test) && NVFP4_LIBRARY=$(abspath $(SIM_LIBRARY)) "$$python" -m simulator.validation.backend_table geforce $(TABLE_ARGS)

validation-report: ## measure: write every row that validates the simulator into build/validation/, and simulator/results/*.md
	@python=$$(scripts/setup.sh test) && "$$python" -m simulator.validation.report $(BUILD)/validation

MICRO_ARGS ?=
micro: $(BUILD)/micro ## measure: on an sm_90a device: measure the clock model's parameters, write build/micro.json
	@python=$$(scripts/setup.sh run) && "$$python" -m simulator.calibration.benchmarks $(MICRO_ARGS)

SANITIZERS ?= memcheck racecheck synccheck
sanitize: ## measure: on a CUDA device: run compute-sanitizer on every tile of the backend
	@command -v compute-sanitizer > /dev/null || { echo 'sanitize: no compute-sanitizer in PATH; CUDA toolkits have it'; exit 2; }
	$(SHARES)@$(READY) && \
	for tool in $(SANITIZERS); do for problem in dual_gemm group_gemm; do echo "$$tool of $$problem" && \
	  compute-sanitizer --tool $$tool --error-exitcode 1 --kernel-name-exclude kernel_substring=at:: \
	    "$$python" -m scripts.bench.check_gpu --problem $$problem --only rings --configs all || exit 1; done; done

C_FILES := $(shell git ls-files '*.c' '*.h' '*.cu' '*.cuh' 2>/dev/null)
format: ## develop: format C, CUDA and Python
	@python=$$(scripts/setup.sh test) && bin=$$(dirname "$$python") && \
	PATH="$$bin:$$PATH" clang-format -i $(C_FILES) && PATH="$$bin:$$PATH" ruff format . && PATH="$$bin:$$PATH" ruff check --fix .

lint: ## develop: check formatting and lint, changing nothing
	@python=$$(scripts/setup.sh test) && bin=$$(dirname "$$python") && \
	PATH="$$bin:$$PATH" clang-format --dry-run -Werror $(C_FILES) && PATH="$$bin:$$PATH" ruff format --check . && \
	PATH="$$bin:$$PATH" ruff check .

clean: ## develop: remove the build folder (the virtual environment stays)
	rm -rf $(BUILD)
