# The features' program, for the card and, where the simulator runs kernels, for the simulator.  It is one compilation,
# since most of each file's time went into reading the toolkit's headers.
FEATURES := simulator/tests/package/h200/features
FEATURE_PARTS := copies barriers matrices scalars approximations
FEATURE_FLAGS := -std=c++17 -O2 -lineinfo -Werror all-warnings $(FEATURE_PARTS:%=-include $(FEATURES)/%.cu) -MMD -MP
ifneq ($(filter hopper,$(GPU_PARTS)),)
$(BUILD)/features_h200: $(BUILD)/features/card.o
	$(call step,LINK,$@)
	$(Q)$(NVCC) -Xcompiler -static-libstdc++,-static-libgcc -o $@ $^
$(BUILD)/features_sim: $(BUILD)/features/sim.o $(BUILD)/libcudart_sim.a
	$(call step,LINK,$@)
	$(Q)$(CXX) -o $@ $^ -lpthread -lm
$(BUILD)/features/card.o: FEATURE_CODE := -gencode=arch=compute_90a,code=sm_90a
$(BUILD)/features/sim.o: FEATURE_CODE := -gencode=arch=compute_90a,code=compute_90a --no-compress
$(BUILD)/features/card.o $(BUILD)/features/sim.o: $(FEATURES)/main.cu $(FLAGS_STAMP)
	@mkdir -p $(@D)
	$(call step,NVCC,$(FEATURES))
	$(Q)$(NVCC) $(FEATURE_FLAGS) $(FEATURE_CODE) -MF $(@:.o=.d) -c -o $@ $<
-include $(BUILD)/features/card.d $(BUILD)/features/sim.d
endif
