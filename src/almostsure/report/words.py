"""The summary of a report, in sentences that need no formula."""

from __future__ import annotations

import math

from almostsure.budget.minimal import INFINITE
from almostsure.model.mdp import MDP
from almostsure.plan.constraints import Chance, Expected
from almostsure.plan.instead import instead
from almostsure.plan.tradeoff.curve import no_sure_end
from almostsure.report.study import SAME, Plan, Study
from almostsure.wording import TINY, counted, number
from almostsure.wording import percent as plain_percent

ROUNDED = 0.005  # less than this is not seen in numbers with two decimals


def headline(study: Study) -> str:
    """What the report says, in one sentence."""
    plan, budget, doubt = study.plans[0], study.budget, study.mdp.origin.if_positive
    if study.least == INFINITE and study.mdp.unknown is not None:
        return "What the start needs is unknown: what was learned does not show enough."
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
    """What stands below the headline."""
    unsure = sentence(no_sure_end(study.ladder.curve, study.least))
    return [
        *_about_budget(study),
        *([unsure] if unsure else []),
        *_about_return(study),
        *_about_others(study),
        *_about_model(study),
        *_about_learning(study),
    ]


def facts(study: Study) -> list[dict[str, str]]:
    """The numbers that a reader looks for first."""
    assured, expected = study.plans[0], study.plans[1]
    least = study.minimal.at_most(f"{study.least:,}")
    if study.least == INFINITE:
        least = "∞" if study.mdp.unknown is None else "unknown"
    but = ", but with which no end is sure" if no_sure_end(study.ladder.curve, study.least) else ""
    result = [_fact("Minimal budget", least, f"the smallest Δ that can be kept for certain from the start{but}")]
    result.append(_fact("This budget", f"{study.budget:,}", "Δ, the most damage that any run may take"))
    if assured.policy is not None and has_rewards(study.mdp):
        result.append(_fact("Best return", show(assured.value), f"on average, never more than {study.budget:,} damage"))
    if assured.policy is not None:
        how = study.mdp.origin.how_found
        proved = f"none in the model, which was {how}" if how else "none, ever: it is proved"
        result.append(_fact("Runs that overspend", percent(0.0), proved))
    if (
        expected.evaluation is not None
        and expected.evaluation.exceeds(study.budget) > TINY
        and assured.policy is not None
    ):
        note = f"of the runs overspend if {_limit(expected):,.12g}{_discounted(study)} is only an average"
        result.append(_fact("Without the guarantee", percent(expected.evaluation.exceeds(study.budget)), note))
    return result


def has_rewards(mdp: MDP) -> bool:
    """Whether anything is earned or paid anywhere."""
    return bool(mdp.reward.any())


def show(value: float) -> str:
    """A number as a sentence shows it."""
    return number(value, 2).replace("-", "−")


def percent(probability: float) -> str:
    """A probability as a percentage that is not broken into two lines."""
    return plain_percent(probability).replace(" %", "\u00a0%")


def sentence(text: str) -> str:
    """A message as a sentence: with a capital and a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".") if text else ""


# ---------------------------------------------------------------------- pieces


def _fact(label: str, value: str, note: str) -> dict[str, str]:
    return {"label": label, "value": value, "note": note}


def _limit(plan: Plan) -> float:
    if not isinstance(plan.constraint, Expected):
        raise TypeError(f"only a constraint on the average has a limit; got {plan.constraint!r}")
    return plan.constraint.limit


def _about_budget(study: Study) -> list[str]:
    if study.least == INFINITE and study.mdp.unknown is not None:
        return [
            "The witness below shows from where on. What was learned may suffice elsewhere: see what each state needs."
        ]
    if study.least == INFINITE:
        witness = "The witness below shows how. Parts of the model may still be safe: see what each state needs."
        return [witness, *instead(study.minimal)]
    least = f"The least budget that can be kept from the start is {study.minimal.at_most(f'{study.least:,}')}"
    if study.least > study.budget:
        doubt = study.mdp.origin.if_positive
        return [f"{least}. The witness below shows how more than {study.budget:,} can be forced{doubt}."]
    if study.asked:
        return [f"{least}, whatever happens on the way."]
    if study.plans[0].policy is None or not math.isfinite(study.plans[0].value):
        return [f"{least}. No budget was asked for, so this report is about that one."]
    why = (
        "more budget adds nothing"
        if study.budget == study.least
        else "among the least safe one and the next ten, the first after which more hardly pays"
    )
    return [f"{least}. No budget was asked for, so this report is about {study.budget:,}: {why}."]


def _about_return(study: Study) -> list[str]:
    plan, curve = study.plans[0], study.ladder.curve
    if not has_rewards(study.mdp):
        return ["The model has no rewards, so this report is about safety alone."]
    if plan.policy is None:
        return [sentence(plan.problem)] if plan.problem and study.least <= study.budget else []
    if plan.value == -math.inf:
        return [f"So with {study.budget:,} the return is −∞."]
    more = [(k, float(curve[k])) for k in range(study.budget + 1, curve.size) if curve[k] > curve[study.budget] + 1e-6]
    if not more:
        return ["A few more units of budget would not raise the return."] if curve.size > study.budget + 1 else []
    k, value = more[0]
    if math.isinf(value):
        return [f"With {k}, the return would have no bound."]
    return [f"With {k} to spend, the return could be {show(value)} ({show(value - float(curve[study.budget]))} more)."]


def _about_others(study: Study) -> list[str]:
    assured, result = study.plans[0], list[str]()
    if not has_rewards(study.mdp):
        return result
    for plan in study.plans[1:]:
        if plan.policy is None or plan.evaluation is None or assured.policy is None:
            continue
        excess = _excess(plan.evaluation.exceeds(study.budget), study)
        gained = f"{show(plan.value)}{_difference(plan, assured)}"
        result.append(f"{_allowed(plan, study)} returns {gained}, and {excess}.")
    return result


def _allowed(plan: Plan, study: Study) -> str:
    """What a plan may do, and how much damage it takes where that is less than it may."""
    if isinstance(plan.constraint, Chance):
        return f"A plan that may exceed {study.budget:,} with probability {percent(plan.constraint.risk)}"
    taken = math.nan if plan.evaluation is None else plan.evaluation.discounted_damage
    slack = f", and takes {show(taken)}," if taken < _limit(plan) - ROUNDED else ""
    return f"A plan that may take {_limit(plan):,.12g}{_discounted(study)} damage on average{slack}"


def _discounted(study: Study) -> str:
    """With a discount, an average counts damage as it counts rewards."""
    return "" if study.discount == 1 else " discounted"


def _difference(plan: Plan, assured: Plan) -> str:
    gain = plan.value - assured.value
    if not math.isfinite(gain) or abs(gain) < SAME * max(1.0, abs(assured.value)):
        return ", no more than the certain one" if math.isfinite(gain) else ""
    return f" ({show(abs(gain))} {'more' if gain > 0 else 'less'})"


def _excess(over: float, study: Study) -> str:
    if over < TINY:
        return f"exceeds {study.budget:,} in {'no run' if over <= 0 else 'almost no run'} either"
    return f"exceeds {study.budget:,} in {percent(over)} of its runs"


def _about_learning(study: Study) -> list[str]:
    origin = study.mdp.origin
    rest = "; returns and probabilities rest on frequencies that were counted" if origin.counted else ""
    return [f"{origin.learned} What is proved here is proved of the model{rest}."] if origin.learned else []


def _about_model(study: Study) -> list[str]:
    counts = study.minimal.histogram()
    stuck = counts.get(INFINITE, 0)
    safe = sum(count for need, count in counts.items() if need <= study.budget)
    size = study.mdp.num_states
    if size == 1:
        return ["The model has one state."]
    starts = study.mdp.initial_states.size
    how_many = "all are" if safe == size else "1 is" if safe == 1 else f"{safe:,} are"
    text = f"Of {counted(size, 'state')}, {how_many} safe with {study.budget:,} left"
    if stuck:
        text += f"; {stuck:,} {'is' if stuck == 1 else 'are'} not safe with any budget{study.mdp.origin.if_positive}"
    return [f"{text}.", *([f"Runs start in one of {starts:,} states; returns are averages over them."] * (starts > 1))]
