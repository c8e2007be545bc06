"""Read by every Python of a local run at its start.

A fifth of the time that torch, transformers and vLLM take to import is the garbage collector looking
at modules that stay; ten processes import them on two cores.
"""

import gc

gc.set_threshold(50_000, 20, 20)
