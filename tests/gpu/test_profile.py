"""What ``ncu`` writes is read by case and kernel."""

import pytest

from benchmarks.gpu_profile import METRICS, counted, group_of, limit_of

ASKED = {what: names[0] for what, names in METRICS.items()}


def table(*rows):
    """CSV of ``ncu``, between its own lines; rows are names and counters."""
    heads = ["ID", "Kernel Name", *ASKED.values()]
    units = ["", "", "ns", "byte", *["%"] * (len(ASKED) - 2)]
    numbered = [[str(i), *row] for i, row in enumerate(rows)]
    lines = [",".join(f'"{cell}"' for cell in row) for row in (heads, units, *numbered)]
    return "\n".join(["==PROF== Connected to process 12", *lines, "==PROF== Disconnected"])


SLEEP = ("at::cuda::<unnamed>::spin_kernel(long)", "1,000", *["0"] * (len(ASKED) - 1))


def row(name, time, size, dram):
    return name, time, size, dram, "50", "40", "", "30.5", "35", "20"


def test_counters_by_case_and_kernel():
    text = table(
        SLEEP, row("_sum_rows", "1,000", "4,000,000", "90"), row("_sum_rows", "3,000", "0", "50"),
        row("void cutlass::Kernel2<(int)3, float>(T1)", "500", "0", "1"),
        SLEEP, row("_code_and_pool", "200", "100", "10"),
    )  # fmt: skip
    found = counted(text, ["balanced/RootSIFT", "codes/256 half"], ASKED, 2)
    rows = found["balanced"]["RootSIFT"]["_sum_rows"]
    assert rows["launches"] == 2
    assert rows["microseconds"] == pytest.approx(2)
    assert rows["megabytes"] == pytest.approx(2)
    assert rows["percent"]["DRAM"] == pytest.approx(60)
    assert "tensor units" not in rows["percent"]
    assert set(found["balanced"]["RootSIFT"]) == {"_sum_rows", "projection"}
    assert found["codes"]["256 half"]["_code_and_pool"]["limit"] == "latency"


@pytest.mark.parametrize("text", ["", "==ERROR== ERR_NVGPUCTRPERM", table(SLEEP, SLEEP)])
def test_other_output_is_refused(text):
    with pytest.raises(ValueError, match="ncu"):
        counted(text, ["fast/SIFT"], ASKED, 1)


def test_limits():
    assert limit_of({"DRAM": 61.0, "L2": 80.0, "L1": 70.0}) == "L2"
    assert limit_of({"DRAM": 50.0, "multiprocessors": 75.0}) == "another unit"
    assert limit_of({"DRAM": 60.0, "multiprocessors": 50.0}) == limit_of({}) == "latency"


def test_groups_of_kernels():
    assert group_of("_sum_rows") == "_sum_rows"
    assert group_of("sm80_xmma_gemm_f32f32_tn") == group_of("gemvNSP_kernel<>") == "projection"
    assert group_of("Memcpy HtoD (Pinned -> Device)") == group_of("_ZN2at6native") == "other"
