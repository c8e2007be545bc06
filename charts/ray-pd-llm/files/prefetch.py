"""Downloads a model's files into the Hugging Face cache (HF_HOME) and says what it did.

Usage: prefetch.py REPOSITORY [REVISION]. A download that was cut off goes on where it stopped.
"""

import sys
import time
from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

repository, revision = [*sys.argv[1:], ""][:2]
started = time.monotonic()
try:
    folder = Path(snapshot_download(repository, revision=revision or None))
except GatedRepoError:
    sys.exit(
        f"{repository} is gated: accept its licence on Hugging Face and set "
        "huggingface.existingSecret.name to a Secret whose token may read it"
    )
except RevisionNotFoundError:
    sys.exit(f"{repository} has no revision {revision!r}: correct model.revision")
except RepositoryNotFoundError:
    sys.exit(
        f"{repository} does not exist, or the token may not see it: correct model.source or "
        "huggingface.existingSecret"
    )
size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
print(f"{repository} {size / 1e9:.2f} GB in {folder} after {time.monotonic() - started:.0f} s")
