#!/usr/bin/env python3
"""Holds dependencies to deny.toml: licences, banned crates, "*", sources.

Exit 0: held; 1: broken; 2: cannot tell.

cargo-deny does more (it reads the licence texts and knows advisories), but is not on every machine.
"""
import doctest
import json
import re
import subprocess
import sys
from pathlib import Path


def allowed(expression, licences):
    """Whether an SPDX expression can be met with these licences alone; AND binds tighter than OR.

    >>> def meets(expression): return allowed(expression, {"MIT", "Apache-2.0", "Zlib"})
    >>> [meets(e) for e in ("MIT", "MIT OR GPL-3.0", "GPL-3.0 OR (Zlib AND MIT)", "MIT/GPL-2.0", "(MIT)")]
    [True, True, True, True, True]
    >>> [meets(e) for e in ("GPL-3.0", "MIT AND GPL-3.0", "MIT+", "mit", "(MIT OR Zlib) AND ISC")]
    [False, False, False, False, False]
    >>> meets("GPL-3.0 AND MIT OR Zlib"), meets("GPL-3.0 AND (MIT OR Zlib)")
    (True, False)
    >>> meets("Apache-2.0 WITH LLVM-exception"), meets("GPL-3.0 OR Apache-2.0 WITH LLVM-exception AND MIT")
    (False, False)
    >>> [meets(e) for e in ("", "MIT OR", "(MIT", "MIT)", "MIT MIT", "OR MIT", "MIT, Zlib")]
    [None, None, None, None, None, None, None]
    """
    tokens = re.findall(r"[()]|[\w.+:-]+|\S", expression.replace("/", " OR "))

    def next_is(word):
        return bool(tokens) and tokens[0] == word and bool(tokens.pop(0))

    def either():
        met = both()
        while next_is("OR"):
            met = both() or met
        return met

    def both():
        met = one()
        while next_is("AND"):
            met = one() and met
        return met

    def one():
        if next_is("("):
            met = either()
            if not next_is(")"):
                raise ValueError
            return met
        name = word()
        if next_is("WITH"):
            name += " WITH " + word()
        return name in licences

    def word():
        if not tokens or not re.fullmatch(r"[\w.+:-]+", tokens[0]) or tokens[0] in ("AND", "OR", "WITH"):
            raise ValueError
        return tokens.pop(0)

    try:
        met = either()
    except ValueError:
        return None
    return None if tokens else met


def complaints(metadata, rules):
    """One line for each rule a package breaks.

    >>> bans = {"deny": [{"crate": "b", "reason": "no"}], "wildcards": "deny"}
    >>> rules = {"licenses": {"allow": ["MIT"]}, "bans": bans}
    >>> def of(**p):
    ...     p = {"id": "1", "name": "a", "version": "1", "license": "MIT", "source": "registry+x",
    ...          "dependencies": [{"name": "c", "req": "^1"}]} | p
    ...     return list(complaints({"packages": [p], "workspace_members": ["0"]}, rules))
    >>> of()
    []
    >>> of(license="GPL-3.0"), of(license=None), of(license="MIT OR")
    (['a 1: licence GPL-3.0'], ['a 1: licence None'], ['a 1: licence MIT OR'])
    >>> of(name="b"), of(source="git+x"), of(source=None), of(source=None, id="0")
    (['b 1: banned, no'], ['a 1: source git+x'], ['a 1: source None'], [])
    >>> of(dependencies=[{"name": "c", "req": "*"}])
    ['a 1: any version of c']
    """
    banned = {ban["crate"]: ban["reason"] for ban in rules["bans"]["deny"]}
    registry = None
    for p in metadata["packages"]:
        label = f"{p['name']} {p['version']}"
        if not allowed(p["license"] or "", set(rules["licenses"]["allow"])):
            yield f"{label}: licence {p['license']}"
        if p["name"] in banned:
            yield f"{label}: banned, {banned[p['name']]}"
        for dependency in p["dependencies"]:
            if dependency["req"] == "*" and rules["bans"]["wildcards"] == "deny":
                yield f"{label}: any version of {dependency['name']}"
        if p["id"] in metadata["workspace_members"]:
            continue
        source = p["source"] or "None"
        registry = registry or source
        if not source.startswith("registry+") or source != registry:
            yield f"{label}: source {source}"


def main():
    try:
        import tomllib
    except ImportError:
        print("licences: NOT CHECKED (Python 3.11 or newer is needed)", file=sys.stderr)
        return 2
    if doctest.testmod().failed:
        return 2
    root = Path(__file__).resolve().parent.parent
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--all-features"]
    metadata = json.loads(subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE).stdout)
    broken = list(complaints(metadata, tomllib.loads((root / "deny.toml").read_text())))
    for line in broken:
        print(line, file=sys.stderr)
    print(f"licences, bans, sources: {len(metadata['packages'])} crates, {len(broken)} complaints")
    return 1 if broken else 0


sys.exit(main())
