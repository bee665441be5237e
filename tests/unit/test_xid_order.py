"""Of several Xids on one GPU the one that explains the others is the root."""

from __future__ import annotations

from tests.unit.evidence import END, kernel, log, xid
from wheeltapper.diagnosis.diagnose import diagnose

FAILED = log("step 11: loss 2.01", "RuntimeError: CUDA error: an illegal memory access was encountered")


def answer(*findings):
    return diagnose([each for group in findings for each in group], None, window_s=1800.0)


def test_an_xid_45_is_evidence_of_the_xid_that_caused_it():
    text = "NVRM: Xid (PCI:0000:5e:00): 45, pid=4242, name=python3, Ch 0000000b, caused by previous Xid {}"
    broken = answer(kernel(text.format(48)))
    assert (broken.label, broken.detail, broken.confirmed) == ("hardware/ecc_uncorrectable", "xid=48", True)
    assert [each.gpu for each in broken.suspects] == ["0000:5e:00"]
    harmless = answer(kernel(text.format(13)))
    assert (harmless.label, harmless.confirmed) == ("software/cuda_fault", False)


def test_a_switch_that_timed_out_after_the_applications_fault_is_its_consequence():
    said = answer(xid(31, sequence=1, at=END - 70), xid(109, sequence=2, at=END - 66))
    assert (said.label, said.detail) == ("software/cuda_fault", "xid=31")


def test_a_switch_that_timed_out_by_itself_stays_the_root():
    assert answer(xid(109, sequence=2, at=END - 66)).detail == "xid=109"
    elsewhere = answer(xid(31, gpu="0000:9a:00", sequence=1, at=END - 70), xid(109, sequence=2, at=END - 66))
    assert elsewhere.detail == "xid=109"
    long_before = answer(xid(31, sequence=1, at=END - 900), xid(109, sequence=2, at=END - 66))
    assert long_before.detail == "xid=109"


def test_the_drivers_own_advice_outranks_the_order():
    advice = kernel(
        "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
        sequence=3,
        at=END - 65,
    )
    said = answer(xid(31, sequence=1, at=END - 70), xid(109, sequence=2, at=END - 66), advice)
    assert (said.detail, said.confirmed) == ("xid=109", True)


def test_the_drivers_advice_makes_its_gpus_undecoded_fault_the_cause():
    fault = kernel(
        "NVRM: Xid (PCI:0000:3b:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 05 (0x026001c6 0x0 0x0 0x0 0x0 0x0)",
        sequence=1,
        at=END - 70,
    )
    advice = "NVRM: Xid (PCI:{}): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
    said = answer(fault, kernel(advice.format("0000:3b:00"), sequence=2, at=END - 69))
    assert (said.label, said.confirmed, said.disposition.value) == ("hardware/nvlink", True, "reset_gpu")
    elsewhere = answer(fault, kernel(advice.format("0000:9a:00"), sequence=2, at=END - 69))
    assert (elsewhere.label, elsewhere.detail) == ("hardware/gpu_xid", "xid=154")
