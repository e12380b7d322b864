# The simulator: the library's objects, the command-line tool, the stand-in for the CUDA runtime.
SIM_SOURCES := $(wildcard simulator/*.c simulator/ptx/*.c simulator/vm/*.c simulator/async/*.c simulator/hazard/*.c)
SIM_OBJS := $(SIM_SOURCES:%.c=$(BUILD)/%.o)
# What the machine at hand has: the simulator never leaves it, so there is no dispatch.
ifeq ($(shell grep -m1 -c 'f16c.*avx2\|avx2.*f16c' /proc/cpuinfo 2>/dev/null),1)
SIM_ISA := $(if $(findstring AVX2,$(CPU_PARTS)),$(AVX2_FLAGS))
endif
$(SIM_OBJS): override CFLAGS += $(SIM_ISA)

PTXSIM := $(BUILD)/ptxsim
$(PTXSIM): $(BUILD)/simulator/cli/ptxsim.o $(SIM_OBJS) $(TENSOR_OBJS)
	$(CC) $(filter-out -shared -Wl%,$(LDFLAGS)) -o $@ $^ -lm
-include $(SIM_OBJS:.o=.d) $(BUILD)/simulator/cli/ptxsim.d

# The library alone, for the tests and for programs of others.
SIM_SHARED := $(BUILD)/libptxsim.so
$(SIM_SHARED): $(SIM_OBJS) $(TENSOR_OBJS)
	$(CC) $(LDFLAGS) -o $@ $^ -lm

.PHONY: simulator
simulator: $(PTXSIM) $(SIM_SHARED) ## build the PTX simulator (build/ptxsim)

# The library whose GPU back ends run on the simulator: the same host code, kernels as PTX, our CUDA runtime.
SIM_LIBRARY := $(BUILD)/libcustom_kernel_sim.so
ifneq ($(filter hopper blackwell,$(GPU_PARTS)),)
CUDART_OBJS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard simulator/cudart/*.c))
SIM_KERNELS := $(patsubst %,$(BUILD)/simulator/kernels/%.o,$(GPU_PARTS))
SIM_CORE := $(BUILD)/simulator/cudart/custom_kernel.o
$(CUDART_OBJS): override CPPFLAGS += -isystem $(CUDA_TOP)/include
$(SIM_CORE): submission/core/custom_kernel.c $(FLAGS_STAMP)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) -Dcustom_kernel=custom_kernel_on_device $(CFLAGS) -MMD -MP -c -o $@ $<
sim_arch = $(if $(findstring blackwell,$(1)),100a,90a)
$(SIM_KERNELS): $(BUILD)/simulator/kernels/%.o: submission/%/kernels.cu $(FLAGS_STAMP)
	@mkdir -p $(@D)
	$(NVCC) -std=c++17 -O3 -lineinfo -gencode=arch=compute_$(call sim_arch,$*),code=compute_$(call sim_arch,$*) --no-compress \
	  -Xcompiler -fPIC,-fvisibility=hidden,-fno-threadsafe-statics -MMD -MP -MF $(@:.o=.d) -c -o $@ $<
$(SIM_LIBRARY): $(filter-out %/kernels.o %/core/custom_kernel.o,$(OBJS)) $(SIM_CORE) $(SIM_KERNELS) $(CUDART_OBJS) \
                $(SIM_OBJS) $(TENSOR_OBJS)
	$(CC) $(LDFLAGS) -o $@ $^ -lm
# For programs of others: link this in the place of cudart and libcuda.
$(BUILD)/libcudart_sim.a: $(filter-out %/entry.o,$(CUDART_OBJS)) $(SIM_OBJS) $(TENSOR_OBJS)
	rm -f $@ && ar rcs $@ $^
-include $(CUDART_OBJS:.o=.d) $(SIM_CORE:.o=.d) $(SIM_KERNELS:.o=.d)

simulator: $(SIM_LIBRARY)
endif

# The fuzz driver takes the objects themselves, as the one of the ABI does.
$(BUILD)/ptx_fuzz: $(BUILD)/tests/simulator/ptx_fuzz.o $(SIM_OBJS) $(TENSOR_OBJS)
	$(CC) $(filter-out -shared -Wl%,$(LDFLAGS)) -o $@ $^ -lm
