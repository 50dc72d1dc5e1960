"""Loop nests: variables, iteration spaces, and the levels where index expressions are emitted."""
