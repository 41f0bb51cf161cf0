"""What secrets look like: the names that they go by, the prefixes that services give them, and random values (pure).

Names of url parameters are those of OAuth 2 (RFC 6749, 7636), OpenID Connect, SAML bindings, the signed urls of S3,
Google Cloud Storage, Azure and CloudFront, and of the session cookies of PHP, Java and ASP.NET.
"""

import functools
import math
import re
from collections import Counter

#: What stands where a secret stood.
MASK = "REDACTED"
#: A value under a soft name, or in a path, is at least so long.
RANDOM_LENGTH = 16
_ENTROPY = 3.0  # Bits a character; 16 random hexadecimal digits have about 3.3.

_NAME_END = 100
_NOT_NAME = re.compile(r"[^a-z0-9]+")
_INDEX = re.compile(r"\[[0-9]*\]\Z")  # token[0]=, token[]=
#: Parameter names (letters and digits alone) whose value is a secret, whatever it looks like.
_HARD = re.compile(
    r"(?:.*(?:token|secret|password|passwd|passphrase|passwort|pwd|apikey|accesskey|secretkey|privatekey|accountkey"
    r"|subscriptionkey|authkey|signature|credentials?|assertion|jwt|hmac|otp|nonce|verifier|sess(?:ion)?id|authcode"
    r"|oobcode)|pass|pw|sig|sid|psk|bearer|cookie|saml(?:request|response|art)?|rlkey|awsaccesskeyid|googleaccessid)\Z"
)
#: They end like a secret and are none: a place in a list, a kind of token.
_HARMLESS = re.compile(r"(?:.*(?:page|next|continuation|sync|max|min|num|of|per|is|has|no)token|.*forgotpassword)\Z")
#: Names whose value is a secret only where it looks random.
_SOFT = frozenset({
    "code", "state", "key", "session", "hash", "h", "e", "u", "t", "k", "s", "auth", "appid", "ticket", "sign",
    "policy", "invite", "invitation", "confirm", "confirmation", "activation", "verify", "verification",
    "reset", "magic", "link", "unsubscribe", "login", "lt",
})
#: Names whose value a person made up: it may be any word.
PASSWORDS = re.compile(r"pass(?!es)|pwd|psk|(?i:парол)|密|パス|비밀|contrase|senha|l[öÖ]senord|mot de")

_VENDORS = re.compile(
    r"gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|[sr]k_(?:live|test)_[A-Za-z0-9]{10,}"
    r"|(?<![A-Za-z0-9])sk-[\w-]{20,}|xox[a-z]-[\w-]{10,}|xapp-[\w-]{10,}"
    r"|(?<![A-Za-z0-9])A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9])|ya29\.[\w-]{20,}|AIza[\w-]{30,}"
    r"|npm_[A-Za-z0-9]{30,}|pypi-[\w-]{50,}|SG\.[\w-]{16,64}\.[\w-]{16,64}|hf_[A-Za-z0-9]{30,}"
    r"|AGE-SECRET-KEY-1[A-Z0-9]{20,}|shp(?:at|ca|pa|ss)_[a-f0-9]{32}|dop_v1_[a-f0-9]{40,}|whsec_[A-Za-z0-9]{20,}"
    r"|(?<![0-9])[0-9]{8,10}:A[A-Za-z0-9_-]{33,35}(?![A-Za-z0-9_-])",  # A Telegram bot.
    re.ASCII,
)
_RUN = re.compile(r"[A-Za-z0-9_-]*")
_JWT = re.compile(r"eyJ[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*){0,3})")
#: The headers `{"alg":` and `{"typ":`, where what follows was cut off.
_JWT_CUT = re.compile(r"eyJ(?:hbGciOi|0eXAiOi)[A-Za-z0-9_-]{6,}(?=\.?(?:\.\.|…|\Z))")

_WORD = r"(?:[A-Za-z]+[0-9]{0,2}|[0-9]{1,8})?"
_WORDS = re.compile(rf"{_WORD}(?:[-_.,+ /:]{_WORD})*\Z")
_PLACEHOLDER = re.compile(
    r"\$[A-Z_][A-Z0-9_]*\Z|\$[{(].*|%[({].*|%[A-Z_]+%\Z|([*.…•●?#_x-])\1*\Z|xx[-_.x]*\Z"
    r"|your[-_ A-Za-z]*\Z|(?:my|the|some)(?:[-_ ][A-Za-z]+)*[-_ ](?:key|token|secret|password|value|id|here)\Z"
    r"|" + MASK + r"[^A-Za-z0-9]*\Z|[<\[{]+\Z", re.DOTALL)
#: `<token>`, `[token]`, `{{ token }}`: in brackets, and nothing that a machine has drawn.
_BRACKETS = re.compile(r"(?:<([^<>]*)>|\[([^\[\]]*)\]|\{+([^{}]*)\}+)\Z")
_SAYING = frozenset({
    "true", "false", "null", "none", "nil", "yes", "no", "on", "off", "0", "1", "undefined",
})


def kind_of_name(name: str) -> str:
    """`hard`, `soft` or `` for a parameter's name as it stands (decoded): by how it ends, where it is a long one."""
    return _kind(name[-_NAME_END:])


@functools.lru_cache(maxsize=4096)
def _kind(name: str) -> str:
    name = _INDEX.sub("", name.lower())
    plain = _NOT_NAME.sub("", name)
    last = _NOT_NAME.sub("", name[name.rfind(".") + 1:])  # openid.sig
    if (_HARD.match(plain) or _HARD.match(last)) and not _HARMLESS.match(plain):
        return "hard"
    return "soft" if plain in _SOFT or last in _SOFT else ""


def is_placeholder(value: str) -> bool:
    """Whether a value only stands for one (`<token>`, `$TOKEN`, `****`), says yes or no, or is masked already."""
    if not value or value.lower() in _SAYING or _PLACEHOLDER.match(value):
        return True
    inside = _BRACKETS.match(value)
    return inside is not None and is_words("".join(filter(None, inside.groups())).strip())


def entropy(value: str) -> float:
    """Shannon's, of the characters, in bits a character."""
    total = len(value)
    return -sum(count / total * math.log2(count / total) for count in Counter(value).values())


def is_mixed(value: str, least: int = 8) -> bool:
    """Letters and digits of which at least one run is neither a word nor a number."""
    return (len(value) >= least and not value.isalpha() and not value.isdigit()
            and any(char.isdigit() for char in value) and any(char.isalpha() for char in value)
            and not is_words(value))


def is_random(value: str) -> bool:
    """Long, mixed and without a pattern: what a machine has drawn."""
    return is_mixed(value, RANDOM_LENGTH) and entropy(value) > _ENTROPY


def is_words(value: str) -> bool:
    """Words and short numbers with marks between them, as in the address of an article."""
    return len(value) < 400 and bool(_WORDS.match(value))


def spans(text: str) -> list[tuple[int, int]]:
    """Where tokens stand that say what they are by their first letters: JSON Web Tokens, and those of services."""
    found = []
    at = text.find("eyJ")
    while at >= 0:
        token = _JWT.match(text, at) or _JWT_CUT.match(text, at)
        if token is not None:
            found.append(token.span())
        # Whatever else begins in this run would end as this one did: no square time.
        run = _RUN.match(text, token.end() if token else at)
        at = text.find("eyJ", max(at + 3, run.end() if run else 0))
    # risk-assessment-template is no key, and neither is sk-bratislava-hotels.
    found += [token.span() for token in _VENDORS.finditer(text)
              if not (token[0].startswith("sk-") and is_words(token[0]))]
    return found
