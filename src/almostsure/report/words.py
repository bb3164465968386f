"""The summary of a report, in sentences without formulas."""

from __future__ import annotations

import math

from almostsure.budget.minimal import INFINITE
from almostsure.model.mdp import MDP
from almostsure.plan.constraints import Expected
from almostsure.plan.instead import instead
from almostsure.plan.tradeoff.curve import no_sure_end
from almostsure.report.study import SAME, Plan, Study
from almostsure.wording import TINY, counted, number
from almostsure.wording import percent as plain_percent

ROUNDED = 0.005  # smaller differences are invisible in numbers with two decimals


def headline(study: Study) -> str:
    """The result of the report, in one sentence."""
    plan, budget, doubt = study.plans[0], study.budget, study.mdp.origin.if_positive
    if study.least == INFINITE and study.mdp.unknown is not None:
        return "The minimal budget of the start is unknown: too little was learned."
    if study.least == INFINITE:
        return f"From the start, no finite budget suffices: damage can be forced again and again{doubt}."
    if study.least > budget:
        cannot = "is not known to be kept" if doubt else "cannot be kept"
        return f"From the start, a budget of {budget:,} {cannot} for certain; {study.least:,} can."
    what = f"damage can be kept to at most {budget:,}" if budget else "all damage can be avoided"
    how = study.mdp.origin.how_found
    promise = f"From the start, {what} in every single run{f' of the model, which was {how}' if how else ''}"
    if math.isfinite(plan.value) and has_rewards(study.mdp):
        average = "estimated average" if study.mdp.origin.counted else "average"
        return f"{promise}, with an {average}{_discounted(study)} return of {show(plan.value)}."
    return f"{promise}."


def sentences(study: Study) -> list[str]:
    """The sentences below the headline."""
    unsure = sentence(no_sure_end(study.by_budget.curve, study.least))
    return [
        *_about_budget(study),
        *([unsure] if unsure else []),
        *_about_return(study),
        *_about_others(study),
        *_about_model(study),
        *_about_learning(study),
    ]


def facts(study: Study) -> list[dict[str, str]]:
    """The most important numbers."""
    assured, expected = study.plans[0], study.plans[1]
    least = study.minimal.at_most(f"{study.least:,}")
    if study.least == INFINITE:
        least = "∞" if study.mdp.unknown is None else "unknown"
    but = ", but with which runs may not end" if no_sure_end(study.by_budget.curve, study.least) else ""
    result = [_fact("Minimal budget", least, f"the smallest Δ that can be kept for certain from the start{but}")]
    result.append(_fact("This budget", f"{study.budget:,}", "Δ, the largest damage that a run may take"))
    if assured.policy is not None and has_rewards(study.mdp):
        result.append(_fact("Best return", show(assured.value), f"on average, never more than {study.budget:,} damage"))
    if assured.policy is not None:
        how = study.mdp.origin.how_found
        proved = f"none in the model, which was {how}" if how else "none; this is proved"
        result.append(_fact("Runs that overspend", percent(0.0), proved))
    if (
        expected.evaluation is not None
        and expected.evaluation.exceeds(study.budget) > TINY
        and assured.policy is not None
    ):
        note = "of the runs overspend if damage is only limited on average"
        result.append(_fact("Without the guarantee", percent(expected.evaluation.exceeds(study.budget)), note))
    return result


def has_rewards(mdp: MDP) -> bool:
    """Whether any reward is not 0."""
    return bool(mdp.reward.any())


def show(value: float) -> str:
    """A number with two decimals, for sentences."""
    return number(value, 2).replace("-", "−")


def percent(probability: float) -> str:
    """A probability as a percentage, with a no-break space."""
    return plain_percent(probability).replace(" %", "\u00a0%")


def sentence(text: str) -> str:
    """A message with a capital letter and a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".") if text else ""


# ---------------------------------------------------------------------- the paragraphs


def _fact(label: str, value: str, note: str) -> dict[str, str]:
    return {"label": label, "value": value, "note": note}


def _about_budget(study: Study) -> list[str]:
    if study.least == INFINITE and study.mdp.unknown is not None:
        return ["The witness below shows where too little is known. Other states may have known minimal budgets."]
    if study.least == INFINITE:
        return ["The witness below shows how. Other states may have finite minimal budgets.", *instead(study.minimal)]
    least = f"The least budget that can be kept from the start is {study.minimal.at_most(f'{study.least:,}')}"
    if study.least > study.budget:
        doubt = study.mdp.origin.if_positive
        return [f"{least}. The witness below shows how more than {study.budget:,} can be forced{doubt}."]
    if study.given:
        return [f"{least}, whatever the random outcomes are."]
    if study.plans[0].policy is None or not math.isfinite(study.plans[0].value):
        return [f"{least}. No budget was given, so this report is about that one."]
    why = (
        "a larger one adds nothing to the return"
        if study.budget == study.least
        else "the first after which more hardly pays, among the least safe budget and the next ten"
    )
    return [f"{least}. No budget was given, so this report is about {study.budget:,}: {why}."]


def _about_return(study: Study) -> list[str]:
    plan, curve = study.plans[0], study.by_budget.curve
    if not has_rewards(study.mdp):
        return ["The model has no rewards, so this report is about safety alone."]
    if plan.policy is None:
        return [sentence(plan.problem)] if plan.problem and study.least <= study.budget else []
    if plan.value == -math.inf:
        return [f"With a budget of {study.budget:,} the return is −∞."]
    more = [(k, float(curve[k])) for k in range(study.budget + 1, curve.size) if curve[k] > curve[study.budget] + SAME]
    if not more:
        return ["A slightly larger budget would not raise the return."] if curve.size > study.budget + 1 else []
    k, value = more[0]
    if math.isinf(value):
        return [f"With a budget of {k}, the return would be unbounded."]
    gain = show(value - float(curve[study.budget]))
    return [f"With a budget of {k}, the best return would be {show(value)} ({gain} more)."]


def _about_others(study: Study) -> list[str]:
    assured, result = study.plans[0], list[str]()
    if not has_rewards(study.mdp):
        return result
    for plan in study.plans[1:]:
        if plan.policy is None or plan.evaluation is None or assured.policy is None:
            continue
        over = f"exceeds {study.budget:,} in {percent(plan.evaluation.exceeds(study.budget))} of its runs"
        result.append(f"{_described(plan, study)} returns {show(plan.value)}{_difference(plan, assured)}, and {over}.")
    return result


def _described(plan: Plan, study: Study) -> str:
    """A plan by its constraint, and its mean damage if that is less than its limit."""
    if not isinstance(plan.constraint, Expected):
        return f"The best policy with {plan.constraint}"
    taken = math.nan if plan.evaluation is None else plan.evaluation.discounted_damage
    slack = f" takes {show(taken)}," if taken < plan.constraint.limit - ROUNDED else ""
    return f"The best policy with at most {plan.constraint.limit:,.12g}{_discounted(study)} damage on average{slack}"


def _discounted(study: Study) -> str:
    """A word for average damages, which are discounted like rewards."""
    return "" if study.discount == 1 else " discounted"


def _difference(plan: Plan, assured: Plan) -> str:
    gain = plan.value - assured.value
    if not math.isfinite(gain) or abs(gain) < SAME * max(1.0, abs(assured.value)):
        return ", no more than the assured policy" if math.isfinite(gain) else ""
    return f" ({show(abs(gain))} {'more' if gain > 0 else 'less'})"


def _about_learning(study: Study) -> list[str]:
    origin = study.mdp.origin
    rest = "; returns and probabilities are estimates from observed frequencies" if origin.counted else ""
    return [f"{origin.learned} All proofs in this report are about the model{rest}."] if origin.learned else []


def _about_model(study: Study) -> list[str]:
    counts = study.minimal.histogram()
    infinite = counts.get(INFINITE, 0)
    safe = sum(count for need, count in counts.items() if need <= study.budget)
    starts = study.mdp.initial_states.size
    text = f"Safe with {study.budget:,} left: {safe:,} of {counted(study.mdp.num_states, 'state')}"
    if infinite:
        text += f"; with no budget: {infinite:,}{study.mdp.origin.if_positive}"
    return [f"{text}.", *([f"Runs start in one of {starts:,} states; returns are averages over them."] * (starts > 1))]
