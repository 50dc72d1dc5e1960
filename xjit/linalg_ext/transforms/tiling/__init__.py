"""Operations computed tile by tile."""
