"""What a submission is judged on: the device, the chip's clock and its floor of possible time, and room for a case."""
