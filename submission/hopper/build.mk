# The Hopper back end: kernels by nvcc, host side by the C compiler against the toolkit's headers, static cudart.
ifneq ($(NVCC),)
CUDA_TOP := $(shell printf '' > $(BUILD)/empty.cu; $(NVCC) --dryrun -c -o /dev/null $(BUILD)/empty.cu 2>&1 | sed -n 's/^\#\$$ TOP=//p')
CUDA_LIB := $(firstword $(wildcard $(CUDA_TOP)/lib64/libcudart_static.a $(CUDA_TOP)/lib/libcudart_static.a $(CUDA_TOP)/targets/x86_64-linux/lib/libcudart_static.a))
ifneq ($(CUDA_LIB),)
GPU_PARTS += hopper
override CPPFLAGS += -DNVFP4_HAVE_HOPPER
HOPPER_OBJS := $(BUILD)/submission/hopper/plan.o $(BUILD)/submission/hopper/hopper_backend.o $(BUILD)/submission/hopper/kernels.o
OBJS += $(HOPPER_OBJS)
LDLIBS += $(CUDA_LIB) -ldl -lrt
$(BUILD)/submission/hopper/hopper_backend.o: override CPPFLAGS += -isystem $(CUDA_TOP)/include
$(BUILD)/submission/hopper/kernels.o: submission/hopper/kernels.cu $(FLAGS_STAMP)
	@mkdir -p $(@D)
	$(NVCC) -std=c++17 -O3 -lineinfo -gencode=arch=compute_90a,code=sm_90a -Werror all-warnings \
	  -Xcompiler -fPIC,-fvisibility=hidden,-fno-threadsafe-statics,-Wall -MMD -MP -MF $(@:.o=.d) -c -o $@ $<
else
NVCC_REASON := $(NVCC) has no libcudart_static.a beside it
endif
endif
