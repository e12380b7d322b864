# The Blackwell backend: kernels by nvcc, host side by the C compiler against the toolkit's headers, static cudart.
ifneq ($(NVCC),)
include submission/gpu/cuda.mk
BLACKWELL_ARCHS := $(if $(CUDA_LIB),$(filter compute_100 compute_103,$(shell $(NVCC) --list-gpu-arch)))
ifneq ($(filter compute_100,$(BLACKWELL_ARCHS)),)
GPU_PARTS += blackwell
override CPPFLAGS += -DNVFP4_HAVE_BLACKWELL
ifneq ($(filter compute_103,$(BLACKWELL_ARCHS)),)
BLACKWELL_103 := -gencode=arch=compute_103a,code=sm_103a
$(BUILD)/submission/blackwell/blackwell_backend.o: override CPPFLAGS += -DNVFP4_HAVE_SM_103
endif
BLACKWELL_HOST_OBJS := $(addprefix $(BUILD)/submission/blackwell/,blackwell_operands.o grouped/blackwell_grouped_backend.o extended/blackwell_extended_backend.o blackwell_backend.o)
OBJS += $(BUILD)/submission/blackwell/blackwell_tile_selection.o $(BLACKWELL_HOST_OBJS) $(addprefix $(BUILD)/submission/blackwell/,blackwell_kernels.o extended/blackwell_extended_kernels.o)
$(BLACKWELL_HOST_OBJS): override CPPFLAGS += -isystem $(CUDA_TOP)/include
$(addprefix $(BUILD)/submission/blackwell/,blackwell_kernels.o extended/blackwell_extended_kernels.o): $(BUILD)/%.o: %.cu submission/blackwell/build.mk $(FLAGS_STAMP)
	@mkdir -p $(@D)
	$(call step,NVCC,$<)
	$(Q)$(NVCC) -std=c++17 -O3 -lineinfo -gencode=arch=compute_100a,code=sm_100a $(BLACKWELL_103) -Werror all-warnings \
	  -Xcompiler -fPIC,-fvisibility=hidden,-fno-threadsafe-statics,-Wall -MMD -MP -MF $(@:.o=.d) -c -o $@ $< \
	  -Xptxas -v > $(@:.o=.ptxas) 2>&1 || { cat $(@:.o=.ptxas) >&2; exit 1; }
endif
endif
