"""Makes the Grafana dashboards of charts/ray-pd-llm/files/dashboards/.

python scripts/dashboards            write the files
python scripts/dashboards --check    exit 1 and name the files that differ
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import kv_transfer
import serving

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "charts" / "ray-pd-llm" / "files" / "dashboards"


def outputs() -> dict[Path, str]:
    """What each file must hold: JSON with sorted keys, the same bytes on every run."""
    dashboards = (serving.DASHBOARD, kv_transfer.DASHBOARD)
    return {
        FOLDER / f"{dashboard.name}.json": json.dumps(dashboard.json(), indent=1, sort_keys=True)
        + "\n"
        for dashboard in dashboards
    }


def differing() -> list[Path]:
    """Files that are missing, differ from what the script makes, or are made by nobody."""
    wanted = outputs()
    there = {path: path.read_text() for path in FOLDER.glob("*")}
    return sorted(
        path for path in wanted.keys() | there.keys() if wanted.get(path) != there.get(path)
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing, exit 1 on a difference"
    )
    if parser.parse_args().check:
        for path in (late := differing()):
            print(f"{path.relative_to(ROOT)} is not what scripts/dashboards makes", file=sys.stderr)
        return int(bool(late))
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path, text in outputs().items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
