"""The catalogue: every signature keeps its own word, and a wrong file says which entry is wrong."""

from __future__ import annotations

import pytest

from wheeltapper import catalogue
from wheeltapper.catalogue.loading import parse
from wheeltapper.errors import CatalogueError
from wheeltapper.evidence import Disposition, Role, Source

CATALOGUE = catalogue.load()
PROVEN = [(signature, line) for signature in CATALOGUE.signatures for line in signature.examples]
NEAR = [(signature, line) for signature in CATALOGUE.signatures for line in signature.near_misses]


def meaning(text: str, source: Source = Source.KERNEL) -> tuple[str, str, Role, Disposition]:
    (match,) = CATALOGUE.match(text, source)
    return match.meaning.label, match.detail, match.meaning.role, match.meaning.disposition


def xid(code: int, text: str = "words") -> str:
    return f"NVRM: Xid (PCI:0000:3b:00): {code}, pid=7, name=python, {text}"


@pytest.mark.parametrize(("signature", "line"), PROVEN, ids=lambda value: getattr(value, "id", None))
def test_example_is_recognised_in_every_source_of_its_signature(signature, line):
    for source in signature.sources:
        found = {match.signature for match in CATALOGUE.match(line, source)}
        others = [each for each in CATALOGUE.signatures if signature.id in each.instead_of or signature.generic]
        silenced = any(each.match(line) for each in others if each is not signature)
        assert silenced or any(name == signature.id or name.startswith(f"{signature.id}.") for name in found)


@pytest.mark.parametrize(("signature", "line"), NEAR, ids=lambda value: getattr(value, "id", None))
def test_near_miss_is_passed_over(signature, line):
    for source in signature.sources:
        names = {match.signature for match in CATALOGUE.match(line, source)}
        rows = {f"{signature.id}.{value}" for value in signature.rows}
        assert not names & {signature.id, *rows}


def test_all_176_xids_have_a_row():
    (table,) = [signature for signature in CATALOGUE.signatures if signature.id == "nvidia.xid"]
    assert set(table.rows) == {str(code) for code in range(1, 177)}


@pytest.mark.parametrize(
    ("code", "label", "role", "disposition"),
    [
        (79, "hardware/gpu_xid", "root", "reboot"),
        (48, "hardware/ecc_uncorrectable", "root", "reset_gpu"),
        (64, "hardware/ecc_uncorrectable", "root", "reset_gpu"),
        (95, "hardware/ecc_uncorrectable", "root", "reset_gpu"),
        (140, "hardware/ecc_uncorrectable", "root", "reset_gpu"),
        (171, "hardware/ecc_uncorrectable", "root", "reset_gpu"),
        (74, "hardware/nvlink", "root", "reset_gpu"),
        (119, "hardware/gpu_xid", "root", "reset_gpu"),
        (120, "hardware/gpu_xid", "root", "reset_gpu"),
        (62, "hardware/gpu_xid", "root", "reset_gpu"),
        (46, "hardware/gpu_xid", "root", "reset_gpu"),
        (54, "hardware/power", "root", "inspect"),
        (94, "hardware/ecc_uncorrectable", "root", "restart_app"),
        (13, "software/cuda_fault", "root", "restart_app"),
        (31, "software/cuda_fault", "root", "restart_app"),
        (43, "software/cuda_fault", "root", "none"),
        (45, "software/cuda_fault", "cascade", "none"),
        (63, "hardware/ecc_remap", "confirm", "none"),
        (92, "hardware/gpu_xid", "benign", "none"),
        (106, "hardware/gpu_xid", "benign", "none"),
    ],
)
def test_xid_means_what_nvidias_catalogue_says(code, label, role, disposition):
    assert meaning(xid(code)) == (label, f"xid={code}", Role(role), Disposition(disposition))


def test_only_hardware_xids_convict():
    (table,) = [signature for signature in CATALOGUE.signatures if signature.id == "nvidia.xid"]
    convicting = {int(code) for code, row in table.rows.items() if row.disposition.convicts}
    assert all(table.rows[str(code)].label.startswith("hardware/") for code in convicting)
    assert not convicting & {8, 13, 31, 32, 43, 45, 63, 68, 69, 92, 94, 106, 107, 109, 121, 137, 154}


def test_an_xid_that_nobody_has_published_is_a_symptom_and_asks_for_nothing():
    assert meaning(xid(200)) == ("hardware/gpu_xid", "xid=200", Role.SYMPTOM, Disposition.NONE)


def test_nvlink5_word_decides_over_the_code():
    registers = "XC0 i0 Link 11 (0x004505c6 0x00000000)"
    fatal = meaning(f"NVRM: Xid (PCI:0009:01:00): 149, NETIR_LINK_EVT Fatal {registers}")
    mild = meaning(f"NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT Nonfatal {registers}")
    assert (fatal[2], fatal[3]) == (Role.ROOT, Disposition.RESET_GPU)
    assert (mild[2], mild[3]) == (Role.SYMPTOM, Disposition.NONE)


@pytest.mark.parametrize("source", [Source.JOB_LOG, Source.SCHEDULER, Source.CHECK])
def test_kernel_words_outside_the_kernel_log_never_become_a_hardware_root(source):
    for signature, line in PROVEN:
        if signature.sources == {Source.KERNEL}:
            matches = CATALOGUE.match(line, source)
            assert not [
                each for each in matches if each.meaning.role is Role.ROOT and each.meaning.disposition.convicts
            ]


def test_a_plain_exception_gives_way_to_the_signature_that_knows_the_line():
    line = "RuntimeError: CUDA error: device-side assert triggered"
    assert [each.signature for each in CATALOGUE.match(line, Source.JOB_LOG)] == ["cuda.assert"]


GOOD = """
[[signature]]
id = "site.fan"
label = "hardware/thermal"
role = "root"
sources = ["kernel"]
anchors = ["fan stopped"]
summary = "a fan stopped"
examples = ["ipmi: fan stopped"]
near_misses = ["ipmi: fan ok"]
source = "our own machines"
"""


def test_site_signatures_come_from_their_folder(tmp_path):
    (tmp_path / "fans.toml").write_text(GOOD, encoding="utf-8")
    matches = catalogue.load([tmp_path, tmp_path / "absent"]).match("ipmi: fan stopped", Source.KERNEL)
    assert [each.signature for each in matches] == ["site.fan"]


@pytest.mark.parametrize(
    ("wrong", "right", "told"),
    [
        ('label = "hardware/fan"', 'label = "hardware/thermal"', "not a label"),
        ('role = "cause"', 'role = "root"', "role"),
        ('anchors = ["fa"]', 'anchors = ["fan stopped"]', "anchors"),
        ('anchors = ["fän stopped"]', 'anchors = ["fan stopped"]', "anchors"),
        ('examples = ["ipmi: fan ok"]', 'examples = ["ipmi: fan stopped"]', "holds none of the anchors"),
        ('near_misses = ["fan stopped"]', 'near_misses = ["ipmi: fan ok"]', "the near miss 'fan stopped' matches"),
        ('colour = "red"\nrole = "root"', 'role = "root"', "colour"),
        ('pattern = "fan ("\nrole = "root"', 'role = "root"', "unterminated"),
        ('pattern = "fan off"\nrole = "root"', 'role = "root"', "does not match"),
        ('key = "code"\nrole = "root"', 'role = "root"', "key and rows belong together"),
        ('detail = "fan={number}"\nrole = "root"', 'role = "root"', "number"),
    ],
)
def test_a_wrong_entry_is_named_with_its_file(wrong, right, told):
    with pytest.raises(CatalogueError, match=r"^fans\.toml:2: site\.fan: ") as error:
        parse(GOOD.replace(right, wrong), "fans.toml")
    assert told in str(error.value)


@pytest.mark.parametrize("text", ["not toml at all [", "[other]\nx = 1", "signature = 3"])
def test_a_file_that_is_no_catalogue_is_named(text):
    with pytest.raises(CatalogueError, match=r"fans\.toml"):
        parse(text, "fans.toml")


def test_an_id_that_is_taken_names_both_files(tmp_path):
    (tmp_path / "mine.toml").write_text(GOOD.replace("site.fan", "cuda.oom"), encoding="utf-8")
    with pytest.raises(CatalogueError, match=r"mine\.toml: cuda\.oom: this id is already used in cuda\.toml"):
        catalogue.load([tmp_path])
