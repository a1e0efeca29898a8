"""Run one attack and print what it cost: ``python -m benchmarks.attacks NAME FOLDER``."""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
from pathlib import Path

from . import Attack, __path__


def find() -> dict[str, Attack]:
    """Return all attacks by module and name."""
    found = {}
    for module in pkgutil.iter_modules(__path__):
        if module.name != "__main__":
            for attack in importlib.import_module(f"benchmarks.attacks.{module.name}").attacks():
                found[f"{module.name}: {attack.name}"] = attack
    return found


if __name__ == "__main__":
    print(json.dumps(find()[sys.argv[1]].run(Path(sys.argv[2]))))
