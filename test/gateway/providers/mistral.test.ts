import t from 'tap'
import type { SpeechCall, TranscriptionOptions } from '../../../src/contracts/calls.ts'
import { factsOf } from '../../../src/gateway/providers/facts.ts'
import { mistral } from '../../../src/gateway/providers/mistral.ts'
import { audio, options, speechCall } from '../../support/call.ts'
import { bytesOf, fieldsOf, requestOf } from '../../support/form-of.ts'
import { fixture, reply } from '../../support/replies.ts'
import { sse, streamFixture, streamOf } from '../../support/stream-of.ts'

const HEARS = 'voxtral-mini-transcribe-3-0'
const SPEAKS = 'voxtral-mini-tts-3-0'
const HEAD = { status: 200, headers: { 'content-type': 'text/event-stream' } }

const { transcription, speech, embeddings, models } = mistral as Required<typeof mistral>
const errors = (await fixture('mistral/errors.json')) as Record<string, unknown>

function target(model: string) {
  return { model, baseUrl: mistral.baseUrl!, credential: 'key_secret', options: {} }
}

function heard(given: Partial<TranscriptionOptions> = {}) {
  return { audio: audio(), options: options(given) }
}

function said(given: Partial<SpeechCall> = {}) {
  return speechCall(given).payload
}

t.test('its own address and key', async (t) => {
  for (const request of [
    requestOf(transcription.start(heard(), target(HEARS))),
    requestOf(speech.start(said(), target(SPEAKS))),
    requestOf(embeddings.start({ input: ['a'], dimensions: null }, target('mistral-embed'))),
    requestOf(models.start(null, target(HEARS))),
  ]) {
    t.match(request.url, /^https:\/\/api\.mistral\.ai\/v1\//)
    t.equal(request.headers.authorization, 'Bearer key_secret')
  }
})

t.test('what each option becomes', async (t) => {
  const rows: readonly (readonly [Partial<TranscriptionOptions>, readonly (readonly [string, string])[]])[] =
    [
      [{}, []],
      [{ language: 'en-US' }, [['language', 'en']]],
      [{ language: 'german' }, [['language', 'de']]],
      [{ language: 'haw' }, []],
      [{ detect_language: true }, []],
      [{ language: 'en', detect_language: true }, []],
      [{ timestamps: 'segment' }, [['timestamp_granularities', 'segment']]],
      [{ response_format: 'srt' }, [['timestamp_granularities', 'segment']]],
      [{ language: 'fr', timestamps: 'segment' }, [['timestamp_granularities', 'segment']]],
      [
        { diarization: true, speaker_count_hint: 2 },
        [
          ['timestamp_granularities', 'segment'],
          ['diarize', 'true'],
        ],
      ],
      [
        { keyterms: ['Larkway', 'Alder Creek, Design'], prompt: 'A call.', smart_formatting: true },
        [
          ['context_bias', 'Larkway'],
          ['context_bias', 'Alder Creek, Design'],
        ],
      ],
    ]
  for (const [given, fields] of rows) {
    const sent = await fieldsOf(requestOf(transcription.start(heard(given), target(HEARS))))
    t.same(sent, [['model', HEARS], ...fields], JSON.stringify(given))
  }
})

t.test('what would be lost is not sent', async (t) => {
  const rows: readonly (readonly [Partial<TranscriptionOptions>, string])[] = [
    [{ timestamps: 'word' }, 'word times'],
    [{ timestamps: 'both' }, 'word times'],
    [{ redaction: ['pii'] }, 'redaction'],
    [{ multichannel: true }, 'channels'],
    [{ mode: 'realtime' }, 'realtime'],
  ]
  for (const [given, lack] of rows) {
    const expected = { kind: 'failed', failure: { kind: 'model', reason: `the model has no ${lack}` } }
    t.match(transcription.start(heard(given), target(HEARS)), expected, lack)
    t.match(transcription.streamed!.start(heard(given), target(HEARS)), expected, lack)
  }
  for (const given of [{ response_format: 'pcm' }, { response_format: 'aac' }, { speed: 1.1 }]) {
    t.match(speech.start(said(given), target(SPEAKS)), { kind: 'failed', failure: { kind: 'model' } })
  }
  const embed = embeddings.start({ input: ['a'], dimensions: 8 }, target('mistral-embed'))
  t.match(embed, { kind: 'failed', failure: { kind: 'model', reason: /^dimensions:/ } })
})

t.test('a transcript', async (t) => {
  const body = await fixture('mistral/transcript.json')
  t.same(transcription.next(null, reply(body), heard(), target(HEARS)), {
    kind: 'done',
    result: {
      text: 'Thanks for calling Northwind Support. How can I help?',
      language: 'en',
      languageConfidence: null,
      durationSeconds: 4,
      segments: [],
      words: [],
      warnings: [],
    },
  })
  const lacking = transcription.next(null, reply(body), heard({ timestamps: 'segment' }), target(HEARS))
  t.match(lacking, { kind: 'failed', failure: { kind: 'server', reason: /lacks the segment times/ } })
  const left = transcription.next(null, reply(body), heard({ language: 'haw' }), target(HEARS))
  t.match(left, { result: { warnings: [/^language: .* left out$/] } })
  for (const other of ['{}', '[]', 'null', '<html>', '{"text":7}']) {
    const step = transcription.next(null, reply(other), heard(), target(HEARS))
    t.match(step, { kind: 'failed', failure: { kind: 'server', status: 200 } }, other)
  }
})

t.test('an empty transcript with tokens is one that was lost', async (t) => {
  const usage = { prompt_audio_seconds: 63, prompt_tokens: 4, total_tokens: 190, completion_tokens: 186 }
  const empty = { model: HEARS, text: '', language: null, segments: [], usage }
  const long = heard()
  const lost = transcription.next(null, reply(empty), long, target(HEARS))
  t.match(lost, { kind: 'failed', failure: { kind: 'server', status: 200, reason: /transcript is empty/ } })
  const reader = transcription.streamed!.read({ status: 200, headers: {} }, long, target(HEARS))
  reader.push(Buffer.from(`data: ${JSON.stringify({ ...empty, type: 'transcription.done' })}\n\n`))
  t.match(reader.end(), { kind: 'server', reason: /transcript is empty/ }, 'streamed, too')
  const silent = { ...empty, usage: { ...usage, completion_tokens: 0 } }
  t.match(transcription.next(null, reply(silent), long, target(HEARS)), { kind: 'done' }, 'silence')
  const short = { ...long, audio: { ...long.audio, durationSeconds: 2 } }
  t.match(transcription.next(null, reply(empty), short, target(HEARS)), { kind: 'done' }, 'too short to tell')
})

t.test('segments in the order of time, speakers in the order in which they join', async (t) => {
  const body = await fixture('mistral/transcript.speakers.json')
  const said = { text: 'Thanks for calling Northwind Support.', start: 0, end: 1.6 }
  const asked = { text: 'Hello, I ordered two headsets.', start: 1.9, end: 4.1 }
  const read = (given: Partial<TranscriptionOptions>) =>
    transcription.next(null, reply(body), heard(given), target(HEARS))
  t.match(read({ diarization: true }), {
    kind: 'done',
    result: {
      language: null,
      durationSeconds: 4.1,
      segments: [
        { id: 0, ...said, speaker: 'speaker_0' },
        { id: 1, ...asked, speaker: 'speaker_1' },
      ],
    },
  })
  const plain = read({ response_format: 'vtt' })
  t.same(
    plain.kind === 'done' && plain.result.segments,
    [
      { id: 0, ...said },
      { id: 1, ...asked },
    ],
    'without speakers that nobody asked for, and without what has no time',
  )
})

t.test('a transcript piece by piece, however the stream is cut', async (t) => {
  const streamed = transcription.streamed!
  for (const given of [{ timestamps: 'segment' }, { diarization: true }, { response_format: 'srt' }] as const)
    t.notOk(streamed.applies?.(heard(given), target(HEARS)), JSON.stringify(given))
  t.ok(streamed.applies?.(heard({ language: 'fr', keyterms: ['a'] }), target(HEARS)))
  const fields = await fieldsOf(requestOf(streamed.start(heard(), target(HEARS))))
  t.same(fields.at(-1), ['stream', 'true'])
  const text = await streamFixture('mistral/transcript.stream.txt')
  const read = (body: string, size?: number) =>
    streamOf(streamed.read(HEAD, heard(), target(HEARS)), body, size)
  for (let size = 1; size <= 64; size += 1) {
    const { deltas, result } = read(text, size)
    t.same(deltas, [' Bonjour', ' à tous.'])
    t.match(result, { text: 'Bonjour à tous.', language: 'fr', durationSeconds: 2 }, `${size} bytes each`)
  }
  const cut = text.slice(0, text.indexOf('event: transcription.done'))
  t.match(read(cut), { deltas: [' Bonjour', ' à tous.'], failure: { kind: 'ambiguous' } })
  t.match(read(sse({ error: { message: 'm', code: 'rate_limit_exceeded' } })), { failure: { kind: 'rate' } })
  t.match(read('data: {"type":\n\n'), { failure: { kind: 'server' } })
  t.match(read(sse({ type: 'transcription.done', text: 7 })), { failure: { kind: 'server' } })
})

t.test('speech', async (t) => {
  const sent = (given: Partial<SpeechCall>) =>
    JSON.parse(bytesOf(requestOf(speech.start(said(given), target(SPEAKS)))).toString()) as unknown
  const plain = {
    model: SPEAKS,
    input: 'hello',
    voice_id: 'voice_478',
    response_format: 'mp3',
    stream: false,
  }
  t.same(sent({}), plain)
  const given = { voice: 'voice_592', response_format: 'opus', speed: 1, seed: 4 }
  t.same(sent(given), { ...plain, voice_id: 'voice_592', response_format: 'opus' })
  const types = { mp3: 'audio/mpeg', wav: 'audio/wav', flac: 'audio/flac', opus: 'audio/ogg' }
  t.same(Object.keys(types), factsOf('mistral', SPEAKS)?.limits.speech_formats)
  for (const [format, mediaType] of Object.entries(types)) {
    const step = speech.next(
      null,
      reply({ audio_data: 'SUQzBA==' }),
      said({ response_format: format }),
      target(''),
    )
    t.match(step, { kind: 'done', result: { mediaType } })
    t.same(step.kind === 'done' && Buffer.concat(step.result.audio), Buffer.from('ID3\u0004'))
  }
  for (const data of ['', 'SUQ$', 'a', 7, null, undefined]) {
    const step = speech.next(null, reply({ audio_data: data }), said(), target(SPEAKS))
    t.match(step, { kind: 'failed', failure: { kind: 'server', reason: /is no audio/ } }, String(data))
  }
})

t.test('speech as it is made, however the stream is cut', async (t) => {
  const streamed = speech.streamed!
  const text = await streamFixture('mistral/speech.stream.txt')
  const read = (body: string, size?: number) =>
    streamOf(streamed.read(HEAD, said(), target(SPEAKS)), body, size)
  for (let size = 1; size <= 64; size += 1) {
    const { deltas, result } = read(text, size)
    const bytes = Buffer.concat(deltas.map((delta) => delta.bytes))
    t.same(bytes, Buffer.from([...Buffer.from('ID3\u0004'), 0xff, 0xfb, 0x90, 0xc4]), `${size} bytes each`)
    t.same(result, { audio: [], mediaType: 'audio/mpeg' })
  }
  t.match(read(text.slice(0, text.indexOf('event: speech.audio.done'))), { failure: { kind: 'ambiguous' } })
  t.match(read(sse({ type: 'speech.audio.done' })), { failure: { kind: 'server', reason: /is no audio/ } })
  const odd = sse({ type: 'speech.audio.delta', audio_data: 'SUQ$' }, { type: 'speech.audio.done' })
  t.match(read(odd), { failure: { kind: 'server' } })
})

t.test('refusals, by what they mean', async (t) => {
  const rows: readonly (readonly [body: unknown, status: number, kind: string])[] = [
    [errors.words, 400, 'caller'],
    [errors.model, 400, 'model'],
    [errors.unknown_model, 404, 'model'],
    [errors.validation, 422, 'caller'],
    [errors.capacity, 429, 'rate'],
    [errors.key, 401, 'credential'],
    ['<html>', 502, 'server'],
  ]
  for (const [body, status, kind] of rows) {
    const answer = reply(body, status, { 'retry-after': '7' })
    const failure = { kind, status, retryAfterMs: 7000 }
    for (const step of [
      transcription.next(null, answer, heard(), target(HEARS)),
      speech.next(null, answer, said(), target(SPEAKS)),
      models.next(null, answer, null, target(HEARS)),
    ]) {
      t.match(step, { kind: 'failed', failure }, JSON.stringify(body))
    }
    t.match(transcription.streamed!.refused(answer), failure)
    t.match(speech.streamed!.refused(answer), failure)
  }
  const said422 = transcription.streamed!.refused(reply(errors.validation, 422))
  t.equal(said422.providerMessage, 'String should have at most 2 characters')
})

t.test('the models that the key sees', async (t) => {
  const list = await fixture('mistral/models.json')
  t.same(models.next(null, reply(list), null, target('')), { kind: 'done', result: [HEARS, 'mistral-embed'] })
  t.match(models.next(null, reply({ data: 7 }), null, target('')), { failure: { kind: 'server' } })
})
