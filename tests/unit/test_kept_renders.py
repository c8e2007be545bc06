"""A render is kept only for the very same inputs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from raypd.render import default_chart
from raypd.render.helm import HelmFailed
from unit.kept_renders import KeptRenders


class Helm:
    """Counts how often it is run."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, command: list[str], program: Path | None) -> str:
        self.times += 1
        return f"{self.times}"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "helm"
    path.write_text("v4")
    return path


def test_the_same_is_asked_once(tmp_path: Path, program: Path) -> None:
    kept = KeptRenders(Helm())
    for name in ("a.yaml", "b.yaml"):
        values = tmp_path / name
        values.write_text("x: 1\n")
        assert kept(["template", "llm", "-f", str(values)], program) == "1"


def test_another_release_is_another_render(program: Path) -> None:
    kept = KeptRenders(Helm())
    assert [kept(["template", name], program) for name in ("a", "b", "a")] == ["1", "2", "1"]


def test_values_that_changed_are_rendered_again(tmp_path: Path, program: Path) -> None:
    kept, values = KeptRenders(Helm()), tmp_path / "values.yaml"
    answers = []
    for text in ("x: 1\n", "x: 2\n", "x: 1\n"):
        values.write_text(text)
        answers.append(kept(["template", "-f", str(values)], program))
    assert answers == ["1", "2", "1"]


@pytest.mark.parametrize("change", ["edit", "rename", "add", "remove"])
def test_a_chart_that_changed_is_rendered_again(change: str, tmp_path: Path, program: Path) -> None:
    kept, chart = KeptRenders(Helm()), tmp_path / "chart"
    shutil.copytree(default_chart(), chart)
    assert kept(["template", str(chart)], program) == "1"
    file = chart / "files" / "ports.yaml"
    if change == "edit":
        file.write_text(file.read_text() + " ")
    elif change == "rename":
        file.rename(chart / "files" / "gates.yaml")
    elif change == "add":
        (chart / "templates" / "more.yaml").touch()
    else:
        file.unlink()
    assert kept(["template", str(chart)], program) == "2"


def test_another_helm_is_asked_itself(tmp_path: Path, program: Path) -> None:
    kept = KeptRenders(Helm())
    assert kept(["template"], program) == "1"
    other = tmp_path / "helm-3"
    other.write_text("v3")
    assert kept(["template"], other) == "2"
    program.write_text("v4.1")
    assert kept(["template"], program) == "3"


def test_what_set_file_names_is_not_seen_and_so_not_kept(program: Path) -> None:
    kept = KeptRenders(Helm())
    command = ["template", "--set-file", "model.id=x.txt"]
    assert [kept(command, program) for _ in range(2)] == ["1", "2"]


def test_a_refusal_is_asked_for_again(program: Path) -> None:
    times = []

    def refuses(command: list[str], helm: Path | None) -> str:
        times.append(command)
        raise HelmFailed("no")

    kept = KeptRenders(refuses)
    for _ in range(2):
        with pytest.raises(HelmFailed):
            kept(["template"], program)
    assert len(times) == 2
