"""The first process of a machine's namespaces: says that it is there, then buries the dead.

In a PID namespace orphans become children of process 1. When process 1 ends, by whatever, the kernel
kills everything else in the namespace.
"""

import os
import time

os.write(1, b"ready\n")
while True:
    try:
        os.waitpid(-1, 0)
    except ChildProcessError:
        time.sleep(0.2)
