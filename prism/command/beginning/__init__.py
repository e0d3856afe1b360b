"""`--init`: a first scenario for a program that PRISM has not seen yet."""
