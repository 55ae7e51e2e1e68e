"""OpenAI's own client with responses. Prints a JSON value for each thing that it is asked for.

Arguments: base URL, key, names of functions below.
"""

import json
import sys

from openai import APIError, BadRequestError, OpenAI
from pydantic import BaseModel

ASK = {"model": "gpt-4o", "input": "sos"}
TOOL = {
    "type": "function",
    "name": "weather",
    "description": "what the weather is like",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": False,
}


class Place(BaseModel):
    city: str


def whole(client):
    response = client.responses.create(**ASK)
    return {"text": response.output_text, "status": response.status, "tokens": response.usage.total_tokens}


def events(client):
    return {"types": [event.type for event in client.responses.create(**ASK, stream=True)]}


def stream(client):
    with client.responses.stream(**ASK) as running:
        response = running.get_final_response()
    return {"text": response.output_text, "status": response.status}


def tools(client):
    question = [{"role": "user", "content": "the weather in Oslo"}]
    called = client.responses.create(model="gpt-4o", tools=[TOOL], input=question)
    calls = [item for item in called.output if item.type == "function_call"]
    outputs = [{"type": "function_call_output", "call_id": call.call_id, "output": "sun"} for call in calls]
    conversation = [*question, *called.output, *outputs]
    answered = client.responses.create(model="gpt-4o", tools=[TOOL], input=conversation)
    return {"arguments": [json.loads(call.arguments) for call in calls], "text": answered.output_text}


def parsed(client):
    response = client.responses.parse(model="gpt-4o", input="where?", text_format=Place)
    return {"city": response.output_parsed.city}


def refused(client):
    try:
        client.responses.create(**ASK, store=True)
    except BadRequestError as error:
        return {"code": error.code, "param": error.param, "status": error.status_code}


def broken(client):
    try:
        for _ in client.responses.create(**ASK, stream=True):
            pass
    except APIError as error:
        return {"code": error.code}


def main(base_url, key, *names):
    client = OpenAI(base_url=base_url, api_key=key, max_retries=0)
    for name in names:
        print(json.dumps({"name": name, **globals()[name](client)}), flush=True)


main(*sys.argv[1:])
