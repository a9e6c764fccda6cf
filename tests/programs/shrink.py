"""Cuts a recipe down while it still fails in the same way, and prints it as a script."""

import copy
from collections.abc import Callable
from pathlib import Path

import numpy as np

from . import recipe as recipes


def without(recipe: dict, path: list[int], count: int = 1) -> dict | None:
    """The recipe without one step or more, and without the steps and names that need them. A path goes step, part, step, ..."""
    smaller = copy.deepcopy(recipe)
    steps = smaller["steps"]
    for step, part in zip(path[:-1:2], path[1:-1:2]):
        steps = steps[step][part]
    gone = {name for step in steps[path[-1]:path[-1] + count] for name in recipes.bound_names(step)}
    del steps[path[-1]:path[-1] + count]
    drop(smaller["steps"], gone)
    smaller["loss"] = [name for name in smaller["loss"] if name not in gone]
    return smaller if smaller["loss"] else None


def drop(steps: list, gone: set[str]) -> None:
    """Removes the steps that use names that are gone, and adds the names that they bound."""
    for step in list(steps):
        for part in step:
            if isinstance(part, list):
                drop(part, gone)
        own = {name for part in step if isinstance(part, str) for name in recipes.used_names([part])}
        if own & gone:
            gone |= recipes.bound_names(step)
            steps.remove(step)


def paths(steps: list, prefix: tuple = ()) -> list[list[int]]:
    """Ways to all steps, last ones first, inner ones before the step around them."""
    found = []
    for number in reversed(range(len(steps))):
        for part, inside in enumerate(steps[number]):
            if isinstance(inside, list):
                found += paths(inside, (*prefix, number, part))
        found.append([*prefix, number])
    return found


def simpler(recipe: dict) -> list[dict]:
    """Recipes with one thing less."""
    found = []
    for number in range(len(recipe["runs"])):
        if len(recipe["runs"]) > 1:
            found.append({**recipe, "runs": recipe["runs"][:number] + recipe["runs"][number + 1:]})
    if recipe["optimizer"]:
        found.append({**recipe, "optimizer": None})
    if recipe["model"]:
        found.append({**recipe, "model": False})
    found += [smaller for path in paths(recipe["steps"]) if (smaller := without(recipe, path))]
    if len(recipe["loss"]) > 1:
        found += [{**recipe, "loss": [other for other in recipe["loss"] if other != name]} for name in recipe["loss"]]
    for number, run in enumerate(recipe["runs"]):
        for name in run["fetch"]:
            runs = copy.deepcopy(recipe["runs"])
            runs[number]["fetch"].remove(name)
            found.append({**recipe, "runs": runs})
    return found


def halves(recipe: dict, fails: Callable[[dict], bool]) -> dict:
    """The recipe without long stretches of steps."""
    count = len(recipe["steps"]) // 2
    while count > 1:
        start = len(recipe["steps"]) - count
        while start >= 0:
            smaller = without(recipe, [start], count)
            if smaller and fails(smaller):
                recipe = smaller
            start = min(start, len(recipe["steps"])) - count
        count //= 2
    return recipe


def shrink(recipe: dict, fails: Callable[[dict], bool], most: int = 400) -> dict:
    """The smallest recipe found with so many tries."""
    tries = 0
    again = True
    recipe = halves(recipe, fails)
    while again:
        again = False
        todo, index = simpler(recipe), 0
        while index < len(todo) and tries < most:
            tries += 1
            if fails(todo[index]):
                recipe, again = todo[index], True
                todo = simpler(recipe)
                index = min(index, len(todo))  # what came before it did not help
                continue
            index += 1
    return recipe


def script(recipe: dict, dtype: str = "float64") -> str:
    """A recipe as a script of its own."""
    lines = [Path(__file__).with_name("words.py").read_text(), "import numpy as np", f"DTYPE = '{dtype}'", ""]
    lines += recipes.lines_of(recipe["steps"])
    lines.append(f"loss = total([{', '.join(recipe['loss'])}])")
    lines.append("test = fluid.default_main_program().clone(for_test=True)")
    lines.append(f"{recipe['optimizer']}.minimize(loss)" if recipe["optimizer"] else "fluid.backward.append_backward(loss)")
    lines += ["exe = fluid.Executor(fluid.CPUPlace())", "exe.run(fluid.default_startup_program())",
              "print([(p.name, p.shape) for p in test.all_parameters()])  # recipe.start_of() gives their values", ""]
    names = recipes.bound_names([part for step in recipe["steps"] for part in step])
    for number, run in enumerate(recipe["runs"]):
        feed = []
        for name, entry in recipe["feeds"].items():
            if name in names:
                array, lengths = recipes.values_of(entry, name, recipe, number)
                text = (f"np.array({np.array2string(array, separator=', ', threshold=10**9)}, "
                        f"{'DTYPE' if array.dtype.kind == 'f' else repr('int64')}).reshape({list(array.shape)})")
                feed.append(f"'{name}': " + (f"fluid.create_lod_tensor({text}, [{lengths}], fluid.CPUPlace())"
                                             if lengths is not None else text))
        fetch = [name for name in run["fetch"] if name in names] + ["loss"]
        gradients = [] if run["test"] else [f"'{name}@GRAD'" for name in recipe["feeds"] if name in names and
                                            recipe["feeds"][name]["kind"] == "float"]
        lines.append(f"fetch = [{', '.join(fetch + gradients)}]")
        lines.append(f"print(exe.run({'test' if run['test'] else 'fluid.default_main_program()'}, feed={{{', '.join(feed)}}}, "
                     "fetch_list=fetch, return_numpy=False))")
    return "\n".join(lines) + "\n"
