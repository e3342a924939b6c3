"""`torch.hub`: reads downloaded weights; never downloads."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlparse

from gradscope.runtime.core.errors import missing


class _Folder:
    """The folder of downloads that the program has set."""

    chosen: str | None = None


def get_dir() -> str:
    if _Folder.chosen is not None:
        return _Folder.chosen
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    home = os.environ.get("TORCH_HOME", str(Path(cache) / "torch"))
    return str(Path(home, "hub").expanduser())


def set_dir(d: Any) -> None:
    _Folder.chosen = str(Path(d).expanduser())


def load_state_dict_from_url(
    url: str,
    model_dir: Any = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> Any:
    """The weights in the file that PyTorch would have downloaded, if it exists."""
    from gradscope.runtime.serialization import load

    folder = Path(model_dir or Path(get_dir()) / "checkpoints")
    path = folder / (file_name or Path(urlparse(url).path).name)
    if not path.exists():
        raise RuntimeError(
            f"gradscope's runtime downloads nothing, and {path} does not exist: download {url} "
            "to this path"
        )
    return load(path, map_location=map_location, weights_only=weights_only)


def load(repo_or_dir: Any, model: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise RuntimeError(
        f"gradscope's runtime downloads no programs: it cannot load {model!r} from "
        f"{repo_or_dir!r}. Define the model in your own code, and load its weights with "
        "torch.load"
    )


def download_url_to_file(url: str, dst: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise RuntimeError(f"gradscope's runtime downloads nothing: download {url} to {dst}")


def __getattr__(name: str) -> Any:
    raise missing.no_module_attribute("torch.hub", name, list(globals()))
