# The simulator: its library, the command-line tool, the CUDA runtime shim, and what its tests link.

# The objects of the library: all but those of programs and of the CUDA runtime shim.  Include paths start at this folder,
# so that each include names its layer.
SIM_LAYERS := ptx tensorcore tensorcore/mma machine clock clock/instructions clock/tensor hazard hazard/global \
              hazard/shared async isa isa/scalar isa/memory isa/warp isa/async isa/wgmma isa/tcgen05 interp interp/warps report
SIM_SOURCES := $(filter-out $(if $(findstring AVX2,$(CPU_PARTS)),,%_avx2.c) $(if $(findstring 512,$(CPU_PARTS)),,%_avx512.c),\
                 $(wildcard $(SIM_LAYERS:%=simulator/%/*.c)))
SIM_OBJS := $(SIM_SOURCES:%.c=$(BUILD)/%.o)
$(BUILD)/simulator/%.o $(BUILD)/simulator/tests/%.o: override CPPFLAGS += -iquote simulator
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
	@echo 'built $(PTXSIM)$(if $(GPU_PARTS), and $(SIM_LIBRARY),; not built, what ptxsim run and NVFP4_SIMULATE=1 need: $(NVCC_REASON))'

# The library whose GPU backends run on the simulator: the same host code, kernels as PTX, our CUDA runtime.
# package/ is the only folder that knows this project's library.
SIM_LIBRARY := $(BUILD)/libcustom_kernel_sim.so
ifneq ($(GPU_PARTS),)
CUDART_OBJS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard simulator/cudart/*.c simulator/cudart/*/*.c))
SIM_GLUE := $(patsubst %.c,$(BUILD)/%.o,$(wildcard simulator/package/*.c))
SIM_KERNELS := $(patsubst %,$(BUILD)/simulator/kernels/%.o,$(GPU_PARTS))
SIM_CORE := $(BUILD)/simulator/package/custom_kernel.o
$(CUDART_OBJS) $(SIM_GLUE): override CPPFLAGS += -isystem $(CUDA_TOP)/include
$(SIM_CORE): submission/core/custom_kernel.c simulator/build.mk $(FLAGS_STAMP)
	@mkdir -p $(@D)
	$(call step,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) -Dcustom_kernel=custom_kernel_on_device -Dcustom_kernel_grouped=custom_kernel_grouped_on_device \
	  -Dcustom_kernel_extended=custom_kernel_extended_on_device -Dcustom_kernel_experts=custom_kernel_experts_on_device \
	  -Dcustom_kernel_quantize=custom_kernel_quantize_on_device $(CFLAGS) -MMD -MP -c -o $@ $<
hopper_SIM_ARCH := 90a
blackwell_SIM_ARCH := 100a
geforce_SIM_ARCH := 120a
sim_arch = $(or $($(1)_SIM_ARCH),$(error simulator/build.mk has no $(1)_SIM_ARCH))
# Keeps their PTX, which tests alter and other checkers read.
$(foreach part,$(GPU_PARTS),$(eval $(BUILD)/simulator/kernels/$(part).o: submission/$(part)/$(part)_kernels.cu))
$(SIM_KERNELS): $(BUILD)/simulator/kernels/%.o: simulator/build.mk $(FLAGS_STAMP)
	@mkdir -p $(@D)/$*
	$(call step,NVCC,submission/$*/$*_kernels.cu)
	$(Q)$(NVCC) -std=c++17 -O3 -lineinfo -gencode=arch=compute_$(call sim_arch,$*),code=compute_$(call sim_arch,$*) --no-compress \
	  --keep --keep-dir $(@D)/$* -Xcompiler -fPIC,-fvisibility=hidden,-fno-threadsafe-statics -MMD -MP -MF $(@:.o=.d) -c -o $@ \
	  submission/$*/$*_kernels.cu
	$(Q)mv $(@D)/$*/$*_kernels.ptx $(@D)/$*/kernels.ptx && find $(@D)/$* -type f ! -name kernels.ptx -delete
$(SIM_KERNELS:.o=/kernels.ptx): %/kernels.ptx: %.o
SIM_EXTENDED_SOURCES := $(foreach part,$(GPU_PARTS),$(wildcard submission/$(part)/*/*.cu))
SIM_EXTENDED := $(SIM_EXTENDED_SOURCES:submission/%.cu=$(BUILD)/simulator/extended/%.o)
$(SIM_EXTENDED): $(BUILD)/simulator/extended/%.o: submission/%.cu simulator/build.mk $(FLAGS_STAMP)
	@mkdir -p $(@D)
	$(call step,NVCC,$<)
	$(Q)$(NVCC) -std=c++17 -O3 -lineinfo --no-compress $(foreach arch,$(call sim_arch,$(firstword $(subst /, ,$*))),\
	  -gencode=arch=compute_$(arch),code=compute_$(arch)) \
	  -Xcompiler -fPIC,-fvisibility=hidden,-fno-threadsafe-statics -MMD -MP -MF $(@:.o=.d) -c -o $@ $<
$(SIM_LIBRARY): $(filter-out %kernels.o %/core/custom_kernel.o,$(OBJS)) $(SIM_CORE) $(SIM_KERNELS) $(SIM_EXTENDED) $(SIM_GLUE) \
                $(CUDART_OBJS) $(SIM_OBJS)
	$(call step,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -lm
# For other programs to link in place of cudart and libcuda.
$(BUILD)/libcudart_sim.a: $(CUDART_OBJS) $(SIM_OBJS)
	$(call step,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $^

# For other programs, unmodified: `ptxsim run` preloads this library.  The stand-ins have the names of the libraries that
# programs were linked with, and contain nothing but the symbol version.
SIM_PRELOAD := $(BUILD)/cuda/libptxsim_cuda.so
SIM_STAND_INS := $(addprefix $(BUILD)/cuda/,libcudart.so.12 libcudart.so.13 libcuda.so.1)
PRELOAD_OBJS := $(CUDART_OBJS:$(BUILD)/simulator/%=$(BUILD)/cuda/%)
$(PRELOAD_OBJS): $(BUILD)/cuda/cudart/%.o: simulator/cudart/%.c $(FLAGS_STAMP)
	@mkdir -p $(@D)
	$(call step,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) -iquote simulator -isystem $(CUDA_TOP)/include $(CFLAGS) $(SIM_ISA) -fvisibility=default -MMD -MP -c -o $@ $<
$(SIM_PRELOAD): simulator/cudart/exports.map $(PRELOAD_OBJS) $(SIM_OBJS)
	$(call step,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -Wl,-soname,$(@F) -Wl,--version-script=$< -o $@ $(PRELOAD_OBJS) $(SIM_OBJS) -ldl -lm
$(SIM_STAND_INS): $(SIM_PRELOAD)
	$(call step,LINK,$@)
	$(Q)echo 'const char ptxsim_stands_in_for[] = "$(@F)";' | $(CC) $(CFLAGS) -fvisibility=default -x c -c -o $@.o - && \
	  echo '$(@F) { global: ptxsim_stands_in_for; };' > $@.map && \
	  $(CC) $(LDFLAGS) -Wl,-soname,$(@F) -Wl,--version-script=$@.map -Wl,--no-as-needed -o $@ $@.o $< && \
	  rm $@.o $@.map
simulator: $(SIM_STAND_INS) $(BUILD)/libcudart_sim.a
-include $(PRELOAD_OBJS:.o=.d) $(CUDART_OBJS:.o=.d) $(SIM_GLUE:.o=.d) $(SIM_CORE:.o=.d) $(SIM_KERNELS:.o=.d) $(SIM_EXTENDED:.o=.d)

simulator: $(SIM_LIBRARY)
endif

# tensorcore with batch calls, for its own tests.
TENSOR_TEST_LIBRARY := $(BUILD)/libtensor_test.so
TENSOR_TEST_OBJS := $(BUILD)/simulator/tests/tensorcore/batch.o
$(TENSOR_TEST_LIBRARY): $(TENSOR_TEST_OBJS) $(TENSORCORE_OBJS)
	$(call step,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
-include $(TENSOR_TEST_OBJS:.o=.d)

.PHONY: tensor-test-library
tensor-test-library: $(TENSOR_TEST_LIBRARY)

# The command-line tool with an allocator that fails on demand.
comma := ,
SIM_NO_MEMORY := $(BUILD)/ptxsim_no_memory
NO_MEMORY_WRAP := $(addprefix -Wl$(comma)--wrap=,malloc calloc realloc aligned_alloc strdup free)
$(SIM_NO_MEMORY): $(BUILD)/simulator/tests/machine/no_memory.o $(SIM_CLI_OBJS) $(SIM_OBJS)
	$(call step,LINK,$@)
	$(Q)$(CC) $(filter-out -shared -Wl%,$(LDFLAGS)) $(NO_MEMORY_WRAP) -o $@ $^ -lm
