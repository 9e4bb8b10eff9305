"""The string formats of JSON Schema (drafts 4 to 2020-12; validation section 7.3) as languages.

Choices where the specifications leave some: years run from 0001 (many validators know no year 0); a leap
second is taken where it can be one, at 23:59:60 UTC, in ``date-time`` on the last day of June or December; the
length limits of the mail and name standards hold; relative JSON pointers have no index manipulation; URI templates
use no reserved operator. Those of names, mail and patterns are told in hosts.py, mail.py and regexes.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from types import MappingProxyType

from structgen.errors import GrammarError
from structgen.grammars.encoding import Encoding
from structgen.grammars.expr import Expr
from structgen.grammars.formats import addresses, hosts, mail, plain, regexes, times, uris

FORMATS: Mapping[str, Callable[[Encoding], Expr]] = MappingProxyType({
    "date": times.date,
    "time": times.time,
    "date-time": times.date_time,
    "duration": times.duration,
    "email": partial(mail.mailbox, False),
    "idn-email": partial(mail.mailbox, True),
    "hostname": partial(hosts.name, hosts.HOSTNAME),
    "idn-hostname": partial(hosts.name, hosts.IDN_HOSTNAME),
    "ipv4": addresses.ipv4,
    "ipv6": partial(addresses.ipv6, 7),
    "uri": partial(uris.uri, False, False),
    "uri-reference": partial(uris.uri, True, False),
    "iri": partial(uris.uri, False, True),
    "iri-reference": partial(uris.uri, True, True),
    "uuid": plain.uuid,
    "uri-template": plain.uri_template,
    "json-pointer": plain.json_pointer,
    "relative-json-pointer": plain.relative_json_pointer,
    "regex": regexes.regex,
})
"""Name of a format -> its language in an encoding."""


@lru_cache(maxsize=256)
def expr(name: str, encoding: Encoding) -> Expr:
    """The language of a format.

    Raises:
        GrammarError: no format of this name.
    """
    if name in FORMATS:
        return FORMATS[name](encoding)
    raise GrammarError(f"there is no format {name!r}; these are known: {', '.join(sorted(FORMATS))}")
