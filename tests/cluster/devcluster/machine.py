"""A machine in the machine: network, PID and mount namespaces, and the daemons in them.

A machine is held by one process on the host, `unshare`; when this dies, by whatever, the kernel ends
every process of the machine and of the machines inside it, and with them go mounts, network
interfaces and iptables rules.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from raypd.report import UsageError

REAPER = Path(__file__).with_name("reaper.py")


@dataclass(frozen=True)
class Machine:
    """`pid` is process 1 of its namespaces as the host sees it; `folder` has logs and pid files."""

    name: str
    pid: int
    folder: Path

    @property
    def holder(self) -> psutil.Process:
        """The process whose end is the machine's."""
        holder = psutil.Process(self.pid).parent()
        assert holder is not None
        return holder

    @property
    def _enter(self) -> list[str]:
        return ["nsenter", f"--target={self.pid}", "--net", "--pid", "--mount", "--"]

    def run(self, *command: str | Path, stdin: str = "") -> str:
        """Runs a command inside to its end and returns what it printed."""
        return execute([*self._enter, *map(str, command)], stdin=stdin)

    def start(self, daemon: str, *command: str | Path) -> None:
        """Starts a daemon, which logs to logs/DAEMON.log; its pid is kept for `stop`, its command for
        `start_again`."""
        words = [str(word) for word in command]
        log, pid_file = self.log(daemon), self._pid_file(daemon)
        log.parent.mkdir(parents=True, exist_ok=True)
        pid_file.parent.mkdir(parents=True, exist_ok=True)
        pid_file.unlink(missing_ok=True)
        self._command_file(daemon).write_text(json.dumps(words))
        # setsid forks, so that process 1 becomes the daemon's parent and nothing stays on the host.
        shell = ["setsid", "--fork", "sh", "-c", 'echo $$ >"$0"; exec "$@"', str(pid_file)]
        with log.open("ab") as output:
            subprocess.run(
                [*self._enter, *shell, *words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                check=True,
            )
        while not self._daemon_pid(daemon):
            time.sleep(0.01)

    def start_again(self, daemon: str) -> None:
        """Starts a daemon that was stopped as it was started before."""
        self.start(daemon, *json.loads(self._command_file(daemon).read_text()))

    def stop(self, daemon: str, signal: str = "TERM", patience: float = 30) -> None:
        """Ends one daemon and waits until it is gone; killed when it takes longer than `patience`."""
        deadline = time.monotonic() + patience
        while self.alive(daemon):
            late = time.monotonic() > deadline
            with suppress(RuntimeError):  # it may end in between
                self.run("kill", f"-{'KILL' if late else signal}", self._daemon_pid(daemon))
            time.sleep(0.1)

    def alive(self, daemon: str) -> bool:
        if not (pid := self._daemon_pid(daemon)):
            return False
        try:
            state = self.run("cat", f"/proc/{pid}/stat").rsplit(")", 1)[1].split()[0]
        except RuntimeError:
            return False
        return state != "Z"

    def daemons(self) -> list[str]:
        """Every daemon that was started, alive or not."""
        return sorted(file.stem for file in (self.folder / "pids").glob("*.pid"))

    def log(self, daemon: str) -> Path:
        return self.folder / "logs" / f"{daemon}.log"

    def demand(self, daemon: str) -> None:
        """Raises with the end of its log when the daemon has died."""
        if not self.alive(daemon):
            end = self.log(daemon).read_text(errors="replace")[-3000:]
            raise UsageError(f"{daemon} on {self.name} ended; {self.log(daemon)}:\n{end}")

    def _pid_file(self, daemon: str) -> Path:
        return self.folder / "pids" / f"{daemon}.pid"

    def _command_file(self, daemon: str) -> Path:
        return self._pid_file(daemon).with_suffix(".json")

    def _daemon_pid(self, daemon: str) -> str:
        with suppress(FileNotFoundError):
            return self._pid_file(daemon).read_text().strip()
        return ""


def create(name: str, folder: Path, inside: Machine | None = None) -> Machine:
    """A machine; `inside` another one, it ends with it."""
    folder.mkdir(parents=True, exist_ok=True)
    unshare = ["unshare", "--net", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc"]
    # setsid forks: what holds the new machine becomes a child of the outer one's first process.
    enter = [*inside._enter, "setsid", "--fork"] if inside else []
    parent = psutil.Process(inside.pid if inside else None)
    before = set(parent.children())
    log = folder / "machine.log"
    with log.open("wb") as errors:
        command = subprocess.Popen(
            [*enter, *unshare, sys.executable, "-I", "-S", str(REAPER)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
    assert command.stdout is not None
    with command.stdout as answer:
        ready = answer.readline() == b"ready\n"
    if not ready:
        command.kill()
        command.wait()
        raise UsageError(
            "this machine lets no namespaces be made (root with CAP_SYS_ADMIN is needed):\n"
            + log.read_text()
        )
    if inside:
        command.wait()
        (holder,) = set(parent.children()) - before
    else:
        holder = psutil.Process(command.pid)
    (first,) = holder.children()
    machine = Machine(name, first.pid, folder)
    machine.run("ip", "link", "set", "lo", "up")
    return machine


def execute(command: list[str], stdin: str = "") -> str:
    """Runs a short system command on this machine; raises RuntimeError with its own words."""
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise RuntimeError(f"`{' '.join(command)}` failed:\n{stdin}{done.stderr or done.stdout}")
    return done.stdout
