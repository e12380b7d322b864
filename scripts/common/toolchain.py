"""The folder that make builds in."""

from __future__ import annotations

import os
from pathlib import Path

BUILD = Path(__file__).resolve().parents[2] / (os.environ.get("BUILD") or "build")
