# Fuzz targets.  FUZZER=libfuzzer links them with clang's libFuzzer; otherwise fuzz_driver.c runs them, from a seed.
# They take the objects themselves: an instrumented program starts without preloading.

FUZZER ?=
ifneq ($(FUZZER),)
override CFLAGS += -w # clang warns of what gcc does not, and the other way round
endif
FUZZ_TARGETS := $(addprefix $(BUILD)/,$(if $(OBJS),abi_fuzz) ptx_fuzz descriptors_fuzz $(if $(CUDA_TOP),fatbin_fuzz))
ABI_FUZZ_OBJS := $(addprefix $(BUILD)/tests/submission/c/,abi_fuzz.o abi_fuzz_grouped.o)
FUZZ_OBJS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard simulator/tests/fuzz/*.c)) $(ABI_FUZZ_OBJS)
FUZZ_DRIVER := $(if $(FUZZER),,$(BUILD)/simulator/tests/fuzz/fuzz_driver.o)
$(BUILD)/simulator/tests/fuzz/fatbin_target.o: SIM_CPPFLAGS += -isystem $(CUDA_TOP)/include

fuzz_objs = $(BUILD)/simulator/tests/fuzz/$(1).o
$(BUILD)/abi_fuzz: $(ABI_FUZZ_OBJS) $(OBJS)
$(BUILD)/ptx_fuzz: $(call fuzz_objs,ptx_target) $(call fuzz_objs,grammar) $(SIM_OBJS)
$(BUILD)/descriptors_fuzz: $(call fuzz_objs,descriptors_target) $(call fuzz_objs,forms) $(SIM_OBJS)
$(BUILD)/fatbin_fuzz: $(call fuzz_objs,fatbin_target) $(filter-out %/process_sim.o %/registry.o %/fatbin.o,$(CUDART_OBJS)) $(SIM_OBJS)
$(FUZZ_TARGETS): $(FUZZ_DRIVER)
	$(call step,LINK,$@)
	$(Q)$(CC) $(filter-out -shared -Wl%,$(LDFLAGS)) $(if $(FUZZER),-fsanitize=fuzzer) -o $@ $^ $(LDLIBS) -lpthread
-include $(FUZZ_OBJS:.o=.d)

.PHONY: fuzz-targets
fuzz-targets: $(FUZZ_TARGETS)

# The four of them, one after another, with sanitizers; what ends one is kept beside its corpus.
MINUTES ?= 30
FUZZ_BUILD := $(BUILD)/fuzz
FUZZ_CLANG = $(shell for cc in clang clang-22 clang-21 clang-20 clang-19 clang-18 clang-17; do \
  echo 'int LLVMFuzzerTestOneInput(const char *d, long n) { return 0 * n * (d == 0); }' | \
  $$cc -fsanitize=fuzzer,address -x c - -o /dev/null 2> /dev/null && echo $$cc && break; done)
.PHONY: fuzz
fuzz: ## develop: fuzz PTX, descriptors, fat binaries and the C ABI, MINUTES= each (clang's libFuzzer, else a seeded run)
	+@clang=$(FUZZ_CLANG); with=$${clang:+"CC=$$clang FUZZER=libfuzzer SANITIZE=fuzzer-no-link,address,undefined"}; \
	echo "fuzz: $${clang:-seeded, for there is no clang with libFuzzer}" && \
	$(MAKE) --no-print-directory -f $(firstword $(MAKEFILE_LIST)) -j$(JOBS) BUILD=$(FUZZ_BUILD) CFLAGS='-O1 -g' $${with:-SANITIZE=address,undefined} fuzz-targets && \
	status=0; for program in $(FUZZ_BUILD)/*_fuzz; do \
	  name=$$(basename $$program _fuzz); corpus=$(FUZZ_BUILD)/corpus/$$name; mkdir -p $$corpus; \
	  seeds=$$(ls -d simulator/tests/fuzz/$$name 2> /dev/null); test $$name = ptx && seeds="$$seeds simulator/tests/ptx"; \
	  test $$name = ptx && bytes=262144 || bytes=16384; echo "== $$name"; \
	  ASAN_OPTIONS=allocator_may_return_null=1 $$program -max_total_time=$$(( $(MINUTES) * 60 )) -max_len=$$bytes \
	    -artifact_prefix=$(FUZZ_BUILD)/corpus/$$name- $$corpus $$seeds > $$corpus.log 2>&1 || \
	    { status=1; tail -40 $$corpus.log; }; \
	  grep '^Done' $$corpus.log; done; exit $$status
