# The harness's timing core, loaded by eval/timing with ctypes.
TIMING_CORE := $(BUILD)/libtiming_core.so
$(TIMING_CORE): $(BUILD)/eval/timing/core.o
	$(call step,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^
-include $(BUILD)/eval/timing/core.d
