# The package's kernels on the simulator.  This folder alone knows the package.

# The library whose GPU backends run on the simulator: the same host code, kernels as PTX, our CUDA runtime.
SIM_LIBRARY := $(BUILD)/libcustom_kernel_sim.so
ifneq ($(GPU_PARTS),)
SIM_GLUE := $(patsubst %.c,$(BUILD)/%.o,$(wildcard simulator/package/*.c))
SIM_KERNELS := $(patsubst %,$(BUILD)/simulator/kernels/%.o,$(GPU_PARTS))
SIM_CORE := $(BUILD)/simulator/package/custom_kernel.o
$(SIM_GLUE): SIM_CPPFLAGS += -isystem $(CUDA_TOP)/include
$(SIM_CORE): submission/core/custom_kernel.c $(FLAGS_STAMP)
	@mkdir -p $(@D)
	$(call step,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) -Dcustom_kernel=custom_kernel_on_device -Dcustom_kernel_grouped=custom_kernel_grouped_on_device \
	  -Dcustom_kernel_extended=custom_kernel_extended_on_device -Dcustom_kernel_experts=custom_kernel_experts_on_device \
	  -Dcustom_kernel_quantize=custom_kernel_quantize_on_device -Dcustom_kernel_route=custom_kernel_route_on_device \
	  -Dcustom_kernel_combine=custom_kernel_combine_on_device $(CFLAGS) -MMD -MP -c -o $@ $<
hopper_SIM_ARCH := 90a
blackwell_SIM_ARCH := 100a
geforce_SIM_ARCH := 120a
sim_arch = $(or $($(1)_SIM_ARCH),$(error simulator/package/build.mk has no $(1)_SIM_ARCH))
# Keeps their PTX, which tests alter and other checkers read.
$(foreach part,$(GPU_PARTS),$(eval $(BUILD)/simulator/kernels/$(part).o: submission/$(part)/$(part)_kernels.cu))
$(SIM_KERNELS): $(BUILD)/simulator/kernels/%.o: $(FLAGS_STAMP)
	@mkdir -p $(@D)/$*
	$(call step,NVCC,submission/$*/$*_kernels.cu)
	$(Q)$(NVCC) -std=c++17 -O3 -lineinfo -gencode=arch=compute_$(call sim_arch,$*),code=compute_$(call sim_arch,$*) --no-compress \
	  --keep --keep-dir $(@D)/$* -Xcompiler -fPIC,-fvisibility=hidden,-fno-threadsafe-statics -MMD -MP -MF $(@:.o=.d) -c -o $@ \
	  submission/$*/$*_kernels.cu
	$(Q)mv $(@D)/$*/$*_kernels.ptx $(@D)/$*/kernels.ptx && find $(@D)/$* -type f ! -name kernels.ptx -delete
$(SIM_KERNELS:.o=/kernels.ptx): %/kernels.ptx: %.o
SIM_EXTENDED_SOURCES := $(foreach part,$(GPU_PARTS),$(wildcard submission/$(part)/*/*.cu))
SIM_EXTENDED := $(SIM_EXTENDED_SOURCES:submission/%.cu=$(BUILD)/simulator/extended/%.o)
$(SIM_EXTENDED): $(BUILD)/simulator/extended/%.o: submission/%.cu $(FLAGS_STAMP)
	@mkdir -p $(@D)
	$(call step,NVCC,$<)
	$(Q)$(NVCC) -std=c++17 -O3 -lineinfo --no-compress $(foreach arch,$(call sim_arch,$(firstword $(subst /, ,$*))),\
	  -gencode=arch=compute_$(arch),code=compute_$(arch)) \
	  -Xcompiler -fPIC,-fvisibility=hidden,-fno-threadsafe-statics -MMD -MP -MF $(@:.o=.d) -c -o $@ $<
$(SIM_LIBRARY): $(filter-out %kernels.o %/core/custom_kernel.o,$(OBJS)) $(SIM_CORE) $(SIM_KERNELS) $(SIM_EXTENDED) $(SIM_GLUE) \
                $(CUDART_OBJS) $(SIM_OBJS)
	$(call step,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -lm
simulator: $(SIM_LIBRARY)
-include $(SIM_GLUE:.o=.d) $(SIM_CORE:.o=.d) $(SIM_KERNELS:.o=.d) $(SIM_EXTENDED:.o=.d)
endif
