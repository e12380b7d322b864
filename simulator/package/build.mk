# The package's kernels on the simulator.  This folder alone knows the package.

# The library whose GPU backends run on the simulator: the same host code, kernels as PTX, our CUDA runtime.
SIM_LIBRARY := $(BUILD)/libcustom_kernel_sim.so
ifneq ($(GPU_PARTS),)
SIM_GLUE := $(patsubst %.c,$(BUILD)/%.o,$(wildcard simulator/package/*.c))
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
# The library's own objects, with their PTX in place of machine code.
SIM_KERNELS := $(foreach part,$(GPU_PARTS),$($(part)_KERNEL_OBJS:$(BUILD)/submission/%=$(BUILD)/simulator/kernels/%))
$(SIM_KERNELS): $(BUILD)/simulator/kernels/%.o: $(BUILD)/submission/%.o
	@mkdir -p $(@D)
	$(Q)$(CUDA_TOP)/bin/fatbinary -64 --compress=false --create=$(@:.o=.fatbin) \
	  --image3=kind=ptx,sm=$(call sim_arch,$(firstword $(subst /, ,$*))),file=$(<:.o=.ptx) && \
	  objcopy --update-section .nv_fatbin=$(@:.o=.fatbin) $< $@ && rm $(@:.o=.fatbin)
$(SIM_LIBRARY): $(filter-out %kernels.o %/core/custom_kernel.o,$(OBJS)) $(SIM_CORE) $(SIM_KERNELS) $(SIM_GLUE) \
                $(CUDART_OBJS) $(SIM_OBJS)
	$(call step,LINK,$@)
	$(Q)echo '{ global: custom_kernel*; sim_*; image_*; local: *; };' > $@.map && \
	  $(CC) $(LDFLAGS) -Wl,--version-script=$@.map -o $@ $^ -lm && rm $@.map
simulator: $(SIM_LIBRARY)
-include $(SIM_GLUE:.o=.d) $(SIM_CORE:.o=.d)
endif
