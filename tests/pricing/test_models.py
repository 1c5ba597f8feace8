"""Shape tables against what is known of the models; readers of files."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from busbw.core.plan import Model
from busbw.errors import FileError, UsageError
from busbw.pricing.family import built_in, member_names
from busbw.pricing.readers import find_blocks, read_model, to_csv


@pytest.mark.parametrize(
    ("name", "tensors", "count"),
    [
        ("gpt2", 148, 124439808),
        ("gpt2-medium", 292, 354823168),
        ("gpt2-large", 436, 774030080),
        ("gpt2-xl", 580, 1557611200),
        ("llama3-8b", 291, 8030261248),
        ("llama3-70b", 723, 70553706496),
        ("llama3-405b", 1137, 405853388800),
        ("mixtral-8x7b", 291, 46702792704),
        ("deepseek-v3", 909, 671026404352),
        ("bert-base", 202, 109514298),
        ("vit-b", 200, 86567656),
        ("vit-l", 392, 304326632),
        ("resnet18", 62, 11689512),
        ("resnet50", 161, 25557032),
    ],
)
def test_parameters(name: str, tensors: int, count: int) -> None:
    model = built_in(name)
    assert (len(model.parameters), model.count) == (tensors, count)


@pytest.mark.parametrize("name", member_names())
def test_every_gradient_arrives_once_and_every_unit_has_its_place(name: str) -> None:
    model = built_in(name)
    assert sorted(model.arrival) == sorted(tensor.name for tensor in model.trainable)
    assert [t.name for unit in model.units for t in unit.tensors if unit.name in model.blocks]
    assert sum(len(unit.tensors) for unit in model.units) == len(model.parameters)


def test_small_tensors_of_gpt2() -> None:
    from busbw.pricing.sync import small_tensors

    small = small_tensors(built_in("gpt2"))
    assert len(small) == 98
    assert sum(small) == 12 * 9984 + 2 * 768


def test_the_order_of_gradients_within_a_block() -> None:
    arrival = [name.removeprefix("model.layers.0.") for name in built_in("llama3-8b").arrival if ".layers.0." in name]
    assert arrival == [
        *("mlp.down_proj.weight", "mlp.up_proj.weight", "mlp.gate_proj.weight", "post_attention_layernorm.weight"),
        *("self_attn.o_proj.weight", "self_attn.v_proj.weight", "self_attn.k_proj.weight", "self_attn.q_proj.weight"),
        "input_layernorm.weight",
    ]
    gpt2 = [name.removeprefix("transformer.h.0.") for name in built_in("gpt2").arrival if ".h.0." in name]
    assert gpt2[:2] == ["mlp.c_proj.bias", "mlp.c_proj.weight"]
    assert gpt2[-2:] == ["ln_1.weight", "ln_1.bias"]
    assert built_in("gpt2").arrival[-1] == "transformer.wte.weight"


def test_flops_of_a_token_and_of_an_image() -> None:
    gpt2 = built_in("gpt2")
    assert sum(t.flops for t in gpt2.tensors) == 2 * (12 * 12 * 768**2 + 50257 * 768)
    assert sum(t.flops for t in built_in("resnet50").tensors) / 2e9 == pytest.approx(4.09, abs=0.01)  # 4.09 GMACs


def test_an_unknown_model_names_its_neighbours() -> None:
    with pytest.raises(UsageError, match="unknown model 'llama-8b': did you mean") as caught:
        read_model("llama-8b")
    assert "llama3-8b" in str(caught.value)
    assert "config.json" in str(caught.value)


def test_a_config_builds_its_family(tmp_path: Path) -> None:
    words = {"model_type": "gpt2", "n_layer": 2, "n_embd": 32, "n_head": 4, "vocab_size": 61, "n_positions": 16}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(words))
    assert read_model(str(path)).count == 61 * 32 + 16 * 32 + 2 * (12 * 32 * 32 + 13 * 32) + 64


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "not JSON"),
        ("[]", "neither a transformers config.json"),
        ("{}", "no model_type"),
        ('{"model_type": "t5"}', "model_type 't5' is not known here"),
        ('{"model_type": "gpt2", "n_layer": 0}', "n_layer 0 must be a whole number"),
        ('{"model_type": "gpt2"}', "n_layer is missing"),
        ('{"type": "model", "format": 1}', "not a saved model"),
    ],
)
def test_what_is_wrong_with_a_json_file(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises((FileError, UsageError), match=why) as caught:
        read_model(str(path))
    assert "\n" not in str(caught.value)


def safetensors(path: Path, header: object, raw: bytes | None = None) -> str:
    data = json.dumps(header).encode() if raw is None else raw
    path.write_bytes(struct.pack("<Q", len(data)) + data)
    return str(path)


def test_a_safetensors_header_is_enough(tmp_path: Path) -> None:
    header = {
        "__metadata__": {"format": "pt"},
        "h.10.w": {"dtype": "BF16", "shape": [4, 4], "data_offsets": [0, 32]},
        "h.2.w": {"dtype": "F32", "shape": [2], "data_offsets": [32, 40]},
    }
    model = read_model(safetensors(tmp_path / "m.safetensors", header))
    assert [(t.name, t.shape, t.dtype) for t in model.tensors] == [
        ("h.2.w", (2,), "float32"),
        ("h.10.w", (4, 4), "bfloat16"),
    ]
    assert model.blocks == ("h.2", "h.10")
    assert any("reverse order" in note for note in model.notes)


@pytest.mark.parametrize(
    ("header", "raw", "why"),
    [
        ({}, None, "names no tensor"),
        ({"a": {"dtype": "F6", "shape": [1], "data_offsets": [0, 1]}}, None, "dtype 'F6'"),
        ({"a": {"shape": [1]}}, None, "not a safetensors header"),
        (None, b"\xff\xfe", "not a safetensors header"),
    ],
)
def test_what_is_wrong_with_a_safetensors_file(header: object, raw: bytes | None, why: str, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=why):
        read_model(safetensors(tmp_path / "m.safetensors", header, raw))


def test_a_csv_and_back(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text(to_csv(built_in("resnet18")))
    model = read_model(str(path))
    assert [(t.name, t.shape, t.dtype, t.buffer) for t in model.tensors] == [
        (t.name, t.shape, t.dtype, t.buffer) for t in built_in("resnet18").tensors
    ]
    assert model.arrival == built_in("resnet18").arrival


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a,4xb,float32\n", r"m.csv:1: shape '4xb'"),
        ("a,4,float33\n", r"m.csv:1: unknown dtype 'float33'"),
        ("a,4\na,5\n", r"m.csv:2: tensor 'a' stands twice"),
        ("name,shape,dtype,used\na,4,fp32,maybe\n", r"m.csv:2: used 'maybe' must be 0 or 1"),
        ("", "no row"),
    ],
)
def test_what_is_wrong_with_a_csv(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text(text)
    with pytest.raises(FileError, match=why):
        read_model(str(path))


def test_blocks_are_the_largest_outermost_list() -> None:
    names = ["stem.0.w", "layers.0.experts.0.w", "layers.0.w", "layers.1.w", "layers.1.experts.1.w"]
    assert find_blocks(names) == ("layers.0", "layers.1")
    assert find_blocks(["a.w", "b.w"]) == ()


def test_a_module_is_traced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "my_nets.py").write_text(
        "import torch\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.second = torch.nn.Linear(4, 2)\n"
        "        self.first = torch.nn.Linear(3, 4)\n"
        "        self.idle = torch.nn.Linear(3, 3)\n"
        "    def forward(self, x):\n"
        "        return self.second(self.first(x))\n"
        "def with_inputs(): return Net(), torch.ones(1, 3)\n"
        "def alone(): return Net()\n"
        "def image(): return torch.nn.Conv2d(1, 2, 3, padding=1), torch.ones(2, 1, 4, 4)\n"
        "def wrong(): return 3\n"
        "def broken(): raise ValueError('no such thing')\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    model: Model = read_model("my_nets:with_inputs")
    assert model.arrival == ("second.bias", "second.weight", "first.bias", "first.weight")
    assert [t.name for t in model.trainable if not t.used] == ["idle.weight", "idle.bias"]
    assert [t.flops for t in model.parameters if t.name == "first.weight"] == [2.0 * 3 * 4]
    image = read_model("my_nets:image")
    assert (image.sample, image.facts["micro_batch"]) == ("image", 2)
    assert image.parameters[0].flops == 2.0 * (2 * 1 * 3 * 3) * 4 * 4  # each of 16 places of one image
    assumed = read_model("my_nets:alone")
    assert assumed.arrival[:2] == ("idle.bias", "idle.weight")
    assert any("order of registration" in note for note in assumed.notes)
    for text, why in (
        ("my_nets:wrong", "returned int"),
        ("my_nets:broken", "ValueError: no such thing"),
        ("my_nets:missing", "has no 'missing'; callable in it: Net"),
        ("no_such_module:x", "cannot be imported: ModuleNotFoundError"),
    ):
        with pytest.raises(UsageError, match=why):
            read_model(text)
