# What the simulator's tests run.

# tensorcore with batch calls, for its own tests.
TENSOR_TEST_LIBRARY := $(BUILD)/libtensor_test.so
TENSOR_TEST_OBJS := $(BUILD)/simulator/tests/tensorcore/batch.o
$(TENSOR_TEST_LIBRARY): $(TENSOR_TEST_OBJS) $(TENSORCORE_OBJS)
	$(call step,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -lm
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

SIM_TEST_PROGRAMS := $(PTXSIM) $(SIM_SHARED) $(TENSOR_TEST_LIBRARY) $(SIM_NO_MEMORY) \
                     $(if $(CUDA_TOP),$(BUILD)/libcudart_sim.a $(SIM_STAND_INS))
