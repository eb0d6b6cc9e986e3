"""The causes of differences that a case declares."""

from parity.diagnose.catalogue.info import CauseInfo, Proof, Wording

ROWS: tuple[CauseInfo, ...] = (
    CauseInfo(
        "declared_difference_absent",
        "what the case declares the port to do otherwise is not there",
        {
            "": Wording(
                "the declared difference is not there: {texts}", "take it out of [expect], or have the port do it"
            ),
        },
        proof=Proof.RERUN,
    ),
)
