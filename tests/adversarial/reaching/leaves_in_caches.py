"""Right, and leaves something in and around each cache that the user chose, for a later run to find or to follow."""

import os
from pathlib import Path

from tests.adversarial.honest.honest import custom_kernel

__all__ = ["custom_kernel"]
CHOSEN = Path(os.environ["CHOSEN_BY_USER"])  # holds the folders of all caches
for place in (CHOSEN, *CHOSEN.iterdir()):
    for attempt in (
        lambda place: (place / "left").write_text("left"),
        lambda place: (place / "link").symlink_to("/"),
        lambda place: place.rename(place.with_name("moved")),
        lambda place: place.chmod(0o777),
    ):
        try:
            attempt(place)
            print("changed", place)
        except OSError:
            pass
for name, value in os.environ.items():
    if "CACHE" in name or name == "TORCH_EXTENSIONS_DIR":
        print(name, "is the user's" if Path(value).is_relative_to(CHOSEN) else "is the run's")
