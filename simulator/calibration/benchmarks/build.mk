# The microbenchmarks' program, for the card at hand and, where the simulator runs kernels, for the simulator.  It is one
# compilation, since most of each file's time went into reading the toolkit's headers.
MICRO := simulator/calibration/benchmarks
MICRO_PARTS := harness alu shared_memory tensor synchronisation clusters copy_latencies copy_rates launches overlap traffic
ifneq ($(filter hopper,$(GPU_PARTS)),)
$(BUILD)/micro: $(BUILD)/micro_objects/card.o
	$(call step,LINK,$@)
	$(Q)$(NVCC) -Xcompiler -static-libstdc++,-static-libgcc -o $@ $^
$(BUILD)/micro_sim: $(BUILD)/micro_objects/sim.o $(BUILD)/libcudart_sim.a
	$(call step,LINK,$@)
	$(Q)$(CXX) -o $@ $^ -lpthread -lm
# A build for simulated time: one launch per median and one before it, since simulated launches do not vary.
MICRO_ONCE := $(BUILD)/micro_objects/once
# Rows of launches that are as short, so that the kernel that stands before them is brief.
FEWER := s/^\(\#define HOLD_CYCLES \) *[0-9]*/\1 200000/; s/^\(\#define KERNELS_IN_A_ROW \).*/\1 20/; s/^\(\#define PAIRS \).*/\1 10/
FEWER_LAPS := ; s/uint32_t lap = 0; lap < laps; lap++/uint32_t lap = 0; lap < laps \/ 50; lap++/
$(BUILD)/micro_timed: $(MICRO_ONCE)/once.o $(BUILD)/libcudart_sim.a
	$(call step,LINK,$@)
	$(Q)$(CXX) -o $@ $^ -lpthread -lm
$(MICRO_ONCE)/%: $(MICRO)/%
	@mkdir -p $(@D)
	$(Q)sed 's/^\(#define LAUNCHES \) *[0-9]*/\1 1/; s/^\(#define WARM_UP_LAUNCHES \).*/\1 1/; s/^\(#define MAX_SECONDS \).*/\1 100000/; $(FEWER)$(if $(filter %/overlap.cu,$<),$(FEWER_LAPS))' $< > $@
$(MICRO_ONCE)/once.o: $(MICRO_ONCE)/benchmarks.cu $(MICRO_PARTS:%=$(MICRO_ONCE)/%.cu) $(MICRO_ONCE)/harness.cuh $(FLAGS_STAMP)

MICRO_CODE := -gencode=arch=compute_90a,code=compute_90a --no-compress
$(BUILD)/micro_objects/card.o: MICRO_CODE := -gencode=arch=compute_90a,code=sm_90a
$(BUILD)/micro_objects/card.o $(BUILD)/micro_objects/sim.o: $(MICRO)/benchmarks.cu $(FLAGS_STAMP)
$(BUILD)/micro_objects/card.o $(BUILD)/micro_objects/sim.o $(MICRO_ONCE)/once.o:
	@mkdir -p $(@D)
	$(call step,NVCC,$(<D))
	$(Q)$(NVCC) -std=c++17 -O2 -lineinfo -Werror all-warnings -I $(<D) $(MICRO_PARTS:%=-include $(<D)/%.cu) $(MICRO_CODE) \
	  -MMD -MP -MF $(@:.o=.d) -c -o $@ $<
-include $(BUILD)/micro_objects/card.d $(BUILD)/micro_objects/sim.d
endif
