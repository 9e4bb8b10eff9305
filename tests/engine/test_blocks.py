from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structgen.engine.blocks import BlockId, BlockPool, hash_block, root_hash


def chain(tokens: list[int], size: int, salt: bytes = b"") -> list:
    hashes, parent = [], root_hash(salt)
    for start in range(0, len(tokens) - len(tokens) % size, size):
        parent = hash_block(parent, tokens[start : start + size])
        hashes.append(parent)
    return hashes


def fill(pool: BlockPool, tokens: list[int]) -> list[BlockId]:
    table: list[BlockId] = []
    assert pool.extend(table, len(tokens))
    for index, block_hash in enumerate(chain(tokens, pool.block_size)):
        pool.register(table[index], block_hash, tokens[index * pool.block_size : (index + 1) * pool.block_size])
    return table


def test_hash_depends_on_parent_tokens_and_salt():
    one = hash_block(root_hash(), [1, 2])
    assert one == hash_block(root_hash(), (1, 2))
    assert one != hash_block(root_hash(), [2, 1])
    assert one != hash_block(one, [1, 2])
    assert one != hash_block(root_hash(b"tenant"), [1, 2])


def test_released_prefix_is_found_again_and_evicted_tail_first():
    pool = BlockPool(4, 2)
    tokens = [1, 2, 3, 4, 5, 6]
    table = fill(pool, tokens)
    expected = list(table)
    pool.release(table)
    assert table == []
    assert (pool.num_used, pool.num_cached, pool.num_available) == (0, 3, 4)
    assert pool.lookup(chain(tokens, 2), tokens) == expected
    other: list[BlockId] = []
    assert pool.extend(other, 4)  # the free block, then the tail of the cached prefix
    assert pool.lookup(chain(tokens, 2), tokens) == expected[:2]
    pool.release(other)
    pool.check()


def test_hit_compares_tokens():
    pool = BlockPool(4, 2)
    table = fill(pool, [1, 2])
    collision = chain([1, 2], 2)  # as if [7, 8] had the hash of [1, 2]
    assert pool.lookup(collision, [7, 8]) == []
    assert pool.lookup(collision, [1, 2]) == table


def test_equal_blocks_are_registered_once_and_both_come_back():
    pool = BlockPool(4, 2)
    first, second = fill(pool, [1, 2]), fill(pool, [1, 2])
    assert pool.lookup(chain([1, 2], 2), [1, 2]) == first
    pool.release(second)
    pool.release(first)
    pool.check()
    assert (pool.num_cached, pool.num_available) == (1, 4)


def test_extend_takes_all_or_nothing():
    pool = BlockPool(2, 4)
    table: list[BlockId] = []
    assert not pool.extend(table, 9)
    assert table == []
    assert pool.num_available == 2
    assert pool.extend(table, 8)
    assert pool.extend(table, 5)  # enough already
    assert len(table) == 2


def test_without_caching_nothing_is_kept():
    pool = BlockPool(4, 2, enable_caching=False)
    pool.release(fill(pool, [1, 2, 3, 4]))
    assert pool.num_cached == 0
    assert pool.lookup(chain([1, 2], 2), [1, 2]) == []


def test_check_finds_wrong_books():
    pool = BlockPool(4, 2)
    table = fill(pool, [1, 2])
    pool.check([table])
    with pytest.raises(RuntimeError, match="reference counts"):
        pool.check()
    with pytest.raises(RuntimeError, match="reference counts"):
        pool.check([table, table])
    pool.reset()
    pool.check()


def test_release_twice_is_refused():
    pool = BlockPool(4, 2)
    table = fill(pool, [1, 2])
    twice = list(table)
    pool.release(table)
    with pytest.raises(RuntimeError, match="more often"):
        pool.release(twice)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_random_use_keeps_the_books(data: st.DataObject):
    """Sequences over two tokens (so that prefixes meet) come, hit, grow and go; contents are what was written."""
    pool = BlockPool(data.draw(st.integers(1, 8)), 2)
    written: dict[int, tuple[int, ...]] = {}  # block -> the whole prefix that it ends
    live: list[tuple[list[BlockId], list[int]]] = []
    for _ in range(data.draw(st.integers(1, 25))):
        if live and data.draw(st.booleans()):
            table, _tokens = live.pop(data.draw(st.integers(0, len(live) - 1)))
            pool.release(table)
        else:
            tokens = data.draw(st.lists(st.integers(0, 1), min_size=1, max_size=10))
            hashes = chain(tokens, 2)
            hits = pool.lookup(hashes, tokens)
            for index, block in enumerate(hits):
                assert written[block] == tuple(tokens[: (index + 1) * 2])
            needed = pool.blocks_for(len(tokens)) - len(hits)
            fits = needed + pool.num_idle(hits) <= pool.num_available
            table: list[BlockId] = []
            pool.share(hits)
            table.extend(hits)
            assert pool.extend(table, len(tokens)) is fits
            if not fits:
                pool.release(table)
                continue
            for index in range(len(hits), len(hashes)):
                written[table[index]] = tuple(tokens[: (index + 1) * 2])
                pool.register(table[index], hashes[index], tokens[index * 2 : index * 2 + 2])
            live.append((table, tokens))
        pool.check([table for table, _ in live])
    for table, _ in live:
        pool.release(table)
    pool.check()
    assert pool.num_available == pool.num_blocks
