# The simulator's tensor part: TENSOR_OBJS for the simulator, and a library of batch calls for the tests of what
# stands alone (all but vm/, which plugs tcgen05 into the virtual machine).
TENSOR_SOURCES := $(filter-out $(if $(findstring AVX2,$(CPU_PARTS)),,%_avx2.c) $(if $(findstring 512,$(CPU_PARTS)),,%_avx512.c),\
                    $(wildcard simulator/tensor/*.c))
TENSOR_ALONE := $(TENSOR_SOURCES:%.c=$(BUILD)/%.o)
TENSOR_OBJS := $(TENSOR_ALONE) $(patsubst %.c,$(BUILD)/%.o,$(wildcard simulator/tensor/vm/*.c))
TENSOR_TEST_LIBRARY := $(BUILD)/libtensor_test.so
# Vectors wider than the base instruction set are passed between static functions only.
$(BUILD)/simulator/tensor/mma_tile%.o: override CFLAGS += -Wno-psabi

TENSOR_TEST_OBJS := $(BUILD)/tests/simulator/tensor/batch.o
$(TENSOR_TEST_LIBRARY): $(TENSOR_TEST_OBJS) $(TENSOR_ALONE)
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
-include $(TENSOR_OBJS:.o=.d) $(TENSOR_TEST_OBJS:.o=.d)

.PHONY: tensor-test-library
tensor-test-library: $(TENSOR_TEST_LIBRARY)
