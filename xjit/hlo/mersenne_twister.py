"""The 64-bit Mersenne Twister, number for number the sequence of C++ `std::mt19937_64`."""

from __future__ import annotations

_N, _M = 312, 156
_MASK = (1 << 64) - 1
_MATRIX = 0xB5026F5AA96619E9
_UPPER, _LOWER = _MASK ^ 0x7FFFFFFF, 0x7FFFFFFF


class MersenneTwister64:
    """A generator of 64-bit numbers. Not synchronized: callers that share one hold a lock."""

    def __init__(self, seed: int = 5489) -> None:
        state = [seed & _MASK]
        for i in range(1, _N):
            previous = state[-1]
            state.append((6364136223846793005 * (previous ^ (previous >> 62)) + i) & _MASK)
        self._state = state
        self._position = _N

    def next(self) -> int:
        """Returns the next number, 0 <= n < 2**64."""
        if self._position == _N:
            self._twist()
        x = self._state[self._position]
        self._position += 1
        x ^= (x >> 29) & 0x5555555555555555
        x ^= (x << 17) & 0x71D67FFFEDA60000
        x ^= (x << 37) & 0xFFF7EEE000000000
        return x ^ (x >> 43)

    def _twist(self) -> None:
        state = list(self._state)  # written back whole: a fork in another thread may copy this object at any time
        for i in range(_N):
            x = (state[i] & _UPPER) | (state[(i + 1) % _N] & _LOWER)
            state[i] = state[(i + _M) % _N] ^ (x >> 1) ^ (_MATRIX if x & 1 else 0)
        self._state, self._position = state, 0
