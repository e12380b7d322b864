"""A model of transformers in NVFP4: python examples/transformers_model.py [a model's folder, new tokens]"""

import sys
import time

import nvfp4_gemm.models.huggingface  # from_pretrained() then takes NVFP4 checkpoints
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

device = "cuda" if torch.cuda.is_available() else "cpu"
folder, new = sys.argv[1] if sys.argv[1:] else None, int(sys.argv[2]) if sys.argv[2:] else 32
if folder:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype="auto").to(device)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    prompt = tokenizer("The capital of France is", return_tensors="pt").input_ids.to(device)
else:  # a small random model, quantized while it is loaded
    import tempfile

    sizes = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4, "vocab_size": 512}
    config = AutoConfig.for_model("llama", **sizes, num_attention_heads=4, num_key_value_heads=2)
    with tempfile.TemporaryDirectory() as saved:
        AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(saved)
        quantize = nvfp4_gemm.models.huggingface.Nvfp4GemmConfig()
        model = AutoModelForCausalLM.from_pretrained(saved, quantization_config=quantize, dtype="auto").to(device)
    prompt = torch.tensor([[1, 17, 42, 99]], device=device)

options = {"max_new_tokens": new, "min_new_tokens": new, "do_sample": False}
model.generate(prompt, **options | {"max_new_tokens": 2, "min_new_tokens": 2})  # the first calls load kernels
start = time.perf_counter()
tokens = model.generate(prompt, **options)[0]
seconds = time.perf_counter() - start
weights = sum(one.nbytes for one in (*model.parameters(), *model.buffers()))
print(tokenizer.decode(tokens) if folder else tokens.tolist())
print(f"{device}: {new / seconds:.1f} tokens/s, weights {weights / 2**20:.1f} MiB", end="")
print(f", at most {torch.cuda.max_memory_allocated() / 2**20:.1f} MiB" if device == "cuda" else "")
