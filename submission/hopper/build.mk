# The Hopper backend: kernels by nvcc, host side by the C compiler against the toolkit's headers, static cudart.
ifneq ($(NVCC),)
include submission/gpu/cuda.mk
ifneq ($(CUDA_LIB),)
GPU_PARTS += hopper
override CPPFLAGS += -DNVFP4_HAVE_HOPPER
HOPPER_HOST_OBJS := $(addprefix $(BUILD)/submission/hopper/,narrow/hopper_narrow_backend.o hopper_operands.o grouped/hopper_grouped_backend.o extended/hopper_extended_backend.o hopper_backend.o)
OBJS += $(addprefix $(BUILD)/submission/hopper/,hopper_tile_selection.o narrow/hopper_narrow_selection.o grouped/hopper_grouped_selection.o hopper_kernels.o extended/hopper_extended_kernels.o) $(HOPPER_HOST_OBJS)
$(HOPPER_HOST_OBJS): override CPPFLAGS += -isystem $(CUDA_TOP)/include
$(addprefix $(BUILD)/submission/hopper/,hopper_kernels.o extended/hopper_extended_kernels.o): $(BUILD)/%.o: %.cu submission/hopper/build.mk $(FLAGS_STAMP)
	@mkdir -p $(@D)
	$(call step,NVCC,$<)
	$(Q)$(NVCC) -std=c++17 -O3 -lineinfo -gencode=arch=compute_90a,code=sm_90a -Werror all-warnings \
	  -Xcompiler -fPIC,-fvisibility=hidden,-fno-threadsafe-statics,-Wall -MMD -MP -MF $(@:.o=.d) -c -o $@ $< \
	  -Xptxas -v > $(@:.o=.ptxas) 2>&1 || { cat $(@:.o=.ptxas) >&2; exit 1; }
endif
endif
