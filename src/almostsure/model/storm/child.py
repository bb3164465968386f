"""The child process of :func:`almostsure.from_prism`, in which Storm runs, so that crashes of Storm only end the child.

It reads a request from standard input, and writes the model as ``model.umb`` and notes about it as ``answer.json`` into
the folder of the request.  It imports nothing from this package, so that it starts quickly.  Mistakes of the user are
answers with a ``problem``, which the parent turns into exceptions.
"""

from __future__ import annotations

import gzip
import json
import math
import mmap
import os
import re
import shutil
import sys
from fractions import Fraction
from typing import Any

LIFTED = "Transition rewards are not supported"  # the beginning of Storm's message
SUMS = ("do not sum to one", "do not some to one")  # "some" is in Storm's message for synchronised commands
NOT_BOOLEAN = "to be of boolean type"
CONTINUOUS = "The input model is a CTMC"
INTERVALS = "contains interval updates"
OUTSIDE = "out_of_bounds"  # Storm's label of the state for all values out of range
BUILT_IN = ("init", "deadlock")
STEPS = "steps"  # as reward or cost: 1 per step, even if a variable has this name
OPERATORS = "CFGIPRSUX"  # always operators of Storm's property language, even if a constant has this name
IN_WORDS = ("and", "or", "not")  # written in Python instead of & | !
HOW_TO_COMBINE = (
    "write = to compare numbers, a boolean variable alone, & and | to combine two conditions, and ! for not"
)
NO_FORMULA = "Could not parse formula"
WORDS = {"true", "false", "min", "max", "mod", "pow", "floor", "ceil", "round", "log"}
IMPOSSIBLE = rb":[ \t]*0+(?:\.0*)?(?:[eE][+-]?\d+)?[ \t]*\r?(?:\n|\Z)"  # ends the line of an outcome with probability 0
DEATH_SIGNAL = 1  # Linux's PR_SET_PDEATHSIG
PRIME = 2**61 - 1
HINTS = {  # remedies, by a part of Storm's message
    "Parsing error": "This may also be a name that is not declared: check the names there.",
    "out-of-bounds": "Guard the command, or widen the variable's range.",
    "to one": "Correct them: the probabilities of a command must sum to 1.",
    "single initial state": "Check that the init value of every variable lies in its range.",
}


class Problem(Exception):
    """A mistake of the user, which the parent turns into an exception: by its message, or by its fields for names."""

    def __init__(self, message: str = "", **fields: Any) -> None:
        super().__init__(message)
        self.fields = {"message": message, **fields}


def _no_condition(text: str, why: str) -> Problem:
    return Problem(f"{text!r} must be a condition such as 'x=3 & y>0'; {why.rstrip('.')}.")


def _wrong_type(kind: str) -> Problem:
    wanted = "a Markov decision process or a discrete-time Markov chain"
    return Problem(f"the model must be {wanted}; it is of type {kind}.")


def _from_storm(message: str) -> Problem:
    """A message of Storm, with a remedy if one is known."""
    hint = next((hint for part, hint in HINTS.items() if part in message), "")
    return Problem(f"{message}{chr(10) if chr(10) in message else ' '}{hint}".rstrip())


def main() -> None:
    """Answer the request on standard input."""
    request = json.load(sys.stdin)
    try:
        answer = _answer(request)
    except Problem as problem:
        answer = {"problem": problem.fields}
    except MemoryError:
        answer = {"problem": {"memory": True}}
    except RuntimeError as error:  # Storm's exceptions
        answer = {"problem": _from_storm(str(error).strip()).fields}
    except Exception as error:
        what = f"{type(error).__name__}: {str(error).strip()}".rstrip(".")
        answer = {"problem": {"message": f"Storm's model could not be exported ({what})."}}
    with open(os.path.join(request["folder"], "answer.json"), "w", encoding="utf-8") as file:
        json.dump(answer, file)
    os._exit(0)  # without destructors, which take seconds for a large model


def _limit(memory: int | None) -> None:
    """Limit the memory of this process, and end it when the parent ends."""
    try:
        import ctypes
        import resource
        import signal

        ctypes.CDLL(None).prctl(DEATH_SIGNAL, signal.SIGKILL)
        if memory is not None:
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    except (ImportError, AttributeError, OSError, ValueError):
        pass  # not supported by this system


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    import stormpy
    import stormpy.developer
    import stormpy.io
    import stormpy.models

    stormpy.developer.set_log_level(stormpy.developer.LogLevel.OFF)
    _limit(request["memory_limit"])
    source = _Explicit(stormpy, request) if request["is_drn"] else _Program(stormpy, request)
    model, notes = source.build()
    kind = str(model.model_type).rpartition(".")[2]
    if kind not in ("MDP", "DTMC"):
        raise _wrong_type(kind)
    labels = source.add_labels(model)
    notes["dropped"] = source.dropped(model)
    options = stormpy.io.UmbExportOptions()
    options.compression = stormpy.io.CompressionMode.NO_COMPRESSION
    stormpy.io.export_to_umb(model, os.path.join(request["folder"], "model.umb"), options=options)
    return notes | {"labels": labels}


class _Source:
    """The common part of programs (PRISM, JANI) and explicit files (DRN)."""

    def __init__(self, stormpy: Any, request: dict[str, Any]) -> None:
        self.stormpy = stormpy
        self.request = request
        self.formulas: dict[str, Any] = {}  # by the text of the user

    def formula(self, text: str, *context: Any) -> Any:
        """A condition on states, of variables and labels, parsed by Storm."""
        given = self.stormpy.parse_properties(text, *context)
        if len(given) != 1 or "[" in text:
            raise _no_condition(text, "it must be one condition on states, without P or R")
        return given[0].get_raw_formula()

    def add_labels(self, model: Any) -> list[str]:
        """Add a label for each condition, named by its text; returns the labels that the user should see."""
        for text, formula in self.formulas.items():
            if model.labeling.contains_label(text):
                continue
            holds = self.holds(model, formula)
            model.labeling.add_label(text)
            model.labeling.set_states(text, holds)
        return sorted(model.labeling.get_labels())

    def holds(self, model: Any, formula: Any) -> Any:
        """The states that satisfy a condition, as Storm's bits."""
        # Storm requires a mode for interval models, which makes no difference for conditions on states
        mode = self.stormpy.UncertaintyResolutionMode.ROBUST if model.supports_uncertainty else None
        return self.stormpy.model_checking(model, formula, uncertainty_resolution_mode=mode).get_truth_values_vector()

    def dropped(self, model: Any) -> tuple[int, str] | None:
        """A deadlock whose state reward for damage Storm has dropped, and that reward; never in a DRN file."""
        return None


# ---------------------------------------------------------------------- DRN


class _Explicit(_Source):
    """A DRN file, plain or compressed."""

    def build(self) -> tuple[Any, dict[str, Any]]:
        stormpy = self.stormpy
        if self.request["constants"] or self.request["parameters"]:
            raise Problem("a DRN file has no constants; leave out constants= and parameters=.")
        path = _unpacked(self.request["path"], self.request["folder"])
        header = _header(path)
        if "@nr_choices" not in header or _has_impossible(path):
            path = _mended(path, self.request["folder"], counted="@nr_choices" in header)
        options = stormpy.io.DirectEncodingParserOptions()
        options.build_choice_labeling = True
        kind = header.get("@value_type:", "double")
        if header.get("@parameters") or kind == "parametric":
            model = stormpy.build_model_from_drn[stormpy.RationalFunction](path, options=options)
            model, notes = _instantiated(stormpy, model), {"uncertain": "parametric"}
        elif kind.endswith("interval"):
            _check_lines(path)
            number = stormpy.RationalInterval if kind.startswith("rational") else stormpy.Interval
            model, notes = stormpy.build_model_from_drn[number](path, options=options), {"uncertain": "interval"}
        else:
            model, notes = stormpy.build_model_from_drn(path, options=options), {}
        known = {"label": sorted(model.labeling.get_labels())}
        for text in self.request["conditions"].values():
            labels = re.findall(r'"(\w+)"', text)
            if labels and text != f'"{labels[0]}"':
                _check_labels(labels, known)
                self.formulas[text] = self.formula(text)
        return model, notes


def _check_labels(labels: list[str], names: dict[str, list[str]]) -> None:
    for label in labels:
        if label not in names["label"]:
            raise Problem(what="label", name=label, names=names)


def _unpacked(path: str, folder: str) -> str:
    if not path.lower().endswith(".gz"):
        return path
    plain = os.path.join(folder, "model.drn")
    try:
        with gzip.open(path, "rb") as packed, open(plain, "wb") as file:
            shutil.copyfileobj(packed, file, 1 << 20)
    except (OSError, EOFError) as error:
        raise Problem(f"the compressed data are damaged ({error}).") from None
    return plain


def _has_impossible(path: str) -> bool:
    """Whether the file lists outcomes with probability 0."""
    if not os.path.getsize(path):
        return False
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        return re.search(IMPOSSIBLE, text) is not None


def _mended(path: str, folder: str, *, counted: bool) -> str:
    """The file with the number of choices, and without outcomes of probability 0.

    Storm needs the former to read names of choices.  The latter it counts inconsistently when it writes a UMB file.
    """
    complete = os.path.join(folder, "mended.drn")
    with open(path, "rb") as file, open(complete, "wb") as copy:
        choices = sum(line.lstrip().startswith(b"action") for line in file)
        file.seek(0)
        for line in file:
            if line.startswith(b"@model") and not counted:
                copy.write(b"@nr_choices\n%d\n" % choices)
            if not (line.lstrip()[:1].isdigit() and re.search(IMPOSSIBLE, line)):
                copy.write(line)
    return complete


def _header(path: str) -> dict[str, str]:
    """The lines before ``@model``: each keyword with the text after and below it."""
    found: dict[str, str] = {}
    key = ""
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("@model"):
                break
            if line.startswith("@"):
                key, _, rest = line.strip().partition(" ")
                found[key] = rest.strip()
            elif key and not line.startswith("//"):
                found[key] = f"{found[key]} {line.strip()}".strip()
    return found


def _check_lines(path: str) -> None:
    """Check all intervals of a DRN file: see :func:`_check_interval`."""
    state = action = ""
    with open(path, encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            words = line.split()
            if words[:1] == ["state"]:
                state = " ".join(words[:2])
            elif words[:1] == ["action"]:
                action = " ".join(words[:2])
            elif found := re.match(r"\s*(\d+)\s*:\s*\[([^,\]]*),([^,\]]*)\]", line):
                _check_interval(
                    found[2], found[3], f"for the step to state {found[1]} ({state}, {action}, line {number})"
                )


def _check_interval(low: str, high: str, where: str) -> None:
    """Refuse an interval that is not in order or not within 0 … 1.

    Storm would read [0.9, 0.7] as an empty interval, and write it as [0, 0], as if the outcome were impossible.
    """
    try:
        lower, upper = Fraction(low.strip()), Fraction(high.strip())
    except (ValueError, ZeroDivisionError):  # depends on the state: the parent checks the result
        return
    if not 0 <= lower <= upper <= 1:
        got = f"[{float(lower):.12g}, {float(upper):.12g}]"
        rule = "an interval of probabilities must have 0 ≤ lower bound ≤ upper bound ≤ 1"
        raise Problem(f"{rule}; got {got} {where}. Correct it.")


# ---------------------------------------------------------------------- PRISM and JANI


class _Program(_Source):
    """A PRISM or JANI file, with values for its constants."""

    def __init__(self, stormpy: Any, request: dict[str, Any]) -> None:
        super().__init__(stormpy, request)
        path, self.is_jani = request["path"], request["is_jani"]
        if self.is_jani:
            program, properties = stormpy.io.parse_jani_model(path)
        else:
            program, properties = _parse_prism(stormpy, path), []
        constants = _constants(stormpy, program, request)
        self.program, properties = stormpy.io.instantiate_constants(program, constants, properties)
        self.properties = {entry.get_name(): entry.get_raw_formula() for entry in properties}
        damage = request["damage"].removeprefix("reward:")
        self.fleeting: set[str] = set()
        if self.is_jani:
            with open(path, encoding="utf-8-sig") as file:
                content = json.load(file)
            self.names, self.values = _names_in_jani(content, constants)
            self.fleeting = _on_edges(content)
            rewards = _on_locations(content, damage)
        else:
            self.names, self.values = _names_in_prism(self.program)
            rewards = _on_states(str(self.program), damage)
        for role, text in request["conditions"].items():
            self._add_condition(role, text)
        self.state_rewards = {got: self._where(text) for got, text in rewards.items()}

    def _where(self, text: str) -> Any:
        """A condition; all states if Storm cannot read it, as a variable may have the name of an operator."""
        try:
            return self.formula(self._qualified(text), self.program)
        except RuntimeError:
            return self.formula("true", self.program)

    def dropped(self, model: Any) -> tuple[int, str] | None:
        """Storm sets state rewards of deadlocks to 0; this finds one that is not 0 in the file."""
        deadlocks = model.labeling.get_states("deadlock")
        for text, formula in self.state_rewards.items():
            for state in self.holds(model, formula) & deadlocks:
                return state, text
        return None

    def _add_condition(self, role: str, text: str) -> None:
        """Parse ``text`` as a condition on states, unless it is the name of a label, reward structure or action."""
        kinds = {"goal": ("label",), "damage": tuple(self.names)}.get(role, ("label", "reward"))
        if text in BUILT_IN or any(text in self.names[kind] for kind in kinds if kind != "label"):
            return
        self._check_lasting(text)
        if text in self.names["label"]:
            return
        is_unknown = re.fullmatch(r"\w+", self._qualified(text)) and not self._is_known(text)
        if role in ("reward", "cost") and (text == STEPS or is_unknown):
            return  # the parent knows what STEPS is, or which names to suggest
        _check_labels(re.findall(r'"(\w+)"', text), self.names | {"label": [*self.names["label"], *BUILT_IN]})
        if re.fullmatch(r'"\w+"', text):
            return
        if text in self.properties:
            self.formulas[text] = self._reached(text)
            return
        plain = self._qualified(text)
        self._check_words(role, plain)
        plain = self._without_operators(plain)
        try:
            self.formulas[text] = self.formula(plain, self.program)
        except RuntimeError as error:
            message = str(error).strip()
            if NO_FORMULA in message or re.search(r"==|&&|\|\||[=<>&|]\s*$", text):
                message = HOW_TO_COMBINE
            elif NOT_BOOLEAN in message:
                message = "its value is a number, not true or false"
            raise _no_condition(text, message) from None

    def _check_lasting(self, text: str) -> None:
        """Refuse conditions on variables that steps assign, and that states do not keep."""
        for word in re.findall(r"\w+", text):
            if word in self.fleeting:
                way = "pass its name alone" if word in self.names["reward"] else "let a lasting variable remember it"
                rule = f"{text!r} must be about states; {word} is transient, and states do not show what steps assign"
                raise Problem(f"{rule} to it. To count that, {way}.")

    def _qualified(self, text: str) -> str:
        """Variables of a JANI automaton with the names that Storm gives them: ``A_x`` for ``x``, if that is unique."""
        known = self._identifiers()

        def full(match: re.Match[str]) -> str:
            word = match[0]
            owned = [name for name in known if name.endswith(f"_{word}")]
            return owned[0] if self.is_jani and word not in known and len(owned) == 1 else word

        return re.sub(r'(?<!")\b[A-Za-z_]\w*\b(?!")', full, text)

    def _without_operators(self, text: str) -> str:
        """Replace constants that have the name of an operator of Storm's property language by their values."""

        def value(match: re.Match[str]) -> str:
            if match[0] not in self.values:
                why = f"Storm reads {match[0]} as an operator. Rename it, or pass a label that the model defines"
                raise _no_condition(text, why)
            return f"({self.values[match[0]]})"

        return re.sub(rf'(?<!")\b[{OPERATORS}]\b(?!")', value, text)

    def _check_words(self, role: str, text: str) -> None:
        known = self._identifiers()
        for word in re.findall(r"[A-Za-z_]\w*", re.sub(r'"[^"]*"', "", text)):
            if word not in known and word.lower() in IN_WORDS:
                raise _no_condition(text, HOW_TO_COMBINE)
            if word not in known and word not in WORDS and word in self.names["label"]:
                raise _no_condition(text, f'inside a condition, labels need double quotes: "{word}"')
            if word not in known and word not in WORDS:
                names = self.names | self._by_kind() | {"property": list(self.properties)}
                raise Problem(what=role if word == text else "variable", name=word, names=names)

    def add_labels(self, model: Any) -> list[str]:
        """As above, without the labels that Storm adds for parts of conditions."""
        visible = {*self.names["label"], *self.formulas, *BUILT_IN}
        return [name for name in super().add_labels(model) if name in visible]

    def _is_known(self, word: str) -> bool:
        """Whether a word is a variable, a constant, a formula or a property."""
        return self._qualified(word) in self._identifiers() or word in self.properties

    def _identifiers(self) -> list[str]:
        return [name for names in self._by_kind().values() for name in names]

    def _by_kind(self) -> dict[str, list[str]]:
        """The names that conditions may use: variables, constants and, in a PRISM file, formulas."""
        names = [variable.name for variable in self.program.expression_manager.get_variables()]
        constants, formulas = [constant.name for constant in self.program.constants], []
        if not self.is_jani:
            with open(self.request["path"], encoding="utf-8", errors="replace") as file:
                formulas = re.findall(r"\bformula\s+(\w+)\s*=", re.sub(r"//.*", "", file.read()))
        variables = [name for name in names if name not in {*constants, *formulas}]
        kinds = {"variable": variables, "constant": constants, "formula": formulas}
        return {kind: found for kind, found in kinds.items() if found or kind == "variable"}

    def _reached(self, name: str) -> Any:
        """The condition of a property of the form ``P [F …]`` or ``R [F …]``."""
        formula = self.properties[name]
        inner = getattr(formula, "subformula", None)
        if inner is None or not inner.is_eventually_formula:
            raise _no_condition(name, f"the property must be about reaching states (F …); it is {formula}")
        return inner.subformula

    # ------------------------------------------------------------------ building

    def build(self) -> tuple[Any, dict[str, Any]]:
        """Storm's sparse model, and notes for the parent on how it was built."""
        if self.request["parameters"]:
            return self._parametric()
        try:
            return self._checked(lift=False)
        except RuntimeError as error:
            if LIFTED not in str(error):
                raise
        model, notes = self._checked(lift=True)
        return model, notes | {"lifted": True}

    def _checked(self, *, lift: bool) -> tuple[Any, dict[str, Any]]:
        """Build the model, with checks.

        Storm compares sums of rounded numbers with 1 exactly, so it refuses 0.06 + 0.94.  In this case the model is
        built without the check, and with a state for all values out of range.  If that state is reached, or if the
        parent finds sums that are off by more than rounding (it repeats the request with ``exact``), Storm builds the
        model in exact arithmetic, and its error message names the mistake.
        """
        build = self.stormpy.build_model
        if self.request["exact"]:
            build[self.stormpy.Rational](self.program, options=self._options(lift=lift))
        else:
            try:
                return build(self.program, options=self._options(lift=lift)), {}
            except RuntimeError as error:
                if INTERVALS in str(error):
                    self._check_intervals()
                    return self._within(self.stormpy.Interval, lift=lift), {"uncertain": "interval"}
                if not any(part in str(error) for part in SUMS):
                    raise
        return self._within(float, lift=lift), {"unchecked": not self.request["exact"]}

    def _check_intervals(self) -> None:
        """Check all intervals with constant bounds: see :func:`_check_interval`."""
        for module in self.program.modules:
            for command in module.commands:
                for update in command.updates:
                    interval, _, assigned = str(update).partition("] : ")
                    low, comma, high = interval.removeprefix("[").partition(", ")
                    if comma and interval.startswith("["):
                        place = f"command [{command.action_name}] {command.guard_expression}"
                        _check_interval(low, high, f"for {assigned} of the {place}")

    def _within(self, number: Any, *, lift: bool) -> Any:
        """The model without a check of sums (intervals have none, and Storm refuses those that begin at 0)."""
        model = self.stormpy.build_model[number](self.program, options=self._options(lift=lift, checks=False))
        if model.labeling.contains_label(OUTSIDE):
            exact = self.stormpy.Rational if number is float else number
            self.stormpy.build_model[exact](self.program, options=self._options(lift=lift))
            raise _from_storm("an assignment gives a variable an out-of-bounds value.")
        return model

    def _parametric(self) -> tuple[Any, dict[str, Any]]:
        build = self.stormpy.build_model[self.stormpy.RationalFunction]
        model = build(self.program, options=self._options(lift=False))
        return _instantiated(self.stormpy, model), {"uncertain": "parametric"}

    def _options(self, *, lift: bool, checks: bool = True) -> Any:
        formulas = [*self.formulas.values(), *self.state_rewards.values()]
        if formulas:  # with a single formula Storm would not explore beyond states in which it holds
            formulas.append(self.formula("true", self.program))
        options = self.stormpy.BuilderOptions(formulas) if formulas else self.stormpy.BuilderOptions()
        options.set_build_all_reward_models()
        options.set_build_all_labels()
        options.set_build_state_valuations()
        options.set_build_choice_labels()
        options.set_scale_and_lift_transition_rewards(lift)
        options.set_exploration_checks(checks)  # otherwise x'=9 changes the next variable if x has 3 bits
        options.set_add_out_of_bounds_state(not checks)
        return options


def _instantiated(stormpy: Any, model: Any) -> Any:
    """A parametric model with arbitrary values for its parameters; only its possible outcomes are used."""
    from stormpy.pars import ModelInstantiator

    if model.collect_reward_parameters():
        raise Problem("a reward structure has parameters; only probabilities may have some.")
    parameters = sorted(model.collect_all_parameters(), key=lambda parameter: parameter.name)
    point = {  # numbers so long that no polynomial of a file is 0 there unless it is 0 everywhere
        parameter: stormpy.RationalFunctionCoefficient(f"{pow(1009 + 2 * at, 31, PRIME)}/{PRIME}")
        for at, parameter in enumerate(parameters)
    }
    return _with_variables(stormpy, ModelInstantiator(model).instantiate(point), model)


def _with_variables(stormpy: Any, model: Any, named: Any) -> Any:
    """The model with the variables of ``named``, which has the same states; Storm drops them."""
    if not named.has_state_valuations():
        return model
    parts = stormpy.models.SparseModelComponents[float](model.transition_matrix, model.labeling, model.reward_models)
    parts.state_valuations = named.state_valuations
    if model.has_choice_labeling():
        parts.choice_labeling = model.choice_labeling
    return type(model)(parts)


def _names_in_prism(program: Any) -> tuple[dict[str, list[str]], dict[str, str]]:
    """The names by kind, and the values of constants, in the language of conditions."""
    actions = [program.get_action_name(index) for index in program.get_synchronizing_action_indices()]
    names = {
        "label": [label.name for label in program.labels],
        "reward": [rewards.name or "default" for rewards in program.reward_models],
        "action": actions,
    }
    return names, {constant.name: str(constant.definition) for constant in program.constants if constant.defined}


def _names_in_jani(content: dict[str, Any], given: dict[str, Any]) -> tuple[dict[str, list[str]], dict[str, str]]:
    """The same for a JANI file, which Storm does not provide; without constants defined by expressions."""
    places = [content, *content.get("automata", ())]
    transient = [entry for place in places for entry in place.get("variables", ()) if entry.get("transient")]
    names = {
        "label": [entry["name"] for entry in transient if entry["type"] == "bool"],
        "reward": [entry["name"] for entry in transient if entry["type"] != "bool"],
        "action": [entry["name"] for entry in content.get("actions", ())],
    }
    values = {entry["name"]: entry.get("value") for entry in content.get("constants", ())} | given
    plain = {name: value for name, value in values.items() if value is not None and not isinstance(value, dict | str)}
    return names, {name: str(value).lower() for name, value in plain.items()}


def _on_edges(content: dict[str, Any]) -> set[str]:
    """The transient variables of a JANI file that its edges assign."""
    places = [content, *content.get("automata", ())]
    edges = [edge for place in places for edge in place.get("edges", ())]
    parts = edges + [part for edge in edges for part in edge["destinations"]]
    assigned = [entry["ref"] for part in parts for entry in part.get("assignments", ())]
    transient = {entry["name"] for place in places for entry in place.get("variables", ()) if entry.get("transient")}
    return {name for name in transient if name in assigned}


def _on_states(program: str, name: str) -> dict[str, str]:
    """The state rewards of a structure in a program printed by Storm, and the condition under which each is not 0."""
    head = rf'rewards(?: "{re.escape(name)}"){"?" if name == "default" else ""}'
    body = re.search(rf"^{head}\n(.*?)^endrewards", program, re.MULTILINE | re.DOTALL)
    found = re.findall(r"^\s+([^\[\s].*?)(?<! ): (.+);$", body[1] if body else "", re.MULTILINE)
    return {f"{value} for {guard}": f"({guard}) & ({value}) != 0" for guard, value in found}


def _on_locations(content: dict[str, Any], name: str) -> dict[str, str]:
    """The same for a JANI file: the reward of a location, if any has one."""
    places = [place for automaton in content.get("automata", ()) for place in automaton["locations"]]
    rewarded = any(entry["ref"] == name for place in places for entry in place.get("transient-values", ()))
    return {"the reward of a location": f"{name} != 0"} if rewarded else {}


def _parse_prism(stormpy: Any, path: str) -> Any:
    try:
        return stormpy.io.parse_prism_program(path)
    except RuntimeError as error:
        if CONTINUOUS in str(error):  # Storm's message suggests an option that does not help
            raise _wrong_type("CTMC") from None
        if str(error) != "std::exception":
            raise
    with open(path, encoding="utf-8", errors="replace") as file:
        unknown = ", ".join(repr(name) for name in _undeclared(file.read()))
    assigned = f": {unknown} is assigned to but not declared" if unknown else ""
    raise Problem(f"Storm cannot read the model, and gives no reason. Check the names in it{assigned}.")


def _undeclared(program: str) -> list[str]:
    """The variables of a PRISM program that are assigned to, but neither declared nor renamed from a module."""
    text = re.sub(r"//.*", "", program)
    declared = re.findall(r"(\w+)\s*:\s*(?:\[|bool\b|int\b|clock\b)", text)
    renamed = re.findall(r"=\s*(\w+)\s*[,\]]", text)
    return sorted(set(re.findall(r"(\w+)'\s*=", text)).difference(declared, renamed))


# ---------------------------------------------------------------------- constants


def _constants(stormpy: Any, program: Any, request: dict[str, Any]) -> dict[str, Any]:
    given, parameters = request["constants"], request["parameters"]
    declared = {constant.name: constant for constant in program.constants}
    for name in [*given, *parameters]:
        if name not in declared:
            raise Problem(what="constant", name=name, known=list(declared))
        if declared[name].defined:
            raise Problem(f"constant {name!r} has a value in the file, which cannot be changed. Leave it out.")
    missing = [name for name, entry in declared.items() if not (entry.defined or name in given or name in parameters)]
    if missing:
        has = "has" if len(missing) == 1 else "have"
        example = ",".join(f"{name}=…" for name in missing)
        message = f"constants must have a value; {', '.join(missing)} {has} none. Pass constants='{example}'"
        raise Problem(f"{message}, or list those of a parametric model in parameters=.")
    return {name: _value(stormpy, name, value, declared[name].type) for name, value in given.items()}


def _value(stormpy: Any, name: str, given: bool | int | float | str, kind: Any) -> Any:
    """The value of a constant in the type that it was declared with, from a number or from text.

    1 may also be a double, and 3.0 an integer; text may be ``3``, ``1/3`` or ``true``.
    """
    if given in ("true", "false"):
        given = given == "true"
    try:
        value = Fraction(given) if isinstance(given, str) else given
    except (ValueError, ZeroDivisionError):
        raise Problem(f"constant {name!r} must be a number, true or false; got {given!r}") from None
    if kind.is_boolean != isinstance(value, bool):
        wanted = "true or false" if kind.is_boolean else "a number"
        raise Problem(f"constant {name!r} must be {wanted}; got {str(value).lower()}")
    if kind.is_boolean:
        return value
    if isinstance(value, float) and not math.isfinite(value):
        raise Problem(f"constant {name!r} must be finite; got {value}")
    number = Fraction(str(value))
    if not kind.is_integer:
        return value if isinstance(value, float) else stormpy.Rational(str(number))
    if number.denominator != 1 or abs(number) >= 2**63:
        raise Problem(f"constant {name!r} must be a whole number of less than 64 bits; got {value}")
    return int(number)


if __name__ == "__main__":
    main()
