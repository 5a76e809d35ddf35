"""Passwords and tokens in any text, masked before it is shown or kept.

Texts of others (units that somebody wrote by hand, journals, command lines) hold secrets in many shapes;
our own units hold none. What only sounds like one, a tokenizer or a number of tokens, stays.
"""

from __future__ import annotations

import re

# Names of what is kept from others; a `tokenizer`, `max_tokens`, an `eos_token`, `ms_per_token` is no secret.
_NO_SECRET = (
    *("eos", "bos", "pad", "unk", "sep", "cls", "mask", "image", "video", "audio", "stop", "special"),
    *("per", "first", "next", "last", "new"),
)
_TOKEN = "".join(f"(?<!{word}[_-])" for word in _NO_SECRET) + "token"
_KEY = "(?:api|access|secret|private)[_-]?key"
_NAME = rf"(?:{_TOKEN}|{_KEY}|secret|password|passwd)"
_OPTION = (
    r"--(?:api[_-]k(?:ey?)?|hf[_-]to(?:k(?:en?)?)?|(?:(?:auth|access)[_-])?token|password|passwd|secret)"
)
# Values: quoted, maybe within a quoted text; the like in a list; a word, with what a comma joins to it.
_STRING = r""""(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?|\\{1,8}"[^"\n]*"?|\\{1,8}'[^'\n]*'?"""
_LIST = rf"[\[(](?:{_STRING}|[^\])\"'\n])*[\])]?"
_WORD = r"""[^\s"',]+(?:,[^\s"',=]+(?![^\s"',]))*"""
_NOTHING = r"""(?!(?:none|null|true|false|-?\d{1,5})\b|""|''|\[\]|\(\)|\*\*\*(?![^\s"',)}\]]))"""
_VALUE = f"(?:{_NOTHING}(?:{_STRING}|{_LIST}|{_WORD}))"
_ARGUMENT = r"""(?:\\[^\s"']|[^\s"'\\])+"""
_BLANK = r"(?:[ \t]|\\\n)+"  # a unit's line may go on in the next one
_SECRETS = (
    # User and password of a URL.
    (re.compile(r"(?<=://)[^/\s]+(?=@)"), "***"),
    # What looks like one by itself: of Hugging Face (`hf_transfer` is a package), OpenAI, GitHub, GitLab.
    (re.compile(r"\bhf_(?:(?=[a-z]{0,64}[A-Z0-9])[A-Za-z0-9]{8,}|[a-z]{20,})"), "***"),
    (re.compile(r"\b(?:sk|gh[pousr]|github_pat|glpat|xox[abp])[_-](?=[A-Za-z_-]{0,64}\d)[\w-]{16,}"), "***"),
    # Authorization: Bearer abc
    (
        re.compile(
            r"""(?i)(\bauthorization\\{0,8}["']?\s*[:=]\s*\\{0,8}["']?(?:bearer|basic|token)\s+)[^\s"',\\]+"""
        ),
        r"\1***",
    ),
    (re.compile(r"(?i)(\bbearer\s+)(?=[\w.~+/=-]*\d)[\w.~+/=-]{4,}"), r"\1***"),
    # "API_KEY=a b", as a unit's Environment= has it: all within the quotes
    (
        re.compile(rf"""(?i)(["'])([\w-]{{0,64}}{_NAME}=)(?!\1|\*\*\*)(?:(?!\1)(?:\\.|[^\\\n]))+"""),
        r"\1\2***",
    ),
    # The same without them, or with quotes around the value, or a list of such.
    (re.compile(rf"(?i)({_NAME}=){_VALUE}"), r"\1***"),
    # As JSON or Python has it; without quotes (YAML, a header) where a digit tells it from prose.
    (re.compile(rf"""(?i)((\\{{0,8}}["'])[\w-]{{0,64}}{_NAME}\2\s*:\s*)(?:{_VALUE})"""), r"\1***"),
    (re.compile(rf"(?i)((?<![\w-])(?:\w{{1,64}}-)?\w{{0,64}}?{_KEY}\s*:\s*)(?=\S*\d){_VALUE}"), r"\1***"),
    # '--api-key', 'a', 'b', '--port'
    (
        re.compile(
            rf"""((\\{{0,8}}["']){_OPTION}\2)(\s*,?\s*\2)(?!-)(?:(?!\2)[^\n])+(?:\2\s*,?\s*\2(?!-)(?:(?!\2)[^\n])+)*"""
        ),
        r"\1\3***",
    ),
    # --api-key a b --port, --api-key=a
    (re.compile(rf"({_OPTION}=)(?:{_STRING}|{_ARGUMENT})"), r"\1***"),
    (
        re.compile(
            rf"""({_OPTION}{_BLANK})(?!-|[a-z]+:(?:\s|$))(?:{_STRING}|{_ARGUMENT})"""
            rf"""(?:{_BLANK}(?![-\[&|;>]|[a-z]{{1,4}}\b)(?:{_STRING}|{_ARGUMENT}))*"""
        ),
        r"\1***",
    ),
)


def without_secrets(text: str) -> str:
    """Given any text that is shown or kept, return it with what looks like a password or token as `***`."""
    for pattern, shown in _SECRETS:
        text = pattern.sub(shown, text)
    return text
