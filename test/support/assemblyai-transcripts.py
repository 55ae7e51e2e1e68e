"""AssemblyAI's own client with files. Prints a JSON value for each thing that it does.

Arguments: base URL, key, path of a short file, what it says, path of a file of 25 MB, what that says.
"""

import json
import sys

import assemblyai as aai


def say(name, **values):
    print(json.dumps({"name": name, **values}))


def refused(call):
    try:
        call()
    except aai.types.AssemblyAIError as error:
        return str(error)
    return "nothing was raised"


def main(base_url, key, short, short_text, large, large_text):
    aai.settings.base_url = base_url
    aai.settings.api_key = key
    aai.settings.polling_interval = 0.1
    transcriber = aai.Transcriber()

    transcript = transcriber.transcribe(short)
    say(
        "transcribed",
        status=transcript.status,
        isRight=transcript.text == short_text,
        sentences=len(transcript.get_sentences()),
        paragraphs=len(transcript.get_paragraphs()),
        subtitles=transcript.export_subtitles_srt().split(" --> ")[0],
    )
    found = transcript.word_search([short_text.split(" ")[0], "nothing"])
    say("searched", matches=[[match.text, match.count, match.indexes] for match in found])

    whole = transcriber.transcribe(large)
    say("large", status=whole.status, isRight=whole.text == large_text)

    params = aai.ListTranscriptParameters(limit=1)
    page = transcriber.list_transcripts(params)
    ids = [one.id for one in page.transcripts]
    while page.page_details.before_id_of_prev_url is not None:
        params.before_id = page.page_details.before_id_of_prev_url
        page = transcriber.list_transcripts(params)
        ids += [one.id for one in page.transcripts]
    say("listed", isRight=ids == [whole.id, transcript.id])

    gone = aai.Transcript.delete_by_id(transcript.id)
    again = aai.Transcript.get_by_id(transcript.id)
    say("deleted", status=gone.status, texts=[gone.text, again.text], url=again.audio_url)

    config = aai.TranscriptionConfig(summarization=True)
    message = refused(lambda: transcriber.submit(short, config))
    say("refused", isNamed="`summarization` must be left out" in message)


main(*sys.argv[1:])
