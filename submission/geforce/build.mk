ifneq ($(NVCC),)
include submission/gpu/cuda.mk
geforce_ARCHS := $(filter 120 121,$(NVCC_ARCHS))
ifneq ($(filter 120,$(geforce_ARCHS)),)
$(eval $(call gpu_backend,geforce,GEFORCE))
ifneq ($(filter 121,$(geforce_ARCHS)),)
$(BUILD)/submission/geforce/geforce_backend.o: override CPPFLAGS += -DNVFP4_HAVE_SM_121
endif
endif
endif
