# The features' program, for the card and, where the simulator runs kernels, for the simulator.
FEATURES := main copies barriers matrices scalars approximations
FEATURE_FLAGS := -std=c++17 -O2 -lineinfo -Werror all-warnings -MMD -MP
ifneq ($(filter hopper,$(GPU_PARTS)),)
$(BUILD)/features_h200: $(FEATURES:%=$(BUILD)/h200/card/%.o)
	$(call step,LINK,$@)
	$(Q)$(NVCC) -Xcompiler -static-libstdc++,-static-libgcc -o $@ $^
$(BUILD)/features_sim: $(FEATURES:%=$(BUILD)/h200/sim/%.o) $(BUILD)/libcudart_sim.a
	$(call step,LINK,$@)
	$(Q)$(CXX) -o $@ $^ -lpthread -lm
$(BUILD)/h200/card/%.o: tests/simulator/h200/features/%.cu $(FLAGS_STAMP)
	@mkdir -p $(@D)
	$(call step,NVCC,$<)
	$(Q)$(NVCC) $(FEATURE_FLAGS) -gencode=arch=compute_90a,code=sm_90a -MF $(@:.o=.d) -c -o $@ $<
$(BUILD)/h200/sim/%.o: tests/simulator/h200/features/%.cu $(FLAGS_STAMP)
	@mkdir -p $(@D)
	$(call step,NVCC,$<)
	$(Q)$(NVCC) $(FEATURE_FLAGS) -gencode=arch=compute_90a,code=compute_90a --no-compress -MF $(@:.o=.d) -c -o $@ $<
-include $(FEATURES:%=$(BUILD)/h200/card/%.d) $(FEATURES:%=$(BUILD)/h200/sim/%.d)
endif
