# The features' program, for the card and, where the simulator runs kernels, for the simulator.
FEATURES := main copies barriers matrices scalars approximations
FEATURE_FLAGS := -std=c++17 -O2 -lineinfo -Werror all-warnings -MMD -MP
ifneq ($(filter hopper,$(GPU_PARTS)),)
$(BUILD)/features_h200: $(FEATURES:%=$(BUILD)/features/card/%.o)
	$(call step,LINK,$@)
	$(Q)$(NVCC) -Xcompiler -static-libstdc++,-static-libgcc -o $@ $^
$(BUILD)/features_sim: $(FEATURES:%=$(BUILD)/features/sim/%.o) $(BUILD)/libcudart_sim.a
	$(call step,LINK,$@)
	$(Q)$(CXX) -o $@ $^ -lpthread -lm
$(BUILD)/features/card/%.o: simulator/tests/package/h200/features/%.cu $(FLAGS_STAMP)
	@mkdir -p $(@D)
	$(call step,NVCC,$<)
	$(Q)$(NVCC) $(FEATURE_FLAGS) -gencode=arch=compute_90a,code=sm_90a -MF $(@:.o=.d) -c -o $@ $<
$(BUILD)/features/sim/%.o: simulator/tests/package/h200/features/%.cu $(FLAGS_STAMP)
	@mkdir -p $(@D)
	$(call step,NVCC,$<)
	$(Q)$(NVCC) $(FEATURE_FLAGS) -gencode=arch=compute_90a,code=compute_90a --no-compress -MF $(@:.o=.d) -c -o $@ $<
-include $(FEATURES:%=$(BUILD)/features/card/%.d) $(FEATURES:%=$(BUILD)/features/sim/%.d)
endif
