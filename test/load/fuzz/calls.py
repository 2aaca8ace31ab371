"""Random SQL expressions that call the functions, operators, casts and types of the extension."""

import random
from collections import Counter
from dataclasses import dataclass, field

from load.fuzz.catalogue import Catalogue, Function
from load.fuzz.values import Values, quote

# Functions that use tables or other state are called six times as often as other functions.
STATEFUL = 6
NAMES = ("feed_", "exact_", "btree_", "uuid_sequence")


@dataclass
class Calls:
    rng: random.Random
    catalogue: Catalogue
    values: Values
    called: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.weights = [
            STATEFUL if function.name.startswith(NAMES) or "regclass" in function.types else 1
            for function in self.catalogue.functions
        ]

    def any(self) -> str:
        """Return an expression, or a query in parentheses, that uses an object of the extension."""
        self.values.look_elsewhere()
        chance = self.rng.random()
        if chance < 0.82 or not self.catalogue.operators:  # the SQL edition has no operators
            (function,) = self.rng.choices(self.catalogue.functions, self.weights)
            return self.of(function)
        if chance < 0.92:
            return self.operator()
        return self.cast() if chance < 0.96 else self.of_type()

    def of(self, function: Function) -> str:
        self.called[function.signature] += 1
        if function.kind == "a":
            return self.aggregate(function)
        amount = self.given(function)
        texts = [self.values.of(function.types[i], function.arguments[i]) for i in range(amount)]
        named = self.rng.random() < 0.15 and all(function.arguments)
        if named:
            texts = [f"{name} => {text}" for name, text in zip(function.arguments, texts, strict=False)]
            self.rng.shuffle(texts)
        return f"{function.schema}.{function.name}({', '.join(texts)})"

    def given(self, function: Function) -> int:
        return len(function.types) - (self.rng.randint(0, function.defaults) if self.rng.random() < 0.5 else 0)

    def aggregate(self, function: Function) -> str:
        rows = ", ".join(f"({self.values.of(function.types[0])})" for _ in range(self.rng.randint(1, 4)))
        inner = self.rng.choice(("x", "DISTINCT x", "x ORDER BY x", "x ORDER BY x DESC"))
        after = self.rng.choice(("", "", " FILTER (WHERE x IS NOT NULL)", " FILTER (WHERE false)"))
        if inner == "x" and self.rng.random() < 0.3:
            after += " OVER (ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)"
        limit = " LIMIT 1" if "OVER" in after else ""
        return f"(SELECT public.{function.name}({inner}){after} FROM (VALUES {rows}) AS v(x){limit})"

    def operator(self) -> str:
        """Return an expression with an operator, or a query that uses the operator on indexed columns."""
        schema, name, left, right = self.rng.choice(self.catalogue.operators)
        self.called[f"operator {name} ({left}, {right})"] += 1
        operand, second = self.values.of(left), self.values.of(right)
        if self.rng.random() < 0.5:
            return f"({operand} OPERATOR({schema}.{name}) {second})"
        column = {"public.uuid_v1": "one", "uuid": "seven"}
        operand, second = column.get(left, operand), column.get(right, second)
        how = self.rng.choice(("count(*)", "count(DISTINCT one)", "min(one)::text", "max(seven)::text"))
        return f"(SELECT {how} FROM mallory.keys WHERE {operand} OPERATOR({schema}.{name}) {second})"

    def cast(self) -> str:
        source, target = self.rng.choice(self.catalogue.casts)
        self.called[f"cast ({source} AS {target})"] += 1
        value = self.values.of(source)
        return self.rng.choice(
            (f"({value})::{target}", f"CAST({value} AS {target})", f"({value})::{target}::text::{target}")
        )

    def of_type(self) -> str:
        type_name = self.rng.choice(self.catalogue.types)
        self.called[f"type {type_name}"] += 1
        text = self.rng.choice((
            self.values.plain("text"), quote(self.values.uuid()), quote("(" + "," * self.rng.randrange(8) + ")"),
            quote("({[0,5)},3,{a},,)"), quote("(\"{[0,9)}\",1,\"{a,NULL}\",\"{\"\"(1,a,b,{1})\"\"}\",x)"),
        ))  # fmt: skip
        modifier = self.rng.choice(("", "", "", "(3)", "[]"))
        return f"({text}::{type_name}{modifier})::text"
