# The simulator's tensor part: TENSOR_OBJS for the simulator, and a library of batch calls for its tests.
TENSOR_SOURCES := $(filter-out $(if $(findstring AVX2,$(CPU_PARTS)),,%_avx2.c) $(if $(findstring 512,$(CPU_PARTS)),,%_avx512.c),\
                    $(wildcard simulator/tensor/*.c))
TENSOR_OBJS := $(TENSOR_SOURCES:%.c=$(BUILD)/%.o)
TENSOR_TEST_LIBRARY := $(BUILD)/libtensor_test.so
# Vectors wider than the base instruction set are passed between static functions only.
$(BUILD)/simulator/tensor/mma_tile%.o: override CFLAGS += -Wno-psabi

TENSOR_TEST_OBJS := $(BUILD)/tests/simulator/tensor/batch.o
$(TENSOR_TEST_LIBRARY): $(TENSOR_TEST_OBJS) $(TENSOR_OBJS)
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
-include $(TENSOR_OBJS:.o=.d) $(TENSOR_TEST_OBJS:.o=.d)

.PHONY: tensor-test-library
tensor-test-library: $(TENSOR_TEST_LIBRARY)
