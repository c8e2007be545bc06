#!/usr/bin/env bash
# The KV measurements of one card, at most 400 seconds; after unpack.sh, from the checkout's root.
#   bench/gpu/kv.sh OUT   leaves kv.jsonl (a row a line), kv.json, kv.html and pictures in OUT
set -uo pipefail
out=$1
here=$(cd "$(dirname "$0")/../.." && pwd)
. "${SITE:-/tmp/site}/env.sh"
export PYTHONPATH="$here/scripts" PYTHONUNBUFFERED=1
mkdir -p "$out"

nvidia-smi --query-gpu=name,driver_version,memory.total,pcie.link.gen.current --format=csv
nvidia-smi topo -m
timeout --kill-after=10 390 python3 -m raypd bench kv --python "$(command -v python3)" \
  --case-seconds 15 --time-limit 360 --json "$out/kv.json" --html "$out/kv.html" --png "$out"
status=$?

# Rows that were written before an early end count too.
python3 - "$out" <<'END'
import json
import sys
from pathlib import Path

out = Path(sys.argv[1])
if (out / "kv.json").exists():
    results = json.loads((out / "kv.json").read_text())
    common = {key: results[key] for key in ("date", "versions", "hardware")}
    lines = [json.dumps({**common, **row}) + "\n" for row in results["rows"]]
    (out / "kv.jsonl").write_text("".join(lines))
    print("\n".join(f"{r['memory']:5} {r['fabric']:9} {r['layout']:>16} "
                    f"{r['gb_per_s'] or 0:9.3f} of {r['yardstick_gb_per_s'] or 0:9.3f} GB/s  "
                    f"{r['path']}  {r['error'] or ''}" for r in results["rows"]))
END
exit $status
