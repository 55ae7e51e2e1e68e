"""Vendors' own clients with files: prints what they heard and how they were refused, as JSON.

Arguments: client, address, key, file, how often.
"""

import json
import sys


def deepgram(url, key, path):
    from deepgram import DeepgramClient
    from deepgram.core.api_error import ApiError
    from deepgram.environment import DeepgramClientEnvironment

    here = DeepgramClientEnvironment(base=url, production=url, agent=url, agent_rest=url)
    client = DeepgramClient(api_key=key, environment=here)

    def pieces():
        with open(path, "rb") as file:
            while piece := file.read(65_536):
                yield piece

    heard = client.listen.v1.media.transcribe_file(request=pieces(), model="nova-3", smart_format=True)
    print(json.dumps({"class": type(heard).__name__, "text": heard.results.channels[0].alternatives[0].transcript}))
    try:
        client.listen.v1.media.transcribe_file(request=b"RIFF", model="nova-3", search="lark")
    except ApiError as error:
        print(json.dumps({"status": error.status_code, "code": error.body["err_code"]}))


def elevenlabs(url, key, path):
    from elevenlabs.client import ElevenLabs
    from elevenlabs.core.api_error import ApiError

    client = ElevenLabs(api_key=key, base_url=url)
    with open(path, "rb") as file:
        heard = client.speech_to_text.convert(file=file, model_id="scribe_v2")
    print(json.dumps({"class": type(heard).__name__, "text": heard.text}))
    spoken = b"".join(client.text_to_speech.convert("alloy", text="sos", model_id="eleven_v3"))
    print(json.dumps({"head": spoken[:1].hex()}))
    timed = client.text_to_speech.convert_with_timestamps("alloy", text="sos", model_id="eleven_v3")
    print(json.dumps({"characters": timed.alignment.characters}))
    try:
        client.text_to_speech.convert_with_timestamps("alloy", text="")
    except ApiError as error:
        print(json.dumps({"status": error.status_code, "code": error.body["detail"]["code"]}))


ask, (address, key, file, times) = {"deepgram": deepgram, "elevenlabs": elevenlabs}[sys.argv[1]], sys.argv[2:]
for _ in range(int(times)):
    ask(address, key, file)
