"""docs/paper.md says where everything in the paper is: its names exist, and nothing is left out."""

import functools
import re
from importlib import import_module
from pathlib import Path

import pytest

import sojourn
from sojourn import theory
from sojourn.chains import Chain
from sojourn.model import MDP, Policy

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
QUOTED = set(re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", PAGE, flags=re.M | re.S)))
TESTS = {
    name
    for file in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"^def (test_\w+)", file.read_text(encoding="utf-8"), re.M)
}
CLASSES = {"Chain": Chain, "MDP": MDP, "Policy": Policy}
ROOMS = sorted(p.parent.name for p in Path(sojourn.__file__).parent.glob("*/__init__.py"))

SOURCE = """
sec:preliminaries eq:emp.variables asm:counter eq:opt.function.simplified eq:slem.spectral.gap
SLEM_as_norm prop.concentration.mixing lem:bound_variance_estimates sec:asymptotic
ssec:asmyptotic.formulation asm:ergodic eq:opt.function.asymptotic eq:state.action.stationary
eq:opt.function.asymptotic.lambda prop:asymptotic.relaxation eq:asymptotic.opt.policy
asm:reversible lem:asmyptoric.performance eq:concentration.loss eq:performance.loss ssec:learning
alg:FW-AME asm:known.mdp thm:regret_FWAME sec:relaxation fig:toy_MDP eq:opt.function.regularized
lem:reg.performance eq:performance.loss.reg eq:loss.proxy eq:surrogate.constraints
eq:surrogate.constraints.bis eq:opt.surrogate lem:performance_loss_fmh sec:experiments
plot_mixing_3state table_rnl plot_learning_mixing_1 plot_learning_mixing_2 plot_learning_mixing
rnl_formula sec:conclusion app:relaxing_asm app:relaxing:asm:counter no_visit
app:relaxing:asm:reversible p:non.reversible.convergence app:relaxing:asm:known.mdp dual_pbm
alg:FMH app:fast_mixing_heuristic app:ssection:derivation_fmh well-defined
app:ssection:SDP_variant SDP_problem app:proofs prop:bandit.perf.loss app:proof_regret
technical_lemma_1 technical_lemma_2 high_proba_lambda_tilde k_delta ineq_squeeze core_proof
recurrence new_recurrence ineq_b_delta new_new_recurrence final_bound lem:seq_v
related_objective related_constraints alg:FW-AME-FMH-SDP fig:theta_m ssec_bound_optimality
FWAME_FMHSDP delta_tau_k app:experiments
"""
LABELS = SOURCE.split()
"""Every label of the paper's source."""


@pytest.mark.parametrize("label", LABELS)
def test_every_label_of_the_paper_is_on_the_page(label):
    assert re.search(rf"(?<![\w.:-]){re.escape(label)}(?!\w|[.:-]\w)", PAGE), label


def test_every_test_on_the_page_exists():
    named = {word for word in QUOTED if word.startswith("test_")}
    assert len(named) > 60
    assert not named - TESTS


def test_every_row_of_the_page_names_a_test():
    rows = [line for line in PAGE.splitlines() if re.match(r"\|(?! in the paper|---)", line)]
    assert len(rows) > 60
    for row in rows:
        assert "`test_" in row.split("|")[3], row


def found(name):
    """The thing that a dotted name on the page means."""
    first, *rest = name.split(".")
    if first in CLASSES:
        return functools.reduce(getattr, rest, CLASSES[first])
    thing = import_module(f"sojourn.{first}")
    for k, word in enumerate(rest):
        if not hasattr(thing, word):
            import_module(".".join(["sojourn", first, *rest[: k + 1]]))
        thing = getattr(thing, word)
    return thing


def test_every_name_on_the_page_exists():
    start = "|".join((*ROOMS, *CLASSES))
    named = {word for word in QUOTED if re.fullmatch(rf"(?:{start})(?:\.\w+)+", word)}
    assert len(named) > 60
    for name in named:
        assert found(name) is not None, name


def test_the_page_has_the_whole_theory_room():
    for name in theory.__all__:
        if name[0].islower():
            assert f"theory.{name}" in QUOTED, name


@pytest.mark.parametrize("name", [n for n in theory.__all__ if n[0].islower()])
def test_every_function_of_the_theory_names_its_label(name):
    said = getattr(theory, name).__doc__
    assert any(re.search(rf"(?<![\w.:-]){re.escape(x)}(?!\w|[.:-]\w)", said) for x in LABELS)


def test_what_the_code_cites_is_in_the_paper():
    """A citation is a label, or what follows a colon in one."""
    ends = {label[k:] for label in LABELS for k in range(len(label))
            if k == 0 or label[k - 1] == ":"}  # fmt: skip
    cited = re.compile(r"\b(?:Eq|Lem|Prop|Thm|Alg|Asm|Fig|App)\.\s+([A-Za-z][\w.:-]*[\w])")
    for file in (ROOT / "src").rglob("*.py"):
        for label in cited.findall(file.read_text(encoding="utf-8")):
            assert label in ends, f"{file.name} cites {label}"
