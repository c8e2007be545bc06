"""A chart and values files as they were at a revision of Git."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from raypd.render import ValueArguments
from raypd.report import UsageError
from raypd.upgrade.revision import at


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    done = subprocess.run(
        ["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with a chart and a values file that were other ones in its first commit, `old`."""
    root = tmp_path_factory.mktemp("committed")
    (root / "charts" / "c").mkdir(parents=True)
    git(root, "init", "-q")
    for text in ("old", "new"):
        (root / "charts" / "c" / "Chart.yaml").write_text(f"name: {text}")
        (root / "values.yaml").write_text(f"a: {text}")
        git(root, "add", ".")
        git(root, "commit", "-q", "-m", text)
        git(root, "tag", text)
    return root


@pytest.fixture
def checkout(committed: Path, tmp_path: Path) -> Path:
    """A copy of it, with a values file that was edited since and one that was never committed."""
    root = shutil.copytree(committed, tmp_path / "checkout")
    (root / "values.yaml").write_text("a: working copy")
    (root / "late.yaml").write_text("b: 1")
    return root


def test_both_are_those_of_the_revision(checkout: Path) -> None:
    arguments = ValueArguments(values=[checkout / "values.yaml"], set_=["x=y"])
    with at("old", checkout / "charts" / "c", arguments) as then:
        assert (then.chart / "Chart.yaml").read_text() == "name: old"
        (file,) = then.arguments.values
        assert file.read_text() == "a: old"
        assert (then.arguments.set_, then.as_now) == ([], [])
    assert not file.exists()


def test_a_commit_is_named_as_git_takes_it(checkout: Path) -> None:
    with at("HEAD~1", checkout / "charts" / "c", ValueArguments()) as then:
        assert (then.chart / "Chart.yaml").read_text() == "name: old"


@pytest.mark.parametrize("revision", ["no-such", "--help", "", "old:values.yaml"])
def test_a_revision_that_is_unknown(checkout: Path, revision: str) -> None:
    with (
        pytest.raises(UsageError, match="no such revision"),
        at(revision, checkout / "charts" / "c", ValueArguments()),
    ):
        pass


def test_a_file_or_chart_that_was_not_there_then(checkout: Path) -> None:
    with (
        pytest.raises(UsageError, match=r"late\.yaml did not exist"),
        at("old", checkout / "charts" / "c", ValueArguments(values=[checkout / "late.yaml"])),
    ):
        pass
    (checkout / "charts" / "d").mkdir()
    with (
        pytest.raises(UsageError, match=r"no charts/d"),
        at("old", checkout / "charts" / "d", ValueArguments()),
    ):
        pass


def test_what_is_in_no_checkout_is_taken_as_it_is(checkout: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("c: 1")
    arguments = ValueArguments(values=[own, checkout / "values.yaml"])
    with at("old", checkout / "charts" / "c", arguments) as then:
        assert then.arguments.values[0] == own
        assert then.as_now == [f"the values file {own}"]
    package = tmp_path / "c.tgz"
    package.write_text("")
    with at("old", package, ValueArguments(values=[checkout / "values.yaml"])) as then:
        assert (then.chart, then.as_now) == (package, [f"the chart {package}"])


def test_a_package_that_git_does_not_know_is_the_same_then(checkout: Path) -> None:
    package = checkout / "c.tgz"
    package.write_text("now")
    arguments = ValueArguments(values=[checkout / "values.yaml"])
    with at("old", package, arguments) as then:
        assert then.as_now == [f"the chart {package}"]


def test_nothing_in_a_checkout(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match="in a Git checkout"),
        at("HEAD", tmp_path, ValueArguments()),
    ):
        pass


def test_without_git(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with (
        pytest.raises(UsageError, match="no git on the PATH"),
        at("old", checkout / "charts" / "c", ValueArguments()),
    ):
        pass
