# The program that prints the GPU backends' tiles: host code alone, so it is built without nvcc too.
TILE_TABLE := $(BUILD)/tile_table
TILE_TABLE_OBJS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard scripts/tile_table/*.c submission/*/*_selection.c submission/*/*/*_selection.c))
$(TILE_TABLE): $(TILE_TABLE_OBJS)
	$(call step,LINK,$@)
	$(Q)$(CC) $(filter-out -shared -Wl%,$(LDFLAGS)) -o $@ $^
-include $(TILE_TABLE_OBJS:.o=.d)
