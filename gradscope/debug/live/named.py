"""What a running program calls its tensors: by its variables, and as parameters of its modules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType


class Named:
    """Looks tensors up in the program's frames, the innermost first."""

    def of(self, tensor: Any, frame: FrameType | None) -> set[str]:
        """All names of it that there are: `w`, `0.weight` and `model.0.weight`."""
        names: set[str] = set()
        seen: list[dict[str, Any]] = []
        while frame is not None:
            for scope in (frame.f_locals, frame.f_globals):
                if not any(scope is each for each in seen):
                    seen.append(scope)
                    names |= self._in(scope, tensor)
            frame = frame.f_back
        return names

    def _in(self, scope: dict[str, Any], tensor: Any) -> set[str]:
        names = set()
        for variable, value in list(scope.items()):
            if value is tensor:
                names.add(variable)
                continue
            listed = getattr(type(value), "named_parameters", None)
            if listed is None or not hasattr(type(value), "named_modules"):
                continue
            for path, parameter in listed(value):
                if parameter is tensor:
                    names |= {path, f"{variable}.{path}"}
        return names
