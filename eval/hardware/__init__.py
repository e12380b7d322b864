"""The hardware of a run: the device, the chip's clock, the least possible time, and the memory for a case."""
