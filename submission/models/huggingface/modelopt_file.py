"""hf_quant_config.json, in which ModelOpt's checkpoints say how they are quantized where config.json does not."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from transformers import PreTrainedConfig
from transformers.utils import cached_file

_FILE = "hf_quant_config.json"
_KEY = "quantization_config"
_PLACE = ("cache_dir", "force_download", "proxies", "token", "local_files_only", "revision", "subfolder")
_config_json = PreTrainedConfig._get_config_dict.__func__


def _published(source: str | os.PathLike, place: dict[str, Any]) -> dict[str, Any] | None:
    """What the file says, as config.json would; None where there is none.  Raises ValueError for another content."""
    file = cached_file(
        source,
        _FILE,
        _raise_exceptions_for_gated_repo=False,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
        **place,
    )
    if file is None:
        return None
    try:
        said = dict(json.loads(Path(file).read_text())["quantization"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{file} has no object quantization: {error}") from error
    return {"quant_method": "modelopt"} | said if said.get("quant_algo") else None


def _with_modelopts_file(
    cls: type[PreTrainedConfig], pretrained_model_name_or_path: str | os.PathLike, **options: Any
) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    place = {key: options[key] for key in _PLACE if key in options}
    found, left = _config_json(cls, pretrained_model_name_or_path, **options)
    is_silent = found is not None and not any(_KEY in one for one in (found, *found.values()) if isinstance(one, dict))
    if is_silent and not options.get("gguf_file"):
        path = Path(pretrained_model_name_or_path)
        published = _published(path.parent if path.is_file() else pretrained_model_name_or_path, place)
        if published is not None:
            found[_KEY] = published
    return found, left


def install() -> None:
    """Lets every config.json that does not speak of quantization have what the file beside it says."""
    PreTrainedConfig._get_config_dict = classmethod(_with_modelopts_file)
