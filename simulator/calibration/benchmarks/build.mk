# The microbenchmarks' program, for the card at hand and, where the simulator runs kernels, for the simulator.
MICRO := benchmarks harness alu shared_memory tensor synchronisation clusters copy_latencies copy_rates launches overlap traffic
MICRO_FLAGS := -std=c++17 -O2 -lineinfo -Werror all-warnings -MMD -MP
ifneq ($(filter hopper,$(GPU_PARTS)),)
$(BUILD)/micro: $(MICRO:%=$(BUILD)/micro_objects/card/%.o)
	$(call step,LINK,$@)
	$(Q)$(NVCC) -Xcompiler -static-libstdc++,-static-libgcc -o $@ $^
$(BUILD)/micro_sim: $(MICRO:%=$(BUILD)/micro_objects/sim/%.o) $(BUILD)/libcudart_sim.a
	$(call step,LINK,$@)
	$(Q)$(CXX) -o $@ $^ -lpthread -lm
$(BUILD)/micro_objects/card/%.o: simulator/calibration/benchmarks/%.cu $(FLAGS_STAMP)
	@mkdir -p $(@D)
	$(call step,NVCC,$<)
	$(Q)$(NVCC) $(MICRO_FLAGS) -I simulator/calibration/benchmarks -gencode=arch=compute_90a,code=sm_90a -MF $(@:.o=.d) -c -o $@ $<
$(BUILD)/micro_objects/sim/%.o: simulator/calibration/benchmarks/%.cu $(FLAGS_STAMP)
	@mkdir -p $(@D)
	$(call step,NVCC,$<)
	$(Q)$(NVCC) $(MICRO_FLAGS) -I simulator/calibration/benchmarks -gencode=arch=compute_90a,code=compute_90a --no-compress -MF $(@:.o=.d) -c -o $@ $<
# A build for simulated time: one launch per median and one before it, since simulated launches do not vary.
MICRO_ONCE := $(BUILD)/micro_objects/once
# Rows of launches that are as short, so that the kernel that stands before them is brief.
FEWER := s/^\(\#define HOLD_CYCLES \) *[0-9]*/\1 200000/; s/^\(\#define KERNELS_IN_A_ROW \).*/\1 20/; s/^\(\#define PAIRS \).*/\1 10/
FEWER_LAPS := ; s/uint32_t lap = 0; lap < laps; lap++/uint32_t lap = 0; lap < laps \/ 50; lap++/
$(BUILD)/micro_timed: $(MICRO:%=$(MICRO_ONCE)/%.o) $(BUILD)/libcudart_sim.a
	$(call step,LINK,$@)
	$(Q)$(CXX) -o $@ $^ -lpthread -lm
$(MICRO_ONCE)/%: simulator/calibration/benchmarks/%
	@mkdir -p $(@D)
	$(Q)sed 's/^\(#define LAUNCHES \) *[0-9]*/\1 1/; s/^\(#define WARM_UP_LAUNCHES \).*/\1 1/; s/^\(#define MAX_SECONDS \).*/\1 100000/; $(FEWER)$(if $(filter %/overlap.cu,$<),$(FEWER_LAPS))' $< > $@
$(MICRO_ONCE)/%.o: $(MICRO_ONCE)/%.cu $(MICRO_ONCE)/harness.cuh $(FLAGS_STAMP)
	$(call step,NVCC,$<)
	$(Q)$(NVCC) $(MICRO_FLAGS) -I $(MICRO_ONCE) -gencode=arch=compute_90a,code=compute_90a --no-compress -MF $(@:.o=.d) -c -o $@ $<
-include $(MICRO:%=$(BUILD)/micro_objects/card/%.d) $(MICRO:%=$(BUILD)/micro_objects/sim/%.d)
endif
