"""OpenAI's own asynchronous client in a transcription session: prints every event as JSON.

Arguments: base URL, key, file of 24 kHz samples, number of transcripts to wait for.
"""

import asyncio
import base64
import json
import sys

from openai import AsyncOpenAI

PIECE = 24_000 * 2 // 10


async def speak(connection, audio):
    for at in range(0, len(audio), PIECE):
        piece = audio[at : at + PIECE]
        await connection.input_audio_buffer.append(audio=base64.b64encode(piece).decode())
        await asyncio.sleep(0.1)
    await connection.input_audio_buffer.commit()


async def main(base_url, key, path, count):
    with open(path, "rb") as file:
        audio = file.read()
    client = AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0)
    done = 0
    async with client.realtime.connect(extra_query={"intent": "transcription"}) as connection:
        await connection.session.update(
            session={
                "type": "transcription",
                "audio": {"input": {"transcription": {"model": "gpt-4o-transcribe", "language": "en"}}},
            }
        )
        speaking = None
        async for event in connection:
            print(json.dumps({"class": type(event).__name__, **event.model_dump()}))
            if event.type == "session.updated":
                speaking = asyncio.create_task(speak(connection, audio))
            if event.type == "conversation.item.input_audio_transcription.completed":
                done += event.transcript != ""
            if done == int(count):
                break
        await speaking


asyncio.run(main(*sys.argv[1:]))
