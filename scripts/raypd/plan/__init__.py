"""The arithmetic of a deployment: what fits, how fast, over which wire, at what price, and in which
shape it is best served.

`shape`, `engine`, `memory`, `rates`, `wire`, `traffic` and `cost` are pure: numbers in, numbers out.
`deployment` reads values, `sheet` writes the numbers down with their formulas, `verdict` judges, and
`verb` is `raypd plan`.
"""
