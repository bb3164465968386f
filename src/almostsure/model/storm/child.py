"""Storm's side of :func:`almostsure.from_prism`: a program of its own, so that whatever Storm does ends with it.

It reads a request from standard input, writes the model as ``model.umb`` into the folder of the request and what
there is to say about it as ``answer.json``.  It imports nothing of this package, so that it starts quickly; mistakes
of the user are answers too (``problem``), which the parent turns into its own exceptions.
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

LIFTED = "Transition rewards are not supported"  # how Storm's message begins
SUMS = ("do not sum to one", "do not some to one")  # the second is Storm's spelling for synchronised commands
NOT_BOOLEAN = "to be of boolean type"
CONTINUOUS = "The input model is a CTMC"
INTERVALS = "contains interval updates"
OUTSIDE = "out_of_bounds"  # Storm's label of the state that stands for every value out of range
BUILT_IN = ("init", "deadlock")
OPERATORS = "CFGIPRSUX"  # letters that Storm reads as operators of its property language, whatever they name
IN_WORDS = ("and", "or", "not")  # what Python and people write
HOW_TO_COMBINE = "write = to compare, & and | to combine, with something on either side, and ! for not"
WORDS = {"true", "false", "min", "max", "mod", "pow", "floor", "ceil", "round", "log"}
IMPOSSIBLE = rb":[ \t]*0+(?:\.0*)?(?:[eE][+-]?\d+)?[ \t]*\r?(?:\n|\Z)"  # the end of an outcome with probability 0
DEATH_SIGNAL = 1  # Linux's PR_SET_PDEATHSIG
HINTS = {  # what to do about Storm's messages, by a part of them
    "Parsing error": "A name that is not declared gives this message too: check the names there.",
    "out-of-bounds": "Guard the command, or widen the variable's range.",
    "to one": "Mend them: a command's probabilities must sum to 1.",
    "single initial state": "Check that the init value of every variable lies in its range.",
}


class Problem(Exception):
    """Something that the user must be told.

    The parent makes an exception of its message, or of the fields where it is about a name.
    """

    def __init__(self, message: str = "", **fields: Any) -> None:
        super().__init__(message)
        self.fields = {"message": message, **fields}


def _no_condition(text: str, why: str) -> Problem:
    return Problem(f"{text!r} must be a condition such as 'x=3 & y>0'; {why.rstrip('.')}.")


def _wrong_type(kind: str) -> Problem:
    wanted = "a Markov decision process or a discrete-time Markov chain"
    return Problem(f"the model must be {wanted}; it is of type {kind}.")


def _from_storm(message: str) -> Problem:
    """What Storm says, and what to do about it."""
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
        answer = {"problem": {"message": f"the model could not be taken over from Storm ({what})."}}
    with open(os.path.join(request["folder"], "answer.json"), "w", encoding="utf-8") as file:
        json.dump(answer, file)
    os._exit(0)  # taking down a large model piece by piece would take seconds


def _limit(memory: int | None) -> None:
    """Take no more memory than that, and end when the parent does."""
    try:
        import ctypes
        import resource
        import signal

        ctypes.CDLL(None).prctl(DEATH_SIGNAL, signal.SIGKILL)
        if memory is not None:
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    except (ImportError, AttributeError, OSError, ValueError):
        pass  # not on this system


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
    """What is common to programs and to files that list every state."""

    def __init__(self, stormpy: Any, request: dict[str, Any]) -> None:
        self.stormpy = stormpy
        self.request = request
        self.formulas: dict[str, Any] = {}  # by the text of the user

    def formula(self, text: str, *context: Any) -> Any:
        """A condition on states, made of variables and labels."""
        given = self.stormpy.parse_properties(text, *context)
        if len(given) != 1 or "[" in text:
            raise _no_condition(text, "it must be one condition on states, without P or R")
        return given[0].get_raw_formula()

    def add_labels(self, model: Any) -> list[str]:
        """Label the states that satisfy a condition with its text; the labels that the user should see."""
        for text, formula in self.formulas.items():
            if model.labeling.contains_label(text):
                continue
            holds = self.holds(model, formula)
            model.labeling.add_label(text)
            model.labeling.set_states(text, holds)
        return sorted(model.labeling.get_labels())

    def holds(self, model: Any, formula: Any) -> Any:
        """The states that satisfy a condition, as Storm's bits."""
        # where intervals are resolved changes no answer about a state, but Storm asks
        mode = self.stormpy.UncertaintyResolutionMode.ROBUST if model.supports_uncertainty else None
        return self.stormpy.model_checking(model, formula, uncertainty_resolution_mode=mode).get_truth_values_vector()

    def dropped(self, model: Any) -> tuple[int, str] | None:
        """A deadlock whose state reward, the damage, Storm has left out, and that reward; a DRN file has them all."""
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
            model, notes = _at_a_point(stormpy, model), {"uncertain": "parametric"}
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
    """The file as Storm needs it: with the number of choices, and without outcomes that are impossible.

    Storm reads no names of choices without the former; the latter it counts in one place of a UMB file and not in
    another.
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
    """The lines before ``@model``: each keyword with what stands behind or below it."""
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
    """Refuse intervals that are not of probabilities: see :func:`_check_interval`."""
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
    """Refuse an interval of numbers that is not one of probabilities.

    Storm takes [0.9, 0.7] for an empty interval, and writes that as [0, 0], as if the outcome could not happen.
    """
    try:
        lower, upper = Fraction(low.strip()), Fraction(high.strip())
    except (ValueError, ZeroDivisionError):  # a bound that depends on the state: the parent looks at what becomes of it
        return
    if not 0 <= lower <= upper <= 1:
        got = f"[{float(lower):.12g}, {float(upper):.12g}]"
        rule = "an interval of probabilities must have 0 ≤ lower bound ≤ upper bound ≤ 1"
        raise Problem(f"{rule}; got {got} {where}. Mend it.")


# ---------------------------------------------------------------------- PRISM and JANI


class _Program(_Source):
    """A PRISM or JANI file, with its constants set."""

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
        if self.is_jani:
            self.names, self.values = _told_in_jani(path, constants)
        else:
            self.names, self.values = _told_in_prism(self.program)
        for role, text in request["conditions"].items():
            self._understand(role, text)
        damage = request["damage"].removeprefix("reward:")
        rewards = _on_locations(path, damage) if self.is_jani else _on_states(str(self.program), damage)
        self.state_rewards = {got: self._where(text) for got, text in rewards.items()}

    def _where(self, text: str) -> Any:
        """A condition, or all states where Storm cannot read it: a variable may be named like an operator."""
        try:
            return self.formula(text, self.program)
        except RuntimeError:
            return self.formula("true", self.program)

    def dropped(self, model: Any) -> tuple[int, str] | None:
        """Storm makes state rewards of deadlocks 0, whatever they are in the file."""
        deadlocks = model.labeling.get_states("deadlock")
        for text, formula in self.state_rewards.items():
            for state in self.holds(model, formula) & deadlocks:
                return state, text
        return None

    def _understand(self, role: str, text: str) -> None:
        """Take ``text`` for a condition on states, unless a label, reward structure or action has that name."""
        kinds = ("label",) if role == "goal" else tuple(self.names)
        if text in BUILT_IN or any(text in self.names[kind] for kind in kinds):
            return
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
            if re.search(r"==|&&|\|\||[=<>&|]\s*$", text):
                message = HOW_TO_COMBINE
            elif NOT_BOOLEAN in message:
                message = "it is a number, neither true nor false"
            raise _no_condition(text, message) from None

    def _qualified(self, text: str) -> str:
        """Variables of a JANI automaton by the names that Storm gives them: ``A_x`` for ``x``, if no other is meant."""
        known = self._identifiers()

        def full(match: re.Match[str]) -> str:
            word = match[0]
            owned = [name for name in known if name.endswith(f"_{word}")]
            return owned[0] if self.is_jani and word not in known and len(owned) == 1 else word

        return re.sub(r'(?<!")\b[A-Za-z_]\w*\b(?!")', full, text)

    def _without_operators(self, text: str) -> str:
        """Constants that are named like an operator of Storm's language, by their values."""

        def value(match: re.Match[str]) -> str:
            if match[0] not in self.values:
                why = f"Storm takes {match[0]} for an operator. Rename it, or name a label that the model defines"
                raise _no_condition(text, why)
            return f"({self.values[match[0]]})"

        return re.sub(rf'(?<!")\b[{OPERATORS}]\b(?!")', value, text)

    def _check_words(self, role: str, text: str) -> None:
        known = self._identifiers()
        for word in re.findall(r"[A-Za-z_]\w*", re.sub(r'"[^"]*"', "", text)):
            if word not in known and word.lower() in IN_WORDS:
                raise _no_condition(text, HOW_TO_COMBINE)
            if word not in known and word not in WORDS and word in self.names["label"]:
                raise _no_condition(text, f'inside a condition, labels stand in double quotes: "{word}"')
            if word not in known and word not in WORDS:
                names = self.names | self._by_kind() | {"property": list(self.properties)}
                raise Problem(what=role if word == text else "variable", name=word, names=names)

    def add_labels(self, model: Any) -> list[str]:
        """Without Storm's own names for parts of conditions."""
        visible = {*self.names["label"], *self.formulas, *BUILT_IN}
        return [name for name in super().add_labels(model) if name in visible]

    def _identifiers(self) -> list[str]:
        return [name for names in self._by_kind().values() for name in names]

    def _by_kind(self) -> dict[str, list[str]]:
        """What conditions may be made of, each name once: variables, constants and, in a PRISM file, formulas."""
        names = [variable.name for variable in self.program.expression_manager.get_variables()]
        constants, formulas = [constant.name for constant in self.program.constants], []
        if not self.is_jani:
            with open(self.request["path"], encoding="utf-8", errors="replace") as file:
                formulas = re.findall(r"\bformula\s+(\w+)\s*=", re.sub(r"//.*", "", file.read()))
        variables = [name for name in names if name not in {*constants, *formulas}]
        kinds = {"variable": variables, "constant": constants, "formula": formulas}
        return {kind: found for kind, found in kinds.items() if found or kind == "variable"}

    def _reached(self, name: str) -> Any:
        """The states that a property of the form ``P [F …]`` or ``R [F …]`` is about."""
        formula = self.properties[name]
        inner = getattr(formula, "subformula", None)
        if inner is None or not inner.is_eventually_formula:
            raise _no_condition(name, f"the property must ask to reach something (F …); it is {formula}")
        return inner.subformula

    # ------------------------------------------------------------------ building

    def build(self) -> tuple[Any, dict[str, Any]]:
        """Storm's sparse model and what was special about building it."""
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
        """Build the model, checked.

        Storm compares sums of rounded numbers with 1, to the last bit: 0.06 + 0.94 would be refused.  In that case
        the model is built without that check, with a state for all values out of range; if that state exists, or if
        the parent finds sums that are off by more than rounding (it asks again, ``exact``), Storm checks the model
        in exact arithmetic, which says what is wrong.
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
        """Refuse intervals that are not of probabilities, where their bounds are the same in all states."""
        for module in self.program.modules:
            for command in module.commands:
                for update in command.updates:
                    interval, _, assigned = str(update).partition("] : ")
                    low, comma, high = interval.removeprefix("[").partition(", ")
                    if comma and interval.startswith("["):
                        place = f"command [{command.action_name}] {command.guard_expression}"
                        _check_interval(low, high, f"for {assigned} of the {place}")

    def _within(self, number: Any, *, lift: bool) -> Any:
        """The model without a look at sums (intervals have none, and Storm refuses those that begin at 0)."""
        model = self.stormpy.build_model[number](self.program, options=self._options(lift=lift, checks=False))
        if model.labeling.contains_label(OUTSIDE):
            exact = self.stormpy.Rational if number is float else number
            self.stormpy.build_model[exact](self.program, options=self._options(lift=lift))
            raise _from_storm("an assignment gives a variable an out-of-bounds value.")
        return model

    def _parametric(self) -> tuple[Any, dict[str, Any]]:
        build = self.stormpy.build_model[self.stormpy.RationalFunction]
        model = build(self.program, options=self._options(lift=False))
        return _at_a_point(self.stormpy, model), {"uncertain": "parametric"}

    def _options(self, *, lift: bool, checks: bool = True) -> Any:
        formulas = [*self.formulas.values(), *self.state_rewards.values()]
        if formulas:  # a single formula would make Storm stop exploring where it holds
            formulas.append(self.formula("true", self.program))
        options = self.stormpy.BuilderOptions(formulas) if formulas else self.stormpy.BuilderOptions()
        options.set_build_all_reward_models()
        options.set_build_all_labels()
        options.set_build_state_valuations()
        options.set_build_choice_labels()
        options.set_scale_and_lift_transition_rewards(lift)
        options.set_exploration_checks(checks)  # without, x'=9 where x has 3 bits changes the variable beside it
        options.set_add_out_of_bounds_state(not checks)
        return options


def _at_a_point(stormpy: Any, model: Any) -> Any:
    """A parametric model with numbers for its parameters: only which outcomes are possible is used of it."""
    from stormpy.pars import ModelInstantiator

    if model.collect_reward_parameters():
        raise Problem("a reward structure has parameters; only probabilities may have some.")
    parameters = sorted(model.collect_all_parameters(), key=lambda parameter: parameter.name)
    point = {
        parameter: stormpy.RationalFunctionCoefficient(f"{1009 + 2 * at}/4999")
        for at, parameter in enumerate(parameters)
    }
    return _with_variables(stormpy, ModelInstantiator(model).instantiate(point), model)


def _with_variables(stormpy: Any, model: Any, named: Any) -> Any:
    """The model with the variables of ``named``, which has the same states: Storm leaves them out."""
    if not named.has_state_valuations():
        return model
    parts = stormpy.models.SparseModelComponents[float](model.transition_matrix, model.labeling, model.reward_models)
    parts.state_valuations = named.state_valuations
    if model.has_choice_labeling():
        parts.choice_labeling = model.choice_labeling
    return type(model)(parts)


def _told_in_prism(program: Any) -> tuple[dict[str, list[str]], dict[str, str]]:
    """The names by kind, and the constants that have a value, each with that in the language of conditions."""
    actions = [program.get_action_name(index) for index in program.get_synchronizing_action_indices()]
    names = {
        "label": [label.name for label in program.labels],
        "reward": [rewards.name or "default" for rewards in program.reward_models],
        "action": actions,
    }
    return names, {constant.name: str(constant.definition) for constant in program.constants if constant.defined}


def _told_in_jani(path: str, given: dict[str, Any]) -> tuple[dict[str, list[str]], dict[str, str]]:
    """The same of a JANI file, of which Storm does not tell it; constants that are computed are left out."""
    with open(path, encoding="utf-8-sig") as file:
        content = json.load(file)
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


def _on_states(program: str, name: str) -> dict[str, str]:
    """The state rewards of a structure of a program, as Storm prints it, each with where it is other than 0."""
    head = rf'rewards(?: "{re.escape(name)}"){"?" if name == "default" else ""}'
    body = re.search(rf"^{head}\n(.*?)^endrewards", program, re.MULTILINE | re.DOTALL)
    found = re.findall(r"^\s+([^\[\s].*?)(?<! ): (.+);$", body[1] if body else "", re.MULTILINE)
    return {f"{value} for {guard}": f"({guard}) & ({value}) != 0" for guard, value in found}


def _on_locations(path: str, name: str) -> dict[str, str]:
    """The same of a JANI file, where it may be anywhere if any location gives a reward."""
    with open(path, encoding="utf-8-sig") as file:
        automata = json.load(file).get("automata", ())
    places = [place for automaton in automata for place in automaton["locations"]]
    rewarded = any(entry["ref"] == name for place in places for entry in place.get("transient-values", ()))
    return {"the reward of a location, perhaps": "true"} if rewarded else {}


def _parse_prism(stormpy: Any, path: str) -> Any:
    try:
        return stormpy.io.parse_prism_program(path)
    except RuntimeError as error:
        if CONTINUOUS in str(error):  # Storm asks for an option of its own, which would not help
            raise _wrong_type("CTMC") from None
        if str(error) != "std::exception":
            raise
    with open(path, encoding="utf-8", errors="replace") as file:
        unknown = ", ".join(repr(name) for name in _undeclared(file.read()))
    assigned = f": {unknown} is assigned to but not declared" if unknown else ""
    raise Problem(f"Storm cannot read the model, and does not say why. Check the names in it{assigned}.")


def _undeclared(program: str) -> list[str]:
    """The variables of a PRISM program that are assigned to, but neither declared nor made by renaming a module."""
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
        raise Problem(f"{message}, or name those that are to stay unknown with parameters=.")
    return {name: _value(stormpy, name, value, declared[name].type) for name, value in given.items()}


def _value(stormpy: Any, name: str, given: bool | int | float | str, kind: Any) -> Any:
    """What stormpy takes as a constant of a kind, from a number or from text such as ``3``, ``1/3`` or ``true``.

    As it was declared: 1 is a double too, and 3.0 an integer.
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
