"""The pool of KV cache blocks: reference counts, chained hashes of full blocks, least-recently-used eviction.

A block is in one of three states:

    free    holds nothing of use
    cached  holds a full block that a later request may reuse; nobody uses it now
    used    at least one block table names it

and ``free + cached + used == total`` always. The pool knows nothing of requests.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from typing import NewType

BlockId = NewType("BlockId", int)
BlockHash = NewType("BlockHash", bytes)


def root_hash(extra: bytes = b"") -> BlockHash:
    """The parent hash of a first block. ``extra`` (a tenant's salt, an adapter's name) separates caches."""
    return BlockHash(hashlib.blake2b(extra, digest_size=32, person=b"structgen-kv").digest())


def hash_block(parent: BlockHash, token_ids: Sequence[int]) -> BlockHash:
    """Hash of a full block: its tokens and, by the parent's hash, all tokens before them.

    blake2b and not a fast hash: a collision would hand one request the keys and values of another.
    """
    return BlockHash(hashlib.blake2b(array("q", token_ids).tobytes(), digest_size=32, key=parent).digest())


class BlockPool:
    """Hands out blocks, keeps what they hold, and takes them back.

    Block tables are append-only: a block is never exchanged for an equal one, so two blocks may hold the same
    tokens; only the first of them is found by `lookup`.
    """

    def __init__(self, num_blocks: int, block_size: int, *, enable_caching: bool = True) -> None:
        if num_blocks < 1 or block_size < 1:
            raise ValueError(f"num_blocks={num_blocks}, block_size={block_size}; allowed: at least 1 each")
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.enable_caching = enable_caching
        self.evictions = 0
        self.reset()

    def reset(self) -> None:
        """Forget everything: all blocks are free."""
        self._refs = [0] * self.num_blocks
        self._free = [BlockId(i) for i in range(self.num_blocks - 1, -1, -1)]
        # Unused blocks that hold a registered prefix, least recently used first.
        self._cached: OrderedDict[BlockId, None] = OrderedDict()
        self._by_hash: dict[BlockHash, BlockId] = {}
        self._contents: dict[BlockId, tuple[BlockHash, tuple[int, ...]]] = {}

    @property
    def num_available(self) -> int:
        """Blocks that `extend` can hand out: free ones, and cached ones by eviction."""
        return len(self._free) + len(self._cached)

    @property
    def num_cached(self) -> int:
        return len(self._cached)

    @property
    def num_used(self) -> int:
        return self.num_blocks - self.num_available

    def blocks_for(self, num_tokens: int) -> int:
        """How many blocks hold ``num_tokens``."""
        return -(-num_tokens // self.block_size)

    def lookup(self, hashes: Sequence[BlockHash], token_ids: Sequence[int]) -> list[BlockId]:
        """The longest run of registered blocks for a prefix; nothing is taken yet.

        Args:
            hashes: chained hashes of the prefix's full blocks.
            token_ids: the prefix's tokens; compared on every hit, so a collision cannot pass.
        """
        found: list[BlockId] = []
        for index, block_hash in enumerate(hashes):
            block = self._by_hash.get(block_hash)
            if block is None:
                break
            start = index * self.block_size
            if self._contents[block][1] != tuple(token_ids[start : start + self.block_size]):
                break
            found.append(block)
        return found

    def count_registered(self, hashes: Sequence[BlockHash]) -> int:
        """How many of a prefix's blocks `lookup` would find, but for collisions."""
        return next((index for index, block_hash in enumerate(hashes) if block_hash not in self._by_hash), len(hashes))

    def is_private(self, block: BlockId) -> bool:
        """Whether one block table alone names it and `lookup` does not find it: only then may it be written again."""
        return self._refs[block] == 1 and block not in self._contents

    def num_idle(self, blocks: Iterable[BlockId]) -> int:
        """How many of ``blocks`` are cached and unused, and so count in ``num_available``."""
        return sum(1 for block in blocks if not self._refs[block])

    def share(self, blocks: Iterable[BlockId]) -> None:
        """Take one more reference on blocks that hold valid contents (a prefix hit, or a fork)."""
        for block in blocks:
            if self._refs[block] == 0:
                if block not in self._cached:
                    raise RuntimeError(f"block {block} is free and cannot be shared")
                del self._cached[block]
            self._refs[block] += 1

    def extend(self, table: list[BlockId], num_tokens: int) -> bool:
        """Append blocks to ``table`` until it holds ``num_tokens``; False (and nothing taken) when too few are left."""
        missing = self.blocks_for(num_tokens) - len(table)
        if missing <= 0:
            return True
        if missing > self.num_available:
            return False
        for _ in range(missing):
            block = self._free.pop() if self._free else self._evict()
            self._refs[block] = 1
            table.append(block)
        return True

    def _evict(self) -> BlockId:
        block, _ = self._cached.popitem(last=False)
        block_hash, _tokens = self._contents.pop(block)
        del self._by_hash[block_hash]
        self.evictions += 1
        return block

    def register(self, block: BlockId, block_hash: BlockHash, token_ids: Sequence[int]) -> None:
        """Make a full, computed block findable, unless an equal one already is."""
        if not self.enable_caching or block_hash in self._by_hash or block in self._contents:
            return
        self._by_hash[block_hash] = block
        self._contents[block] = (block_hash, tuple(token_ids))

    def release(self, table: list[BlockId]) -> None:
        """Give back one reference on each block and empty the table.

        In reverse, so that the tail of a prefix is evicted before its head: a head without its tail is still of
        use, a tail without its head is not.
        """
        self.truncate(table, 0)

    def truncate(self, table: list[BlockId], num_blocks: int) -> None:
        """`release` for the blocks after the first ``num_blocks``."""
        while len(table) > num_blocks:
            block = table.pop()
            refs = self._refs[block] - 1
            if refs < 0:
                raise RuntimeError(f"block {block} was released more often than taken")
            self._refs[block] = refs
            if refs == 0:
                if block in self._contents:
                    self._cached[block] = None
                else:
                    self._free.append(block)

    def check(self, tables: Iterable[Sequence[BlockId]] = ()) -> None:
        """Raise RuntimeError unless the pool's books agree with these block tables (all that exist).

        With no tables this is the check at idle: free + cached + used == total, and used is 0.
        """
        owners = Counter(block for table in tables for block in table)
        free, cached = set(self._free), set(self._cached)
        used = {block for block, refs in enumerate(self._refs) if refs}
        problems = []
        if len(free) != len(self._free) or free & cached or free & used or cached & used:
            problems.append("a block is in two states")
        if len(free) + len(cached) + len(used) != self.num_blocks:
            problems.append(
                f"free {len(free)} + cached {len(cached)} + used {len(used)} is not total {self.num_blocks}"
            )
        wrong = [block for block, refs in enumerate(self._refs) if refs != owners[BlockId(block)]]
        if wrong:
            problems.append(f"reference counts of blocks {wrong[:8]} differ from the block tables")
        if not cached <= self._contents.keys() or free & self._contents.keys():
            problems.append("a cached block holds nothing, or a free one holds something")
        if any(self._contents[block][0] != key for key, block in self._by_hash.items()):
            problems.append("a hash leads to a block of other contents")
        if len(self._by_hash) != len(self._contents):
            problems.append("contents without a hash")
        if problems:
            raise RuntimeError("the block pool is inconsistent: " + "; ".join(problems))
