"""Graphs as text for the `dot` tool."""

import os

__all__ = ["crepr", "Rank", "Graph", "Node", "Edge", "GraphPreviewGenerator"]


def crepr(value) -> str:
    """Writes a value the way dot reads it: text in quotes."""
    return f'"{value}"' if isinstance(value, str) else str(value)


def _options(attrs: dict) -> str:
    return ", ".join(f"{key}={crepr(value)}" for key, value in attrs.items())


class Rank:
    """A group of nodes that dot puts on one level."""

    def __init__(self, kind: str, name: str, priority: int):
        self.kind = kind
        self.name = name
        self.priority = priority
        self.nodes: list = []

    def __str__(self) -> str:
        if not self.nodes:
            return ""
        return f"{{rank={self.kind}; {', '.join(node.name for node in self.nodes)}}}"


class Node:
    """One node; its name is the prefix with a running number."""

    counter = 1

    def __init__(self, label: str, prefix: str, description: str = "", **attrs):
        self.label = label
        self.name = f"{prefix}_{Node.counter}"
        self.description = description
        self.attrs = attrs
        Node.counter += 1

    def __str__(self) -> str:
        extra = f", {_options(self.attrs)}" if self.attrs else ""
        return f"{self.name} [label={self.label}{extra}];"


class Edge:
    """An arrow from one node to another."""

    def __init__(self, source: Node, target: Node, **attrs):
        self.source = source
        self.target = target
        self.attrs = attrs

    def __str__(self) -> str:
        extra = f" [{_options(self.attrs)}]" if self.attrs else ""
        return f"{self.source.name} -> {self.target.name}{extra}"


class Graph:
    """Nodes, edges and ranks under a title; `attrs` hold for the whole graph."""

    rank_counter = 0

    def __init__(self, title: str, **attrs):
        self.title = title
        self.attrs = attrs
        self.nodes: list = []
        self.edges: list = []
        self.rank_groups: dict = {}

    def rank_group(self, kind: str, priority: int) -> str:
        """Opens a rank and returns its name, to be given to `node` as `rank`."""
        name = f"rankgroup-{Graph.rank_counter}"
        Graph.rank_counter += 1
        self.rank_groups[name] = Rank(kind, name, priority)
        return name

    def node(self, label: str, prefix: str, description: str = "", **attrs) -> Node:
        """Adds a node."""
        rank = attrs.pop("rank", None)
        node = Node(label, prefix, description, **attrs)
        if rank is not None:
            self.rank_groups[rank].nodes.append(node)
        self.nodes.append(node)
        return node

    def edge(self, source: Node, target: Node, **attrs) -> Edge:
        """Adds an arrow."""
        edge = Edge(source, target, **attrs)
        self.edges.append(edge)
        return edge

    def code(self) -> str:
        """Returns the text for dot."""
        return str(self)

    def __str__(self) -> str:
        lines = ["digraph G {", f"label={crepr(self.title)};"]
        lines += [f"{key}={crepr(value)};" for key, value in self.attrs.items()]
        ranks = sorted(self.rank_groups.values(), key=lambda rank: rank.priority)
        lines += [text for text in map(str, ranks) if text]
        lines += [str(node) for node in self.nodes]
        lines += [str(edge) for edge in self.edges]
        return "\n".join([*lines, "}"]) + "\n"

    def compile(self, dot_path: str) -> str:
        """Writes the dot file, and a PDF beside it where `dot` is installed. Returns the PDF's path."""
        import shutil
        import subprocess

        with open(dot_path, "w", encoding="utf-8") as file:
            file.write(str(self))
        image_path = f"{os.path.splitext(dot_path)[0]}.pdf"
        if shutil.which("dot"):
            subprocess.run(["dot", "-Tpdf", dot_path, "-o", image_path], check=False, capture_output=True)
        return image_path

    def show(self, dot_path: str) -> None:
        """Writes the files and opens the PDF with the desktop's viewer."""
        import shutil
        import subprocess

        image_path = self.compile(dot_path)
        viewer = shutil.which("xdg-open") or shutil.which("open")
        if viewer and os.path.exists(image_path):
            subprocess.run([viewer, image_path], check=False, capture_output=True)


class GraphPreviewGenerator:
    """Draws a program: parameters, other variables and ops each with a look of their own."""

    _look = {"style": "rounded,filled,bold", "fontname": "Arial"}

    def __init__(self, title: str):
        self.graph = Graph(title, layout="dot", concentrate="true", rankdir="TB")
        self.op_rank = self.graph.rank_group("same", 2)
        self.param_rank = self.graph.rank_group("same", 1)
        self.arg_rank = self.graph.rank_group("same", 0)

    def __call__(self, path: str = "temp.dot", show: bool = False) -> None:
        if show:
            self.graph.show(path)
        else:
            self.graph.compile(path)

    def add_param(self, name: str, data_type, shape=None, highlight: bool = False) -> Node:
        """Adds a parameter with its type."""
        kind = str(data_type) if shape is None else f"{data_type} {list(shape)}"
        label = f'<<table cellpadding="5"><tr><td><b>{name}</b></td></tr><tr><td>{kind}</td></tr></table>>'
        color = "orange" if highlight else "#148b97"
        return self.graph.node(
            label, "param", name, shape="none", width="1.3", color=color, fontcolor="#ffffff", **self._look
        )

    def add_op(self, opType: str, highlight: bool = False, **kwargs) -> Node:
        """Adds an op."""
        color = "orange" if highlight else "#303a3a"
        attrs = {
            "shape": "box",
            "width": "1.3",
            "height": "0.84",
            "fontcolor": "#ffffff",
            **self._look,
            **kwargs,
        }
        return self.graph.node(f"<<b>{opType}</b>>", "op", opType, color=color, **attrs)

    def add_arg(self, name: str, highlight: bool = False) -> Node:
        """Adds a variable that is no parameter."""
        color = "orange" if highlight else "#dddddd"
        return self.graph.node(
            crepr(name), "arg", name, shape="box", color=color, fontcolor="#555555", **self._look
        )

    def add_edge(self, source: Node, target: Node, highlight: bool = False, **kwargs) -> Edge:
        """Adds an arrow."""
        return self.graph.edge(source, target, color="orange" if highlight else "#000000", **kwargs)
