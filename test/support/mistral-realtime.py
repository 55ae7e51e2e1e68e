"""Mistral's own client in a live transcription: prints every event as JSON.

Arguments: address, key, file of 16 kHz samples, more settings of the session as JSON.
"""

import asyncio
import json
import sys

from mistralai.client import Mistral
from mistralai.client.models import AudioFormat
from mistralai.extra.realtime import RealtimeTranscription

RATE = 16_000
PIECE = RATE * 2 // 10


async def pieces(audio):
    for at in range(0, len(audio), PIECE):
        yield audio[at : at + PIECE]


async def main(url, key, path, settings):
    with open(path, "rb") as file:
        audio = file.read()
    client = RealtimeTranscription(Mistral(api_key=key, server_url=url).sdk_configuration)
    events = client.transcribe_stream(
        audio_stream=pieces(audio),
        model="voxtral-mini-transcribe-realtime-3",
        audio_format=AudioFormat(encoding="pcm_s16le", sample_rate=RATE),
        **json.loads(settings),
    )
    async for event in events:
        print(json.dumps({"class": type(event).__name__, **event.model_dump(mode="json")}))


asyncio.run(main(*sys.argv[1:]))
