# The simulator: its library, the command-line tool and the CUDA runtime shim.

# The objects of the library: all but those of programs and of the CUDA runtime shim.  Include paths start at this folder,
# so that each include names its layer.
SIM_LAYERS := ptx tensorcore tensorcore/mma machine clock clock/instructions clock/tensor hazard hazard/global \
              hazard/shared async isa isa/scalar isa/memory isa/warp isa/async isa/wgmma isa/tcgen05 interp interp/warps report
SIM_SOURCES := $(filter-out $(if $(findstring AVX2,$(CPU_PARTS)),,%_avx2.c) $(if $(findstring 512,$(CPU_PARTS)),,%_avx512.c),\
                 $(wildcard $(SIM_LAYERS:%=simulator/%/*.c)))
SIM_OBJS := $(SIM_SOURCES:%.c=$(BUILD)/%.o)
# The toolkit's headers; the package's backends may have found them.
ifneq ($(NVCC),)
ifndef CUDA_TOP
CUDA_TOP := $(shell printf '' > $(BUILD)/empty.cu; $(NVCC) --dryrun -c -o /dev/null $(BUILD)/empty.cu 2>&1 | sed -n 's/^\#\$$ TOP=//p')
endif
endif
SIM_CPPFLAGS := $(BASE_CPPFLAGS) -iquote simulator
SIM_FLAGS := $(CC) $(SIM_CPPFLAGS) $(CFLAGS) $(LDFLAGS) $(CUDA_TOP)
SIM_STAMP := $(BUILD)/simulator/flags.txt
$(eval $(call flags_stamp,$(SIM_STAMP),SIM_FLAGS))
$(BUILD)/simulator/%.o: simulator/%.c $(SIM_STAMP)
	@mkdir -p $(@D)
	$(call step,CC,$<)
	$(Q)$(CC) $(SIM_CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<
# Only static functions pass vectors wider than the base instruction set, so the ABI warning does not apply.
$(BUILD)/simulator/tensorcore/mma/tile%.o: override CFLAGS += -Wno-psabi
# Compiled for the machine at hand, since the simulator stays there; only tensorcore/mma dispatches at run time.
ifeq ($(shell grep -m1 -c 'f16c.*avx2\|avx2.*f16c' /proc/cpuinfo 2>/dev/null),1)
SIM_ISA := $(if $(findstring AVX2,$(CPU_PARTS)),$(AVX2_FLAGS))
endif
# The library embeds the chips' files.
$(BUILD)/simulator/clock/chip.o: $(wildcard simulator/clock/chips/*.json simulator/clock/chips/*.error)
# tensorcore uses no other layer.
TENSORCORE_OBJS := $(filter $(BUILD)/simulator/tensorcore/%,$(SIM_OBJS))
$(filter-out $(TENSORCORE_OBJS),$(SIM_OBJS)): override CFLAGS += $(SIM_ISA)

PTXSIM := $(BUILD)/ptxsim
SIM_CLI_OBJS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard simulator/cli/*.c))
$(PTXSIM): $(SIM_CLI_OBJS) $(SIM_OBJS)
	$(call step,LINK,$@)
	$(Q)$(CC) $(filter-out -shared -Wl%,$(LDFLAGS)) -o $@ $^ -lm
-include $(SIM_OBJS:.o=.d) $(SIM_CLI_OBJS:.o=.d)

# The library alone, for tests and for other programs.
SIM_SHARED := $(BUILD)/libptxsim.so
SIM_IMAGE := $(addprefix $(BUILD)/simulator/cudart/image/,fatbin.o image.o)
$(SIM_SHARED): $(SIM_OBJS) $(SIM_IMAGE)
	$(call step,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -lm -ldl

.PHONY: simulator
simulator: $(PTXSIM) $(SIM_SHARED) ## build: the PTX simulator (build/ptxsim)
	@echo 'built $(PTXSIM)$(if $(GPU_PARTS), and $(SIM_LIBRARY))$(if $(CUDA_TOP),,; not built, what ptxsim run and NVFP4_SIMULATE=1 need: $(NVCC_REASON))'

ifneq ($(CUDA_TOP),)
CUDART_OBJS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard simulator/cudart/*.c simulator/cudart/*/*.c))
# Visible, since programs call them through $(SIM_PRELOAD); a library that keeps them to itself has a version script.
$(CUDART_OBJS): simulator/build.mk
$(CUDART_OBJS): SIM_CPPFLAGS += -isystem $(CUDA_TOP)/include
$(CUDART_OBJS): override CFLAGS += -fvisibility=default
# For other programs to link in place of cudart and libcuda.
$(BUILD)/libcudart_sim.a: $(CUDART_OBJS) $(SIM_OBJS)
	$(call step,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $^

# For other programs, unmodified: `ptxsim run` preloads this library.  The stand-ins have the names of the libraries that
# programs were linked with, and contain nothing but the symbol version.
SIM_PRELOAD := $(BUILD)/cuda/libptxsim_cuda.so
SIM_STAND_INS := $(addprefix $(BUILD)/cuda/,libcudart.so.12 libcudart.so.13 libcuda.so.1)
$(SIM_PRELOAD): simulator/cudart/exports.map $(CUDART_OBJS) $(SIM_OBJS)
	@mkdir -p $(@D)
	$(call step,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -Wl,-soname,$(@F) -Wl,--version-script=$< -o $@ $(CUDART_OBJS) $(SIM_OBJS) -ldl -lm
$(SIM_STAND_INS): $(SIM_PRELOAD)
	$(call step,LINK,$@)
	$(Q)echo 'const char ptxsim_stands_in_for[] = "$(@F)";' | $(CC) $(CFLAGS) -fvisibility=default -x c -c -o $@.o - && \
	  echo '$(@F) { global: ptxsim_stands_in_for; };' > $@.map && \
	  $(CC) $(LDFLAGS) -Wl,-soname,$(@F) -Wl,--version-script=$@.map -Wl,--no-as-needed -o $@ $@.o $< && \
	  rm $@.o $@.map
simulator: $(SIM_STAND_INS) $(BUILD)/libcudart_sim.a
-include $(CUDART_OBJS:.o=.d)
endif
