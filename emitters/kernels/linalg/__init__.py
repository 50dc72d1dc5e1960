"""Dots, convolutions, and linear algebra by LAPACK."""
