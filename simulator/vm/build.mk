# The simulator: the library's objects, the command-line tool, the stand-in for the CUDA runtime.
SIM_SOURCES := $(wildcard simulator/*.c simulator/ptx/*.c simulator/vm/*.c simulator/async/*.c simulator/hazard/*.c)
SIM_OBJS := $(SIM_SOURCES:%.c=$(BUILD)/%.o)
# What the machine at hand has: the simulator never leaves it, so there is no dispatch.
ifneq ($(shell grep -m1 -c 'f16c.*avx2\|avx2.*f16c' /proc/cpuinfo 2>/dev/null),0)
SIM_ISA := $(if $(findstring AVX2,$(CPU_PARTS)),$(AVX2_FLAGS))
endif
$(SIM_OBJS): override CFLAGS += $(SIM_ISA)

PTXSIM := $(BUILD)/ptxsim
$(PTXSIM): $(BUILD)/simulator/cli/ptxsim.o $(SIM_OBJS) $(TENSOR_OBJS)
	$(CC) $(filter-out -shared -Wl%,$(LDFLAGS)) -o $@ $^ -lm
-include $(SIM_OBJS:.o=.d) $(BUILD)/simulator/cli/ptxsim.d

.PHONY: simulator
simulator: $(PTXSIM) ## build the PTX simulator (build/ptxsim)
