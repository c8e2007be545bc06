#!/usr/bin/env python3
"""Sets up raypd's tool environment when it is not there yet, then becomes the command given.

    python3 scripts/bootstrap.py COMMAND [ARGUMENT...]

COMMAND is a program of that environment (raypd, pytest, python ...). The environment lies in the
cache folder ($RAYPD_CACHE, else $XDG_CACHE_HOME/raypd, else ~/.cache/raypd), one for each lock file,
checkout and Python; the system's Python is never written to. Needs Python >= 3.11 and its standard
library only: pip, venv's ensurepip and uv may all be missing, as on a fresh Debian or Ubuntu.
"""

import configparser
import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

MINIMUM_PYTHON = (3, 11)
CHECKOUT = Path(__file__).resolve().parent.parent
LOCK = CHECKOUT / "locks" / "tools.txt"


def main(command):
    if sys.version_info < MINIMUM_PYTHON:
        become_newer_python()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that a running child is ended too
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    environment = tool_environment(cache)
    program = environment / "bin" / command[0]
    if not program.exists():
        sys.exit(f"bootstrap: {command[0]} is no program of the tool environment {environment}.")
    os.environ["PATH"] = f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"
    os.execv(program, [str(program), *command[1:]])


def become_newer_python():
    wanted = ".".join(map(str, MINIMUM_PYTHON))
    for minor in range(20, MINIMUM_PYTHON[1] - 1, -1):
        found = shutil.which("python3.%d" % minor)
        if found:
            os.execv(found, [found] + sys.argv)
    sys.exit(
        "bootstrap: Python %s or newer is needed; %s is %s, and there is no python3.11 or later on PATH."
        % (wanted, sys.executable, sys.version.split()[0])
    )


def cache_folder():
    """The same rule as raypd.toolchain.cache_dir, which cannot be imported before it is installed."""
    if os.environ.get("RAYPD_CACHE"):
        return Path(os.environ["RAYPD_CACHE"]).resolve()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "raypd"


def tool_environment(cache):
    """The virtual environment with all of locks/tools.txt and this checkout, made if missing."""
    key = hashlib.sha256()
    for part in (LOCK, CHECKOUT / "pyproject.toml", Path(__file__)):
        key.update(part.read_bytes())
    key.update(f"{CHECKOUT} {sys.version_info[:2]}".encode())
    environment = cache / f"tools-{key.hexdigest()[:16]}"
    complete = environment / ".complete"  # written last: a half-made environment is made anew
    if complete.exists():
        return environment
    with locked(cache / "tools.lock"):
        if complete.exists():
            return environment
        say(f"Setting up the tool environment in {environment} (once)")
        uv = find_uv(cache)
        index = pip_index_url()
        if index and not any(os.environ.get(n) for n in ("UV_DEFAULT_INDEX", "UV_INDEX_URL")):
            os.environ["UV_DEFAULT_INDEX"] = index  # uv does not read pip's settings
        python = str(environment / "bin" / "python")
        run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, environment])
        sync = [uv, "pip", "sync", "--quiet", "--python", python, "--require-hashes", LOCK]
        # Compiled now: where PYTHONDONTWRITEBYTECODE is set, as in many containers, every start of
        # a tool would compile all that it imports.
        run([*sync, "--compile-bytecode"])
        run([uv, "pip", "install", "--quiet", "--python", python, "--no-deps", "-e", CHECKOUT])
        complete.touch()
    return environment


def find_uv(cache):
    """uv in the version of the lock or newer from PATH, else that version, installed by pip."""
    wanted = re.search(r"^uv==([\d.]+)", LOCK.read_text(), re.MULTILINE).group(1)
    on_path = shutil.which("uv")
    if on_path:
        answer = subprocess.run([on_path, "--version"], capture_output=True, text=True)
        found = re.match(r"uv ([\d.]+)", answer.stdout)
        if found and numbers(found.group(1)) >= numbers(wanted):
            return on_path
    folder = cache / f"uv-{wanted}"
    uv = folder / "bin" / "uv"
    if not uv.exists():
        say(f"Fetching uv {wanted}")
        half = cache / f"uv-{wanted}.part"
        shutil.rmtree(half, ignore_errors=True)
        pip = find_pip(cache)
        run([*pip, "install", "--quiet", "--no-deps", "--target", half, f"uv=={wanted}"])
        half.rename(folder)
    return str(uv)


def find_pip(cache):
    """A pip to fetch uv with: the one of this Python, else the one that ensurepip carries, else the
    one that Debian packs as a wheel. The last is only unpacked, so it needs no root."""
    own = [sys.executable, "-m", "pip"]
    if subprocess.run([*own, "--version"], capture_output=True).returncode == 0:
        return own
    environment = cache / "pip"
    made = subprocess.run(
        [sys.executable, "-m", "venv", "--clear", environment], capture_output=True
    )
    if made.returncode == 0:
        return [str(environment / "bin" / "python"), "-m", "pip"]
    shutil.rmtree(environment, ignore_errors=True)
    if not shutil.which("apt-get"):
        sys.exit(
            "bootstrap: neither uv nor pip nor venv's ensurepip is there, and no apt-get to get pip"
            " with. Install one of them: uv, or the packages python3-pip or python3-venv."
        )
    say("Fetching pip from the system's package archive (not installed, only unpacked)")
    environment.mkdir()
    apt = ["apt-get", "-qq"]
    download = [*apt, "download", "python3-pip-whl"]
    if subprocess.run(download, cwd=environment, capture_output=True).returncode != 0:
        # No package lists yet, or none that this user may refresh: keep lists of our own.
        state = environment / "apt"
        (state / "lists" / "partial").mkdir(parents=True)
        (state / "cache" / "archives" / "partial").mkdir(parents=True)
        own_lists = [
            "-o",
            f"Dir::State::Lists={state / 'lists'}",
            "-o",
            f"Dir::Cache={state / 'cache'}",
        ]
        run([*apt, *own_lists, "update"])
        run([apt[0], "-qq", *own_lists, "download", "python3-pip-whl"], cwd=environment)
    run(["dpkg-deb", "--extract", next(environment.glob("*.deb")), environment / "unpacked"])
    wheel = next(environment.glob("unpacked/usr/share/python-wheels/pip-*.whl"))
    return [sys.executable, str(wheel / "pip")]


def pip_index_url():
    """The package index that pip is set to use (environment, then user's, then system's file)."""
    if os.environ.get("PIP_INDEX_URL"):
        return os.environ["PIP_INDEX_URL"]
    config = configparser.ConfigParser(interpolation=None, strict=False)
    home = Path.home()
    files = ["/etc/pip.conf", home / ".pip" / "pip.conf", home / ".config" / "pip" / "pip.conf"]
    if os.environ.get("PIP_CONFIG_FILE"):
        files.append(os.environ["PIP_CONFIG_FILE"])
    with contextlib.suppress(configparser.Error):
        config.read(files)  # later files win
    return config.get("global", "index-url", fallback=None)


def numbers(version):
    return tuple(map(int, version.split(".")))


def run(command, cwd=None):
    try:
        subprocess.run(list(map(str, command)), check=True, cwd=cwd, stdout=sys.stderr)
    except subprocess.CalledProcessError as failed:
        sys.exit(
            f"bootstrap: `{' '.join(failed.cmd)}` failed with exit code {failed.returncode};"
            " its own message is above. Nothing half-made is used: run the command again."
        )


@contextlib.contextmanager
def locked(path):
    """Two runs at once do not build the same environment twice; the lock ends with the process."""
    with open(path, "w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def say(text):
    print(f"bootstrap: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
