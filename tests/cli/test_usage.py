"""Wrong usage: exit code 2, one line of text, and one JSON object with --json."""

import json
import re

import pytest
import typer
from typer.testing import CliRunner

from lrrspm.cli import app


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


def refused(*arguments):
    """Return the reason why arguments are refused, the same as text and as JSON."""
    plain = run(*arguments, code=2)
    assert plain.stdout == ""
    first, second = plain.stderr.splitlines()
    assert first.startswith("error: ")
    assert second.startswith("see: ")
    assert second.endswith(" --help")
    done = run(*arguments, "--json", code=2)
    assert done.stderr.splitlines()[0] == first
    assert done.stdout.count("\n") == 1
    found = json.loads(done.stdout)
    assert list(found) == ["error"]
    assert first == f"error: {found['error']}"
    return found["error"]


TRAIN = ["train", "x", "-o", "y"]
EVALUATE = ["evaluate", "x"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["train"], "DIR"),
        (["train", "x"], "--output"),
        ([*TRAIN, "--lambda", "-1"], "--lambda"),
        ([*TRAIN, "--lambda", "much"], "--lambda"),
        ([*TRAIN, "--threshold", "-0.1"], "--threshold"),
        ([*TRAIN, "--levels", "one"], "--levels"),
        ([*TRAIN, "--levels", ""], "--levels"),
        ([*TRAIN, "--step", "0"], "--step"),
        ([*TRAIN, "--patch-size", "3"], "--patch-size"),
        ([*TRAIN, "--codebook-size", "0"], "--codebook-size"),
        ([*TRAIN, "--on-error", "sometimes"], "--on-error"),
        ([*TRAIN, "--method", "magic"], "--method"),
        ([*TRAIN, "--method", "all"], "--method"),
        ([*TRAIN, "--jobs", "0"], "--jobs"),
        ([*TRAIN, "--engine", "dask://"], "--engine"),
        ([*TRAIN, "--engine", "tls:///"], "--engine"),
        ([*TRAIN, "--device", "tpu"], "--device"),
        ([*TRAIN, "--C", "0"], "--C"),
        ([*TRAIN, "--C", "nan"], "--C"),
        ([*TRAIN, "--lamda", "1"], "--lamda"),
        ([*EVALUATE, "--splits", "0"], "--splits"),
        ([*EVALUATE, "--train-per-class", "0"], "--train-per-class': must be"),
        ([*EVALUATE, "--seed", "-1"], "--seed"),
        (["predict", "m", "x", "--top", "0"], "--top"),
        (["nonsense"], "nonsense"),
    ],
)
def test_wrong_usage_names_the_argument(arguments, named):
    assert named in refused(*arguments)


def test_one_format_is_printed():
    done = run("predict", "m", "x", "--csv", "--json", code=2)
    assert "--csv: print CSV or JSON, not both" in json.loads(done.stdout)["error"]


def test_a_negative_lambda_is_out_of_range():
    """It is not taken for an option; versions of typer say it in their own words."""
    reason = refused(*TRAIN, "--lambda", "-1")
    assert re.search("must be at least 0|-1.0 is not in the range x>=0", reason)


IGNORED = {
    "LLC": ["--lambda", "--threshold", "--normalize-codes"],
    "ScSPM": ["--lambda", "--threshold", "--normalize-codes"],
    "LinearSPM": ["--lambda", "--threshold", "--normalize-codes"],
    "KernelSPM": ["--lambda", "--threshold", "--normalize-codes"],
    "LinearBOF": ["--lambda", "--threshold", "--normalize-codes", "--levels"],
    "KernelBOF": ["--lambda", "--threshold", "--normalize-codes", "--levels"],
}
VALUES: dict[str, list[str | None]] = {
    "--lambda": ["0.7", "0.2", "0"],  # the default, another value, and one that is false
    "--threshold": ["0.98", "0.5", "0"],
    "--levels": ["1,2,4", "1", "2"],
    "--normalize-codes": [None],
}


@pytest.mark.parametrize(
    ("method", "given"),
    [
        (method, [flag] if value is None else [flag, value])
        for method, flags in IGNORED.items()
        for flag in flags
        for value in VALUES[flag]
    ],
)
@pytest.mark.parametrize("command", [TRAIN, EVALUATE], ids=["train", "evaluate"])
def test_an_option_that_a_method_ignores_is_refused(command, method, given):
    """Before the folder is looked at: x does not exist."""
    reason = refused(*command, "--method", method, *given)
    assert given[0] in reason
    assert method in reason


def test_options_that_only_some_methods_have_are_accepted_with_all(image_folder):
    arguments = [
        "evaluate", image_folder, "--method", "all", "--train-per-class", 4, "--splits", 1,
        "--codebook-size", 8, "--jobs", 1, "--json", "--lambda", "0.2", "--threshold", "0",
        "--normalize-codes", "--levels", "1,2",
    ]  # fmt: skip
    found = json.loads(run(*arguments).stdout)["methods"]
    channels = {name: result["parameters"]["channels"][0] for name, result in found.items()}
    assert len(channels) == 7
    encoder = channels["LrrSPM"]["encoder"]
    assert (encoder["regularization"], encoder["threshold"]) == (0.2, 0)
    assert encoder["normalize_codes"] is True
    assert all("threshold" not in channels[name]["encoder"] for name in IGNORED)
    assert {channel["encoder"]["codebook_size"] for channel in channels.values()} == {8}
    for name, channel in channels.items():
        assert channel["levels"] == ([1] if name.endswith("BOF") else [1, 2])


@pytest.mark.parametrize("command", [TRAIN, EVALUATE], ids=["train", "evaluate"])
def test_an_unknown_method(command):
    """The message lists those that there are, also those of other packages."""
    done = run(*command, "--method", "Evil", "--json", code=2)
    assert "LrrSPM" in json.loads(done.stdout)["error"]


def test_a_codebook_that_learns_from_labels_is_not_shared():
    options = ["--shared-codebook", "--method", "SupervisedLrrSPM"]
    assert "--shared-codebook" in refused(*EVALUATE, *options)


@pytest.mark.parametrize("columns", [60, 80])
def test_help_shows_the_names_of_all_options(columns, monkeypatch, capsys):
    """Nothing is cut, and nothing is wider than the terminal; the runner has its own width."""
    monkeypatch.setenv("COLUMNS", str(columns))

    def walk(command, *names):
        with pytest.raises(SystemExit, match="0"):
            app([*names, "--help"])
        text = capsys.readouterr().out
        assert max(map(len, text.splitlines())) <= columns
        assert "\N{HORIZONTAL ELLIPSIS}" not in text
        assert "\\" not in text
        assert not re.search(r"<(Any|bool|float|int|list|path|str)|[{}]", text)
        flags = {flag for option in command.params for flag in option.opts + option.secondary_opts}
        assert not {flag for flag in flags if flag.startswith("-") and flag not in text}
        for name, inner in getattr(command, "commands", {}).items():
            walk(inner, *names, name)

    walk(typer.main.get_command(app))


def test_all_is_a_method_of_evaluate_alone():
    run(*TRAIN, "--method", "all", code=2)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--levels", "0"], "levels must be positive"),
        (["--levels", "7,8,9"], "least common multiple"),
        (["--method", "LrrSPM", "--patch-size", "10"], "multiple of 4"),
        (["--method", "fast", "--patch-size", "15"], "patch_size must be"),
    ],
)
def test_values_that_no_method_takes(options, said):
    assert said in " ".join(run(*TRAIN, *options, code=2).stderr.split())


def test_without_arguments_the_help_is_printed():
    done = run(code=2)
    assert "error" not in done.stderr


def test_a_file_that_is_no_model_is_not_overwritten(image_folder, tmp_path):
    image = (image_folder / "dots" / "00.png").read_bytes()
    for name in ("photo.jpg", "photo"):
        (tmp_path / name).write_bytes(image)
        run("train", image_folder, "-o", tmp_path / name, code=2)
        assert (tmp_path / name).read_bytes() == image


@pytest.mark.parametrize("name", ["new.jpg", "new.HEIC", "predictions.csv", "report.html"])
def test_a_model_is_not_named_like_another_file(name, image_folder, tmp_path):
    for command in (("train", image_folder), ("tune", image_folder)):
        done = run(*command, "-o", tmp_path / name, code=2)
        assert "--output" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "arguments",
    [
        (*EVALUATE, "--C", "ten"),
        (*EVALUATE, "--splits", "0"),
        (*EVALUATE, "--splits", "x"),
        (*TRAIN, "--on-error", "skp"),
        ("predict", "x", "y", "--min-confidence", "abc"),
    ],
)
def test_bad_values_are_named_in_plain_words(arguments):
    message = refused(*arguments)
    assert arguments[-2] in message
    assert "Input should" not in message
    assert "Value error" not in message
