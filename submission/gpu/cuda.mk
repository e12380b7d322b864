# Included by each GPU backend's build.mk: the toolkit's headers and static runtime, the shared host side, and how a
# backend is built: kernels by nvcc, its host side by the C compiler against the toolkit's headers, static cudart.
ifndef CUDA_TOP
CUDA_TOP := $(shell printf '' > $(BUILD)/empty.cu; $(NVCC) --dryrun -c -o /dev/null $(BUILD)/empty.cu 2>&1 | sed -n 's/^\#\$$ TOP=//p')
CUDA_LIB := $(firstword $(wildcard $(CUDA_TOP)/lib64/libcudart_static.a $(CUDA_TOP)/lib/libcudart_static.a $(CUDA_TOP)/targets/x86_64-linux/lib/libcudart_static.a))
NVCC_ARCHS := $(if $(CUDA_LIB),$(patsubst compute_%,%,$(shell $(NVCC) --list-gpu-arch)))
ifneq ($(CUDA_LIB),)
GPU_HOST_OBJS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard submission/gpu/*.c submission/gpu/*/*.c))
OBJS += $(GPU_HOST_OBJS)
LDLIBS += $(CUDA_LIB) -ldl -lrt
$(GPU_HOST_OBJS): override CPPFLAGS += -isystem $(CUDA_TOP)/include
else
NVCC_REASON := $(NVCC) has no libcudart_static.a next to it
endif

# $(eval $(call gpu_backend,folder,MACRO)): all of its sources, with machine code for each chip of `folder`_ARCHS, which
# are those that nvcc knows.  NVFP4_HAVE_MACRO tells the library of it.  Beside each object stay ptxas' report and the
# PTX for the first chip, which the simulator runs.
define gpu_backend
GPU_PARTS += $(1)
override CPPFLAGS += -DNVFP4_HAVE_$(2)
$(1)_HOST_OBJS := $$(patsubst %.c,$$(BUILD)/%.o,$$(wildcard submission/$(1)/*.c submission/$(1)/*/*.c))
$(1)_KERNEL_OBJS := $$(patsubst %.cu,$$(BUILD)/%.o,$$(wildcard submission/$(1)/*.cu submission/$(1)/*/*.cu))
OBJS += $$($(1)_HOST_OBJS) $$($(1)_KERNEL_OBJS)
$$(filter-out %_selection.o,$$($(1)_HOST_OBJS)): override CPPFLAGS += -isystem $$(CUDA_TOP)/include
$$($(1)_KERNEL_OBJS): $$(BUILD)/%.o: %.cu submission/gpu/cuda.mk $$(FLAGS_STAMP)
	@rm -rf $$(@:.o=.kept) && mkdir -p $$(@:.o=.kept)
	$$(call step,NVCC,$$<)
	$$(Q)$$(NVCC) -std=c++17 -O3 -lineinfo $$(foreach arch,$$($(1)_ARCHS),-gencode=arch=compute_$$(arch)a,code=sm_$$(arch)a) \
	  -Werror all-warnings -Xcompiler -fPIC,-fvisibility=hidden,-fno-threadsafe-statics,-Wall \
	  -MMD -MP -MF $$(@:.o=.d) --keep --keep-dir $$(@:.o=.kept) -c -o $$@ $$< -Xptxas -v > $$(@:.o=.ptxas) 2>&1 || \
	  { cat $$(@:.o=.ptxas) >&2; exit 1; }
	$$(Q)mv `ls $$(@:.o=.kept)/*.ptx | head -n 1` $$(@:.o=.ptx) && rm -r $$(@:.o=.kept)
$$($(1)_KERNEL_OBJS:.o=.ptx): %.ptx: %.o
endef
endif
