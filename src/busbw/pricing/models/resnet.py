"""resnet: residual networks for 224 x 224 images and 1000 classes, in torchvision's names."""

from busbw.core.plan import Model
from busbw.pricing.family import Config, Draft, Family


def _build(name: str, config: Config) -> Model:
    expansion = 4 if config["bottleneck"] else 1
    draft = Draft()
    blocks = []

    def convolution(path: str, norm: str, out: int, inside: int, size: int, side: int) -> None:
        draft.convolution(path, out, inside, size, side * side)
        draft.norm(norm, out)
        draft.buffer(f"{norm}.running_mean", (out,))
        draft.buffer(f"{norm}.running_var", (out,))
        draft.buffer(f"{norm}.num_batches_tracked", (), "int64")

    convolution("conv1", "bn1", 64, 3, 7, 112)
    inside, side = 64, 56
    for stage, depth in enumerate(config["depths"], start=1):
        width = 64 * 2 ** (stage - 1)
        for index in range(depth):
            block, out = f"layer{stage}.{index}", width * expansion
            blocks.append(block)
            halves = stage > 1 and index == 0
            before, side = side, side // 2 if halves else side
            if config["bottleneck"]:
                convolution(f"{block}.conv1", f"{block}.bn1", width, inside, 1, before)
                convolution(f"{block}.conv2", f"{block}.bn2", width, width, 3, side)
                convolution(f"{block}.conv3", f"{block}.bn3", out, width, 1, side)
            else:
                convolution(f"{block}.conv1", f"{block}.bn1", width, inside, 3, side)
                convolution(f"{block}.conv2", f"{block}.bn2", out, width, 3, side)
            if halves or inside != out:
                convolution(f"{block}.downsample.0", f"{block}.downsample.1", out, inside, 1, side)
            inside = out
    draft.linear("fc", 1000, inside)
    return draft.model(name, tuple(blocks), None, sample="image")


FAMILY = Family(
    name="resnet",
    members={
        "resnet18": {"bottleneck": False, "depths": (2, 2, 2, 2)},
        "resnet34": {"bottleneck": False, "depths": (3, 4, 6, 3)},
        "resnet50": {"bottleneck": True, "depths": (3, 4, 6, 3)},
        "resnet101": {"bottleneck": True, "depths": (3, 4, 23, 3)},
        "resnet152": {"bottleneck": True, "depths": (3, 8, 36, 3)},
    },
    build=_build,
    aliases={"resnet-18": "resnet18", "resnet-50": "resnet50"},
)
