# The operators of PyTorch.  They resolve torch's stable C interface at run time: no header and no library of torch.
TORCH_OBJS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard submission/torch/*.c))
OBJS += $(TORCH_OBJS)
LDLIBS += -ldl
# torch raises the exception for a refused call through these functions' frames.
$(TORCH_OBJS): override CFLAGS += -fexceptions
