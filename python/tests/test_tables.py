"""Tables by Arrow's interface, and documents."""

from __future__ import annotations

import dataclasses
import gc
import json
from pathlib import Path

import numpy
import pandas
import polars
import pyarrow
import pytest
from conftest import POLICY

import weftline
from weftline import _weftline


@pytest.fixture
def table(grid: Path, tmp_path: Path) -> weftline.Table:
    return weftline.campaign(grid, tmp_path / "out").table()


def test_pyarrow_reads_types_and_values(table: weftline.Table) -> None:
    read = pyarrow.table(table)
    read.validate(full=True)
    assert read.to_pydict() == table.to_pydict()
    assert read.schema.field("seed").type == pyarrow.int64()
    assert read.schema.field("throughput_bps").type == pyarrow.float64()
    assert read.schema.field("host.stack.queue_assignment").type == pyarrow.large_string()
    assert pyarrow.schema(table) == read.schema


def test_polars_and_pandas_read_the_same(table: weftline.Table) -> None:
    expected = table.to_pydict()
    assert polars.DataFrame(table).to_dict(as_series=False) == expected
    if hasattr(pandas.DataFrame, "from_arrow"):
        assert pandas.DataFrame.from_arrow(table)["seed"].tolist() == expected["seed"]
    assert pyarrow.table(table).to_pandas()["flows.0.count"].tolist() == expected["flows.0.count"]


def test_nothing_is_copied() -> None:
    departures = weftline.replay(POLICY, {"time_ns": [0, 1], "bytes": [100, 100], "class": [0, 0]})
    first, second = (pyarrow.table(departures.table) for _ in range(2))
    addresses = [read.column("end_ns").chunk(0).buffers()[1].address for read in (first, second)]
    assert addresses[0] == addresses[1]
    array = polars.DataFrame(departures.table)["end_ns"].to_numpy()
    assert array.ctypes.data == addresses[0]


def test_values_outlive_their_table() -> None:
    departures = weftline.replay(POLICY, {"time_ns": [0], "bytes": [976], "class": [0]})
    read, frame = pyarrow.table(departures.table), polars.DataFrame(departures.table)
    column = read.column("end_ns")
    del departures, read
    gc.collect()
    assert column.to_pylist() == [8000] and frame["end_ns"].to_list() == [8000]


def test_missing_values_are_missing(scenario: Path, tmp_path: Path) -> None:
    axes = [{"key": "flows.0.count", "values": [1]}]
    weftline.campaign({"scenario": str(scenario), "axes": axes}, tmp_path / "out")
    axes = [{"key": "network.loss", "values": [0.001]}, {"key": "host.stack.xps", "values": [True]}]
    table = weftline.campaign({"scenario": str(scenario), "axes": axes}, tmp_path / "out").table()
    read = pyarrow.table(table)
    read.validate(full=True)
    assert read.to_pydict() == table.to_pydict()
    assert sorted(map(str, table.column("network.loss"))) == ["0.001", "None"]
    assert sorted(map(str, table.column("host.stack.xps"))) == ["None", "True"]


def test_capsules_that_nobody_reads_are_freed(table: weftline.Table) -> None:
    for _ in range(1000):
        table.__arrow_c_stream__()
        table.__arrow_c_schema__()


def test_an_empty_table_can_be_read() -> None:
    departures = weftline.replay(POLICY, {"time_ns": [], "bytes": [], "class": []})
    assert pyarrow.table(departures.table).num_rows == 0
    assert polars.DataFrame(departures.table).shape == (0, 4)
    assert departures.order.dtype == numpy.int64


def test_documents_are_read_by_their_schema(scenario: Path, tmp_path: Path) -> None:
    text, _ = _weftline.run(scenario, {}, 1)
    document = weftline.documents.read(text)
    assert isinstance(document, weftline.Outcome) and document == weftline.documents.read(json.loads(text))
    path = tmp_path / "sim.json"
    path.write_text(text)
    assert weftline.documents.read(path) == document
    for wrong in ('{"schema": "weft-sim/2"}', "{}"):
        with pytest.raises(ValueError, match="no schema"):
            weftline.documents.read(wrong)
    broken = {**json.loads(text), "flows": [{"group": 3}]}
    with pytest.raises(ValueError, match=r"Sim\.flows\[0\]\.group"):
        weftline.documents.read(broken)


def test_every_field_of_an_outcome_is_kept(scenario: Path) -> None:
    text, _ = _weftline.run(scenario, {}, 1)

    def plain(value: object) -> object:
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items() if item is not None}
        return [plain(item) for item in value] if isinstance(value, list) else value

    assert plain(dataclasses.asdict(weftline.documents.read(text))) == plain(json.loads(text))
