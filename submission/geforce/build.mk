# The GeForce backend: kernels by nvcc, host side by the C compiler against the toolkit's headers, static cudart.
ifneq ($(NVCC),)
include submission/gpu/cuda.mk
GEFORCE_ARCHS := $(if $(CUDA_LIB),$(filter compute_120 compute_121,$(shell $(NVCC) --list-gpu-arch)))
ifneq ($(filter compute_120,$(GEFORCE_ARCHS)),)
GPU_PARTS += geforce
override CPPFLAGS += -DNVFP4_HAVE_GEFORCE
ifneq ($(filter compute_121,$(GEFORCE_ARCHS)),)
GEFORCE_121 := -gencode=arch=compute_121a,code=sm_121a
$(BUILD)/submission/geforce/geforce_backend.o: override CPPFLAGS += -DNVFP4_HAVE_SM_121
endif
GEFORCE_HOST_OBJS := $(addprefix $(BUILD)/submission/geforce/,geforce_operands.o grouped/geforce_grouped_backend.o geforce_backend.o)
OBJS += $(BUILD)/submission/geforce/geforce_tile_selection.o $(GEFORCE_HOST_OBJS) $(BUILD)/submission/geforce/geforce_kernels.o
$(GEFORCE_HOST_OBJS): override CPPFLAGS += -isystem $(CUDA_TOP)/include
$(BUILD)/submission/geforce/geforce_kernels.o: submission/geforce/geforce_kernels.cu submission/geforce/build.mk $(FLAGS_STAMP)
	@mkdir -p $(@D)
	$(call step,NVCC,$<)
	$(Q)$(NVCC) -std=c++17 -O3 -lineinfo -gencode=arch=compute_120a,code=sm_120a $(GEFORCE_121) -Werror all-warnings \
	  -Xcompiler -fPIC,-fvisibility=hidden,-fno-threadsafe-statics,-Wall -MMD -MP -MF $(@:.o=.d) -c -o $@ $< \
	  -Xptxas -v > $(@:.o=.ptxas) 2>&1 || { cat $(@:.o=.ptxas) >&2; exit 1; }
endif
endif
