"""Options of all commands that read files of any format: what a file does not state itself."""

from __future__ import annotations

from typing import Annotated

import typer

Rate = Annotated[float | None, typer.Option("--rate", help="Sample rate in Hz, for files that state none.")]
Channels = Annotated[
    str | None,
    typer.Option(
        "--channels", help="Channels to read, such as [b]x,y[/b], or their new names: [b]acc_1=x,acc_2=y[/b]."
    ),
]
Units = Annotated[
    str | None,
    typer.Option(
        "--units",
        help="Units of channels of which a file states none, such as [b]g[/b] for all or [b]x=g,i=A[/b]; stated units "
        "are converted to these.",
    ),
]
ConditionColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--condition-column",
        "--condition-columns",
        metavar="NAMES",
        help="Columns, slow series or single numbers that are operating conditions, such as [b]rpm[/b] or "
        "[b]n=speed[/b], separated by commas; may be repeated.",
    ),
]
Array = Annotated[
    str | None,
    typer.Option(
        "--array",
        help="Array, group or record to read, in files that hold several: its name, or a pattern such as "
        "[b]*.vibration[/b].",
    ),
]
Classes = Annotated[
    str | None,
    typer.Option(
        "--classes",
        help="Classes by patterns of paths, such as [b]healthy=*_K0*,inner=*_KI*[/b]; the first that fits counts.",
    ),
]
Resample = Annotated[float | None, typer.Option("--resample", help="Convert every recording to this rate in Hz.")]
