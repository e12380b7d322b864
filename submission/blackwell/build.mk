ifneq ($(NVCC),)
include submission/gpu/cuda.mk
blackwell_ARCHS := $(filter 100 103,$(NVCC_ARCHS))
ifneq ($(filter 100,$(blackwell_ARCHS)),)
$(eval $(call gpu_backend,blackwell,BLACKWELL))
ifneq ($(filter 103,$(blackwell_ARCHS)),)
$(BUILD)/submission/blackwell/blackwell_backend.o: override CPPFLAGS += -DNVFP4_HAVE_SM_103
endif
endif
endif
