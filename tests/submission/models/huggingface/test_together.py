"""Layers that read the same input become one product: q, k and v of an attention."""

from __future__ import annotations

import copy

import pytest
import torch

from tests.submission.models.huggingface.published_kit import (
    AutoModelForCausalLM,
    Late,
    Nvfp4GemmConfig,
    quantized,
    random_model,
    relative,
)

from submission import Linear  # isort: skip

together = Late("submission.models.huggingface.together")
NAMES = ("q_proj", "k_proj", "v_proj")
SIXTEEN_BIT = {"activations": "16bit"}


@pytest.fixture
def loaded(tmp_path):
    """An attention of a 16-bit model quantized while it is loaded, and the weights' float64 twins."""
    model = random_model("qwen2", torch.bfloat16)  # with biases of q, k and v
    with torch.no_grad():
        model.model.layers[0].self_attn.k_proj.weight.mul_(3)
    floats = copy.deepcopy(model.model.layers[0].self_attn).double()
    model.save_pretrained(tmp_path)
    config = Nvfp4GemmConfig(**SIXTEEN_BIT)
    model = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float16, quantization_config=config)
    return model, floats


def products_of(module):
    return sum(isinstance(one, Linear) for one in module.modules())


def test_q_k_and_v_are_one_product_with_one_scale(loaded):
    model, floats = loaded
    attention, x = model.model.layers[0].self_attn, torch.randn(2, 5, 128, dtype=torch.float16)
    assert products_of(attention) == 2
    largest = max(getattr(floats, name).weight.abs().max().item() for name in NAMES)
    for name in NAMES:
        layer = getattr(floats, name)
        wanted = x.double() @ quantized(layer.weight, 2688 / largest)[2].T + layer.bias
        # A number in the middle of two codes goes to either, as the scale is rounded to fp32.
        assert relative(getattr(attention, name)(x), wanted) < 5e-3, name


def test_each_layer_answers_alone_and_in_any_order(loaded):
    attention = loaded[0].model.layers[0].self_attn
    x, other = torch.randn(2, 3, 128, dtype=torch.float16).unbind()
    wanted = {name: getattr(attention, name)(x) for name in NAMES}
    for name in ("v_proj", "k_proj", "q_proj", "k_proj"):
        assert torch.equal(getattr(attention, name)(x), wanted[name])
        assert not torch.equal(getattr(attention, name)(other), wanted[name])
        assert torch.equal(copy.deepcopy(attention).get_submodule(name)(x), wanted[name])


def test_the_attention_is_one_graph_and_keeps_no_activations(loaded):
    attention, x = loaded[0].model.layers[0].self_attn, torch.randn(1, 5, 128, dtype=torch.float16)
    angles = torch.randn(1, 5, 32, dtype=torch.float16)
    with torch.no_grad():
        wanted = attention(x, position_embeddings=(angles.cos(), angles.sin()), attention_mask=None)[0]
        compiled = torch.compile(attention, backend="eager", fullgraph=True)
        found = compiled(x, position_embeddings=(angles.cos(), angles.sin()), attention_mask=None)[0]
    assert torch.equal(found, wanted)
    assert attention.q_proj.latest is None


class Reads(torch.nn.Module):
    def __init__(self):
        super().__init__()
        for number, name in enumerate(NAMES):
            setattr(self, name, Linear.random(64, 32 * (number + 1), quantize=False))
        for name in NAMES[1:]:  # as if one scale had been found for all
            getattr(self, name).weight_scale.copy_(self.q_proj.weight_scale)
            getattr(self, name).product_scale.copy_(self.q_proj.weight_scale)


class Same(Reads):
    def forward(self, x):
        return torch.cat((self.q_proj(x), self.k_proj(x), self.v_proj(x)), -1)


class Another(Reads):
    def forward(self, x):
        return torch.cat((self.q_proj(x), self.k_proj(x * 2), self.v_proj(x + 1)), -1)


class Assigned(Reads):
    def forward(self, x):
        q = self.q_proj(x)
        x = x * 2
        return torch.cat((q, self.k_proj(x), self.v_proj(x)), -1)


class InPlace(Reads):
    def forward(self, x):
        q = self.q_proj(x)
        x.mul_(2)
        return torch.cat((q, self.k_proj(x), self.v_proj(x)), -1)


class Element(Reads):
    def forward(self, x):
        q = self.q_proj(x)
        x[0] = 0
        return torch.cat((q, self.k_proj(x), self.v_proj(x)), -1)


class Out(Reads):
    def forward(self, x):
        q = self.q_proj(x)
        torch.mul(x, 2, out=x)
        return torch.cat((q, self.k_proj(x), self.v_proj(x)), -1)


class Shaped(Reads):
    def forward(self, x):
        return torch.cat((self.q_proj(x).view(x.shape[0], -1), self.k_proj(x).view(x.shape[0], -1, 16)[:, 0]), -1)


class View(Reads):
    def forward(self, x):
        q, view = self.q_proj(x), x.view(-1)
        view.mul_(2)
        return torch.cat((q, self.k_proj(x), self.v_proj(x)), -1)


def double(x):
    x.mul_(2)


class Hidden(Reads):
    def forward(self, x):
        q = self.q_proj(x)
        double(x.view(-1))
        return torch.cat((q, self.k_proj(x), self.v_proj(x)), -1)


class Twice(Reads):
    def forward(self, x):
        return torch.cat((self.q_proj(x), self.k_proj(x), self.k_proj(x), self.v_proj(x).float() * 0), -1)


@pytest.mark.parametrize(
    ("kind", "products"),
    [(Same, 1), (Another, 3), (Assigned, 3), (InPlace, 3), (Element, 3), (Out, 3), (Shaped, 3), (View, 3), (Twice, 2)],
)
def test_only_layers_whose_input_stays_the_same_become_one(kind, products):
    model, x = kind(), torch.randn((3, 2, 64) if kind is Shaped else (3, 64), dtype=torch.bfloat16)
    wanted = model(x.clone())
    together.join(model)
    assert products_of(model) == products
    assert torch.equal(model(x.clone()), wanted)


def test_a_write_by_another_function_is_seen():
    model, x = Hidden(), torch.randn(3, 64, dtype=torch.bfloat16)
    wanted = model(x.clone())
    together.join(model)
    assert products_of(model) == 1
    assert torch.equal(model(x.clone()), wanted)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_an_input_that_is_written_between_two_passes_is_read_again(mode):
    model = Same()
    together.join(model)
    with mode():
        x = torch.randn(3, 64, dtype=torch.bfloat16)
        model.q_proj(x)
        model.k_proj(x)  # and v never
        x.mul_(2)
        assert torch.equal(model.q_proj(x), model.q_proj(x.clone()))


def test_a_copy_has_no_activations():
    model = Same()
    together.join(model)
    with torch.no_grad():
        model.q_proj(torch.randn(3, 64, dtype=torch.bfloat16))
    model.q_proj.latest = (torch.randn(3, 64, requires_grad=True) * 2, *model.q_proj.latest[1:])
    assert copy.deepcopy(model).q_proj.latest is None


def test_a_weight_that_the_checkpoint_lacks_leaves_the_others_quantized(tmp_path):
    model, lacking = random_model("qwen2", torch.bfloat16), "model.layers.0.self_attn.k_proj.weight"
    model.save_pretrained(tmp_path, state_dict={key: one for key, one in model.state_dict().items() if key != lacking})
    config = Nvfp4GemmConfig(**SIXTEEN_BIT)
    found = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float16, quantization_config=config)
    attention = found.model.layers[0].self_attn
    assert type(attention.k_proj) is torch.nn.Linear
    assert 0 < attention.k_proj.weight.std() < 1  # as transformers initializes a new weight
    assert attention.q_proj.names == ("q_proj", "v_proj")


def other_weight_scale(model):
    model.v_proj = Linear.random(64, 96, quantize=False)


def other_options(model):
    model.v_proj = Linear(model.v_proj.quantized(), scale="token")


def other_input_scale(model):
    for number, name in enumerate(NAMES):
        weight = getattr(model, name).quantized()
        setattr(model, name, Linear(weight._replace(input_scale=torch.full((1,), 100.0 + number // 2))))


@pytest.mark.parametrize("change", [other_weight_scale, other_options, other_input_scale])
def test_layers_of_other_scales_or_options_stay_apart(change):
    model, x = Same(), torch.randn(3, 64, dtype=torch.bfloat16)
    change(model)
    wanted = model(x)
    together.join(model)
    assert products_of(model) == 3
    assert torch.equal(model(x), wanted)
