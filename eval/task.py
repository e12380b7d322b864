"""The leaderboard's type names, unchecked, for submissions with `from task import input_t, output_t`."""

import torch

input_t = tuple[torch.Tensor, ...]
output_t = torch.Tensor
