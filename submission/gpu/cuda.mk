# Included by each GPU backend's build.mk: the toolkit's headers and static runtime, and the shared host side, once.
ifndef CUDA_TOP
CUDA_TOP := $(shell printf '' > $(BUILD)/empty.cu; $(NVCC) --dryrun -c -o /dev/null $(BUILD)/empty.cu 2>&1 | sed -n 's/^\#\$$ TOP=//p')
CUDA_LIB := $(firstword $(wildcard $(CUDA_TOP)/lib64/libcudart_static.a $(CUDA_TOP)/lib/libcudart_static.a $(CUDA_TOP)/targets/x86_64-linux/lib/libcudart_static.a))
ifneq ($(CUDA_LIB),)
GPU_HOST_OBJS := $(addprefix $(BUILD)/submission/gpu/,gpu_host.o gpu_grouped.o)
OBJS += $(GPU_HOST_OBJS)
LDLIBS += $(CUDA_LIB) -ldl -lrt
$(GPU_HOST_OBJS): override CPPFLAGS += -isystem $(CUDA_TOP)/include
else
NVCC_REASON := $(NVCC) has no libcudart_static.a beside it
endif
endif
