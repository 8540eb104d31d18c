"""The policy compiler."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from conftest import POLICY, ROOT

import weftline


def test_a_policy_has_classes_lanes_and_a_program() -> None:
    policy = weftline.compile(POLICY)
    assert policy.name == "policy" and policy.text == POLICY and policy.link_bps == 10**9
    assert set(policy.classes) == {"web", "default"}
    web = next(lane for lane in policy.lanes if lane.class_name == "web")
    assert web.leaf == "web" and web.limits == () and web.packets_max > 0
    assert "strict priority" in policy.program
    assert pickle.loads(pickle.dumps(policy.lanes)) == policy.lanes


def test_limits_are_lanes() -> None:
    policy = weftline.compile(ROOT / "policies" / "figure1.weft")
    assert any(lane.limits for lane in policy.lanes)
    assert len({lane.number for lane in policy.lanes}) == len(policy.lanes)
    assert policy.to_svg().startswith("<svg") and policy._repr_svg_() == policy.to_svg()


@pytest.mark.parametrize("path", sorted((ROOT / "policies").glob("*.weft")), ids=lambda path: path.name)
def test_ready_policies_compile(path: Path) -> None:
    assert weftline.compile(path, link="10gbps").link_bps == 10**10


def test_all_errors_are_told_at_once() -> None:
    with pytest.raises(weftline.Error) as caught:
        weftline.compile("link 1gbps\nclass web = tpc port 80\nroot = priorty { web, default }\n")
    error = caught.value
    assert (error.file, error.line) == ("policy", 2)
    errors = [found for found in error.diagnostics if found.severity == "error"]
    assert [found.line for found in errors] == [2, 3] and all(found.code.startswith("E") for found in errors)
    assert "(and 1 more)" in str(error) and str(error).startswith("policy:2:")


def test_warnings_do_not_refuse() -> None:
    policy = weftline.compile("class a = tcp port 80\nclass b = tcp port 80\nroot = priority { a, b, default }\n")
    assert [(found.code, found.line) for found in policy.warnings] == [("W0003", 2)]
    assert str(policy.warnings[0]).startswith("policy:2:") and policy.warnings[0].help


def test_a_link_replaces_the_policys() -> None:
    assert weftline.compile(POLICY, link="25gbps").link_bps == 25 * 10**9
    assert weftline.compile(POLICY, link=1000).link_bps == 1000
    for wrong in ("fast", 0, -1, 2.5):
        with pytest.raises(weftline.Error, match="no rate"):
            weftline.compile(POLICY, link=wrong)  # type: ignore[arg-type]


def test_files_that_are_no_policies(tmp_path: Path) -> None:
    path = tmp_path / "utf16.weft"
    path.write_bytes("link 1gbps\n".encode("utf-16"))
    with pytest.raises(weftline.Error, match="UTF-16"):
        weftline.compile(path)
    with pytest.raises(weftline.Error, match="not a file"):
        weftline.compile(tmp_path)
    with pytest.raises(weftline.Error, match="not a file"):
        weftline.compile("/dev/zero")


def test_tenants_files_are_beside_the_policy(tmp_path: Path) -> None:
    (tmp_path / "tenant.weft").write_text("class kvs = tcp port 11211\nroot = priority { kvs, default }\n")
    policy = tmp_path / "op.weft"
    policy.write_text('vm1 = tenant "tenant.weft" of cgroup "/vm1"\nroot = wfq { vm1: 1, default: 1 }\n')
    assert "vm1.kvs" in weftline.compile(policy).classes
