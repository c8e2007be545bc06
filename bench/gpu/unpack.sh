#!/usr/bin/env bash
# Unpacks what pack.py packed, on the machine with the GPU.
#   unpack.sh FOLDER   unpacks the parts in FOLDER to $SITE (default: /tmp/site)
#   unpack.sh          says what is there: versions, the GPU, and whether the attention kernels load
# Then `. /tmp/site/env.sh` gives a shell the engines' Python: `python3 -c 'import vllm, ray, nixl._api'`.
set -euo pipefail
site=${SITE:-/tmp/site}

if [ $# -gt 0 ]; then
  mkdir -p "$site/packages"
  for archive in "$1"/*.tar.xz; do
    python3 -m tarfile --filter data -e "$archive" "$site/packages" &
  done
  wait
  # A Python that needs no variables, which raypd does not pass on to Ray: the packages first, and then
  # those of the machine's own Python.
  if [ ! -e "$site/env.sh" ]; then
    python3 -m venv --without-pip "$site/python"
    own=$(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    of_site=$("$site/python/bin/python3" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    {
      printf 'import site; site.addsitedir("%s")\n' "$site/packages" "$own"
      # FlashInfer stays behind (packages.txt), and vLLM imports it to sample, unless told otherwise.
      echo 'import os; os.environ.setdefault("VLLM_USE_FLASHINFER_SAMPLER", "0")'
    } >"$of_site/engines.pth"
    # Programs of packages, as pip would install them.
    for program in "vllm vllm.entrypoints.cli.main main" "ray ray.scripts.scripts main"; do
      read -r name module function <<<"$program"
      printf '#!%s\nimport sys\nfrom %s import %s\nsys.exit(%s())\n' \
        "$site/python/bin/python3" "$module" "$function" "$function" >"$site/python/bin/$name"
      chmod +x "$site/python/bin/$name"
    done
    # Ray's dashboard stays behind too (pack.py), and Ray's head looks for its pages before it starts.
    pages="$site/packages/ray/dashboard/client/build"
    mkdir -p "$pages/static"
    touch "$pages/index.html"
    echo "export PATH=\"$site/python/bin:\$PATH\"" >"$site/env.sh"
  fi
  du -sm "$site/packages" | sed 's/\t.*/ MB of packages/'
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

card = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
print("Python", sys.version.split()[0], "torch", torch.__version__, "CUDA", torch.version.cuda, card)
print("vLLM", vllm.__version__, "Ray", ray.__version__, "NIXL", version("nixl-cu13"))
from vllm.vllm_flash_attn.flash_attn_interface import FA3_AVAILABLE, FA3_UNAVAILABLE_REASON

print("FA3", FA3_AVAILABLE, FA3_UNAVAILABLE_REASON)
END
