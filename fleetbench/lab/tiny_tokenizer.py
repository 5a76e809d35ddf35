"""A vocabulary of 1024 tokens with its byte-level BPE rules, written by hand: no library, no training.

Made so that text and tokens map onto each other one to one wherever a benchmark counts tokens: the `random`
dataset of `vllm bench serve` takes consecutive token ids, decodes them and encodes them again, and its
prompts are only as long as asked when the same ids come back.
"""

from __future__ import annotations

from itertools import product

VOCABULARY = 1024
END_OF_TEXT, START_OF_TURN, END_OF_TURN = SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
# One token each: vLLM's hermes and qwen3_coder tool parsers and its qwen3 reasoning parser ask for that.
MARKS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")

_VOWELS = "aeiou"
_CONSONANTS = "bcdfghjklmnprstvwz"
# A consonant never stands before a vowel here: the two would become one syllable when ids are consecutive.
_LETTERS = _VOWELS + _CONSONANTS + "qxy"
_CHARACTERS = (
    "\t\n\r" + " !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`" + _LETTERS + "{|}~"
)
_SYLLABLES = tuple(consonant + vowel for consonant, vowel in product(_CONSONANTS, _VOWELS))
# Byte-level BPE writes bytes that are not printable as letters from U+0100 on, in order.
_BYTE_NAMES = {"\t": "ĉ", "\n": "Ċ", "\r": "č", " ": "Ġ"}
_STRIDE = 11  # has no divisor in common with 90 × 90, so no pair of syllables comes twice

CHAT_TEMPLATE = """\
{%- if tools %}<|im_start|>system
# Tools
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|im_end|>
{% endif %}{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def tokens() -> tuple[str, ...]:
    """Return the text of each token, by id: characters, syllables, the same after a space, words, marks."""
    beginnings = tuple(f" {syllable}" for syllable in _SYLLABLES)
    words = tuple(f" {first}{second}" for first, second in _pairs())
    return (*_CHARACTERS, *_SYLLABLES, *beginnings, *words, *SPECIAL, *MARKS)


def identifier(token: str) -> int:
    """Return the id of a token's text; ValueError when it is none."""
    return tokens().index(token)


def tokenizer() -> dict[str, object]:
    """Return the content of tokenizer.json."""
    texts = tokens()
    plain = texts[: -len(SPECIAL) - len(MARKS)]
    merges = [[syllable[0], syllable[1]] for syllable in _SYLLABLES]
    merges += [["Ġ", syllable] for syllable in _SYLLABLES]
    merges += [[f"Ġ{first}", second] for first, second in _pairs()]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_added(number, texts[number]) for number in range(len(plain), len(texts))],
        # What has no token becomes a question mark: no text is ever shorter than it looks.
        "normalizer": {"type": "Replace", "pattern": {"Regex": "[^\\t\\n\\r -~]"}, "content": "?"},
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {_written(text): number for number, text in enumerate(plain)},
            "merges": merges,
        },
    }


def tokenizer_config() -> dict[str, object]:
    """Return the content of tokenizer_config.json."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": 1_000_000,
        "clean_up_tokenization_spaces": False,
        "add_bos_token": False,
        "bos_token": None,
        "eos_token": END_OF_TURN,
        "pad_token": END_OF_TEXT,
        "unk_token": None,
        "chat_template": CHAT_TEMPLATE,
    }


def _pairs() -> list[tuple[str, str]]:
    """As many words of two syllables as there is room for, spread over all beginnings and endings."""
    others = len(_CHARACTERS) + 2 * len(_SYLLABLES) + len(SPECIAL) + len(MARKS)
    every = len(_SYLLABLES)
    places = [(number * _STRIDE) % every**2 for number in range(VOCABULARY - others)]
    return [(_SYLLABLES[place // every], _SYLLABLES[place % every]) for place in places]


def _written(text: str) -> str:
    return "".join(_BYTE_NAMES.get(character, character) for character in text)


def _added(number: int, text: str) -> dict[str, object]:
    return {
        "id": number,
        "content": text,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": text in SPECIAL,
    }
