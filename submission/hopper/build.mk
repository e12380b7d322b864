ifneq ($(NVCC),)
include submission/gpu/cuda.mk
hopper_ARCHS := $(filter 90,$(NVCC_ARCHS))
ifneq ($(filter 90,$(hopper_ARCHS)),)
$(eval $(call gpu_backend,hopper,HOPPER))
endif
endif
