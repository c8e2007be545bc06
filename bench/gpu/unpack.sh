#!/usr/bin/env bash
# Unpacks what pack.py packed, on the machine with the GPU.
#   unpack.sh FOLDER   unpacks the parts in FOLDER to $SITE (default: /tmp/site)
#   unpack.sh          says what is there: versions, the GPU, and whether the attention kernels load
# Then `. /tmp/site/env.sh` gives a shell the engines' Python: `python3 -c 'import vllm, ray, nixl._api'`.
set -euo pipefail
site=${SITE:-/tmp/site}
mkdir -p "$site"

if [ $# -gt 0 ]; then
  for archive in "$1"/*.tar.xz; do
    python3 -m tarfile --filter data -e "$archive" "$site" &
  done
  wait
  cat >"$site/env.sh" <<END
# To be sourced: the engines' packages before the machine's own.
export PYTHONPATH="$site\${PYTHONPATH:+:\$PYTHONPATH}"
export PATH="$site/commands:\$PATH"
END
  mkdir -p "$site/commands"
  # Programs of packages, as pip would install them: vLLM's and Ray's start by these names.
  for program in "vllm vllm.entrypoints.cli.main main" "ray ray.scripts.scripts main"; do
    read -r name module function <<<"$program"
    printf '#!/usr/bin/env python3\nimport sys\nfrom %s import %s\nsys.exit(%s())\n' \
      "$module" "$function" "$function" >"$site/commands/$name"
    chmod +x "$site/commands/$name"
  done
  du -sm "$site" | sed 's/\t.*/ MB in the site folder/'
  exit
fi

. "$site/env.sh"
python3 - <<'END'
import sys
from importlib.metadata import version

import torch

import nixl._api
import ray
import vllm
from vllm.vllm_flash_attn.flash_attn_interface import FA3_AVAILABLE, FA3_UNAVAILABLE_REASON

card = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
print("Python", sys.version.split()[0], "torch", torch.__version__, "CUDA", torch.version.cuda, card)
print("vLLM", vllm.__version__, "Ray", ray.__version__, "NIXL", version("nixl-cu13"))
print("FA3", FA3_AVAILABLE, FA3_UNAVAILABLE_REASON)
END
