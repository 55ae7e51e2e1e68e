"""Deepgram's own asynchronous client in a live session: prints every message as JSON.

Arguments: address, key, file of 16 kHz samples.
"""

import asyncio
import json
import sys

from deepgram import AsyncDeepgramClient
from deepgram.core.events import EventType
from deepgram.environment import DeepgramClientEnvironment

RATE = 16_000
PIECE = RATE * 2 // 10


def show(message):
    print(json.dumps({"class": type(message).__name__, **message.model_dump()}))


async def main(url, key, path):
    with open(path, "rb") as file:
        audio = file.read()
    here = DeepgramClientEnvironment(base=url, production=url, agent=url, agent_rest=url)
    client = AsyncDeepgramClient(api_key=key, environment=here)
    async with client.listen.v1.connect(
        model="nova-3",
        language="en",
        encoding="linear16",
        sample_rate=RATE,
        channels=1,
        interim_results=True,
        punctuate=True,
        smart_format=True,
        vad_events=True,
        utterance_end_ms=1000,
        endpointing=300,
    ) as socket:
        socket.on(EventType.MESSAGE, show)
        socket.on(EventType.ERROR, lambda error: print(json.dumps({"error": str(error)})))
        listening = asyncio.create_task(socket.start_listening())
        for at in range(0, len(audio), PIECE):
            await socket.send_media(audio[at : at + PIECE])
            await asyncio.sleep(0.1)
        await socket.send_keep_alive()
        await socket.send_finalize()
        await socket.send_close_stream()
        await listening


asyncio.run(main(*sys.argv[1:]))
