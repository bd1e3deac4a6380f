"""OpenAPI descriptions of the endpoints, whose bodies are parsed by `suwr.serve.messages`."""

from __future__ import annotations

from typing import Any

from suwr.serve.service import Service

__all__ = ["OPERATIONS", "description"]

_MODEL = {
    "type": "string",
    "description": "Digest of the model file; with it, another model is an error.",
}
_ERROR = {
    "description": "The message names the field that is wrong, never a value.",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "properties": {
                    "error": {
                        "type": "object",
                        "properties": {
                            "field": {"type": "string", "nullable": True},
                            "message": {"type": "string"},
                        },
                    }
                },
            }
        }
    },
}
_ERRORS = dict.fromkeys((400, 409, 413, 422, 503, 504), _ERROR)


def _operation(
    summary: str, properties: dict[str, Any] | None = None, required: tuple[str, ...] = ()
) -> dict[str, Any]:
    options: dict[str, Any] = {"summary": summary}
    if properties is None:
        return options
    schema = {"type": "object", "properties": properties, "required": list(required)}
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    return options | {"openapi_extra": {"requestBody": body}, "responses": _ERRORS}


_ROWS = {
    "model": _MODEL,
    "rows": {
        "type": "array",
        "items": {"type": "object"},
        "description": "Values by column. Cells that the model does not ask for may be absent or "
        "anything: they are not used.",
    },
}

#: Options of the route of each path.
OPERATIONS: dict[str, dict[str, Any]] = {
    "/next": _operation(
        "The next question after all answers so far, or the final answer with narrative, receipt "
        "and certificate.",
        {
            "model": _MODEL,
            "answers": {
                "type": "object",
                "additionalProperties": True,
                "description": "Values by column; null is a missing value.",
            },
            "known": {
                "type": "object",
                "additionalProperties": True,
                "description": "Values by column that are known in advance: they cost nothing, "
                "and the model reads them before its first question. Send the same in every "
                "request of a session. Columns that the model always knows may be among the "
                "answers instead; it asks for those that lack, with null as the unit.",
            },
            "unavailable": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Units that cannot be had: the model does not ask for them.",
            },
            "max_cost": {
                "type": "number",
                "minimum": 0,
                "description": "Largest total cost of the questions.",
            },
            "unasked": {
                "type": "string",
                "enum": ["error", "drop"],
                "default": "error",
                "description": "What to do with answers that the model does not ask for, for "
                "example after an earlier answer was changed.",
            },
        },
    ),
    "/predict": _operation("Predict rows from the columns that the model asks for.", _ROWS,
                           ("rows",)),
    "/explain": _operation("Narratives and receipts of rows.", _ROWS, ("rows",)),
    "/Questionnaire/$next-question": _operation(
        "FHIR R4, Structured Data Capture: the next question of an adaptive questionnaire.",
        {
            "resourceType": {"type": "string", "enum": ["QuestionnaireResponse", "Parameters"]},
        },
        ("resourceType",),
    ),
    "/Questionnaire": _operation("FHIR R4: all columns of the model as a Questionnaire."),
    "/": _operation("The page with the model, which runs in the browser."),
    "/model": _operation("Columns, units and classes of the model."),
    "/healthz": _operation("Whether the process can answer."),
    "/metrics": _operation("Counters of this process in the text format of Prometheus."),
}  # fmt: skip


def description(service: Service) -> str:
    """Return the description of the service."""
    target = service.model.target_name_ or "the target"
    return (
        f"Predicts {target} from as few of {len(service.questions)} columns as possible. The "
        f"service keeps no state. Model file: SHA-256 {service.digest}."
    )
