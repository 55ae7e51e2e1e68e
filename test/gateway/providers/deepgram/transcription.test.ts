import t from 'tap'
import { AUDIO_FORMATS } from '../../../../src/contracts/audio.ts'
import type { TranscriptionOptions } from '../../../../src/contracts/calls.ts'
import { deepgram } from '../../../../src/gateway/providers/deepgram/provider.ts'
import { factsOf } from '../../../../src/gateway/providers/facts.ts'
import { audio, options } from '../../../support/call.ts'
import { requestOf } from '../../../support/form-of.ts'
import { fixture, reply } from '../../../support/replies.ts'
import { done, isMergedConversation } from '../step-result.ts'

type Given = Partial<TranscriptionOptions>

const operation = deepgram.transcription!

const target = (model = 'nova-3') => ({
  model,
  baseUrl: 'https://api.deepgram.com',
  credential: 'dg-secret',
  options: {},
})

function start(given: Given, model?: string) {
  return operation.start({ audio: audio(), options: options(given) }, target(model))
}

function next(given: Given, body: unknown, status = 200) {
  return operation.next(null, reply(body, status), { audio: audio(), options: options(given) }, target())
}

/** The query but for what is always in it. */
function sent(given: Given, model = 'nova-3'): string[] {
  const query = [...new URL(requestOf(start(given, model)).url).searchParams]
  const constant = ['model', 'punctuate']
  return query.filter(([name]) => !constant.includes(name)).map(([name, value]) => `${name}=${value}`)
}

t.test('the request: options in the query, the audio as the body', async (t) => {
  const request = requestOf(start({}))
  t.equal(request.method, 'POST')
  t.equal(request.url, 'https://api.deepgram.com/v1/listen?model=nova-3&punctuate=true&detect_language=true')
  t.match(request.headers, { authorization: 'Token dg-secret', 'content-type': 'audio/wav' })
  t.match(request.body, [{ as: 'bytes', audio: { decodedBytes: 1000 } }])
  t.equal(request.body.length, 1)
  const types = AUDIO_FORMATS.map((format) => {
    const call = { audio: audio({ format }), options: options() }
    return requestOf(operation.start(call, target())).headers['content-type']
  })
  t.same(types, [
    ...['audio/mpeg', 'audio/mp4', 'video/mpeg', 'audio/wav', 'audio/webm', 'audio/ogg'],
    'audio/flac',
  ])
  t.notOk(operation.takesSeed)
})

t.test('every option is sent as the provider names it', async (t) => {
  const detect = 'detect_language=true'
  const diarized = ['diarize_model=latest', 'utterances=true']
  const rows: [Given, string[]][] = [
    [{}, [detect]],
    [{ response_format: 'text' }, [detect]],
    [{ detect_language: true }, [detect]],
    [{ detect_language: true, language: 'de' }, [detect]],
    [{ language: 'de' }, ['language=de']],
    [{ language: 'german' }, ['language=de']],
    [{ language: 'eng' }, ['language=en']],
    [{ language: 'de-AT' }, ['language=de']],
    [{ language: 'zh_tw' }, ['language=zh-TW']],
    [{ language: 'EN-gb' }, ['language=en-GB']],
    [{ timestamps: 'word' }, [detect]],
    [{ timestamps: 'segment' }, [detect, 'utterances=true']],
    [{ timestamps: 'both' }, [detect, 'utterances=true']],
    [{ response_format: 'srt' }, [detect, 'utterances=true']],
    [{ response_format: 'vtt' }, [detect, 'utterances=true']],
    [{ response_format: 'verbose_json' }, [detect, 'utterances=true']],
    [{ diarization: true }, [detect, ...diarized]],
    [{ response_format: 'diarized_json' }, [detect, ...diarized]],
    [{ multichannel: true }, [detect, 'utterances=true', 'multichannel=true']],
    [{ multichannel: true, diarization: true }, [detect, ...diarized, 'multichannel=true']],
    [{ smart_formatting: true }, [detect, 'smart_format=true']],
    [{ profanity_filter: true, language: 'en' }, ['language=en', 'profanity_filter=true']],
    [{ redaction: ['pii'], language: 'en' }, ['language=en', 'redact=pii']],
    [{ redaction: ['pii'], language: 'en-GB' }, ['language=en-GB', 'redact=pii']],
    [
      { redaction: ['pii', 'phi', 'pci', 'numbers'] },
      [detect, 'redact=pii', 'redact=phi', 'redact=pci', 'redact=numbers'],
    ],
    [{ keyterms: ['Larkway', 'a b&c=d'] }, [detect, 'keyterm=Larkway', 'keyterm=a b&c=d']],
    // Hints that it has no parameter for. Selection takes them out and says so.
    [{ prompt: 'names', speaker_count_hint: 2, seed: 7 }, [detect]],
  ]
  // In which order they come says nothing.
  for (const [given, expected] of rows)
    t.same(sent(given).sort(), [...expected].sort(), JSON.stringify(given))
})

t.test('several languages in one recording are asked for where the model has them', async (t) => {
  const several = { language: 'multi', detect_language: true }
  t.same(sent(several), ['language=multi'])
  t.same(sent(several, 'nova-3-general'), ['language=multi'])
  for (const model of ['nova-3-medical', 'nova-2'])
    t.same(sent(several, model), ['detect_language=true'], model)
  const alternative = { transcript: 'Hola, world.', confidence: 0.9, words: [], languages: ['es', 'en'] }
  const body = { results: { channels: [{ alternatives: [alternative] }] } }
  t.match(done(next(several, body)), { text: 'Hola, world.', language: 'es', warnings: [] })
  const call = { audio: audio(), options: options(several) }
  const nova2 = done(operation.next(null, reply(body, 200), call, target('nova-2')))
  t.match(nova2.warnings[0], /^language: the model takes one language/)
  const redacted = { audio: audio(), options: options({ ...several, redaction: ['pii'] }) }
  t.match(operation.unsupported!(redacted, target()), { missing: ['redaction'] })
})

t.test('keyterms go by another name on every other family', async (t) => {
  const rows: [string, string][] = [
    ['nova-3', 'keyterm=x'],
    ['nova-3-general', 'keyterm=x'],
    ['nova-3-medical', 'keyterm=x'],
    ['nova-2', 'keywords=x'],
    ['nova-2-medical', 'keywords=x'],
    ['nova-30', 'keywords=x'],
    ['enhanced', 'keywords=x'],
  ]
  for (const [model, expected] of rows) {
    t.same(sent({ language: 'en', keyterms: ['x'] }, model), ['language=en', expected], model)
  }
})

t.test('what cannot be sent is not sent', async (t) => {
  const rows: [Given, string, RegExp][] = [
    [{ mode: 'realtime' }, 'nova-3', /realtime/],
    [{ redaction: ['pii'], language: 'de' }, 'nova-3', /redaction in de/],
    [{ redaction: ['numbers'], language: 'german' }, 'nova-2', /redaction in de/],
    [{ keyterms: ['Larkway:9'] }, 'nova-2', /keyterms/],
  ]
  for (const [given, model, reason] of rows) {
    t.match(start(given, model), { kind: 'failed', failure: { kind: 'model', status: null, reason } })
  }
  t.equal(start({ keyterms: ['Larkway:9'] }, 'nova-3').kind, 'send')
})

t.test('a plain answer', async (t) => {
  const body = await fixture('deepgram/nova-3.json')
  const result = done(next({ language: 'en-US', timestamps: 'word' }, body))
  t.match(result, {
    text: 'Good morning, Larkway support. Hi. My line is down.',
    language: 'en',
    languageConfidence: null,
    durationSeconds: 5.42,
    segments: [],
    warnings: [],
  })
  t.same(result.words[2], { word: 'Larkway', start: 0.9, end: 1.4, confidence: 0.7123 })
  t.equal(done(next({}, body)).language, null, 'the provider does not say')
  const detected = done(next({ detect_language: true }, await fixture('deepgram/nova-3.detected.json')))
  t.match(detected, { text: 'Guten Morgen.', language: 'de', languageConfidence: 0.9877 })
})

t.test('utterances are the segments; without them the words are', async (t) => {
  const body = (await fixture('deepgram/nova-3.diarized.json')) as { results: Record<string, unknown> }
  const result = done(next({ diarization: true }, body))
  t.same(result.segments, [
    {
      id: 0,
      start: 0.08,
      end: 2,
      text: 'Good morning, Larkway support.',
      speaker: 'speaker_0',
      confidence: 0.98,
    },
    { id: 1, start: 2.8, end: 4.6, text: 'Hi. My line is down.', speaker: 'speaker_1', confidence: 0.98 },
  ])
  t.match(result.words.at(-1), { word: 'down.', speaker: 'speaker_1' })
  const bare = { ...body, results: { ...body.results, utterances: undefined } }
  t.match(done(next({ diarization: true }, bare)).segments, [
    { text: 'Good morning, Larkway support.', speaker: 'speaker_0' },
    { text: 'Hi. My line is down.', speaker: 'speaker_1' },
  ])
  const unasked = done(next({ timestamps: 'both' }, body))
  t.notOk(
    [...unasked.words, ...unasked.segments].some((item) => 'speaker' in item),
    'nobody asked who',
  )
})

t.test('an utterance without its times or its text loses no words: the words are the segments', async (t) => {
  const body = (await fixture('deepgram/nova-3.diarized.json')) as { results: Record<string, unknown> }
  const utterances = body.results.utterances as Record<string, unknown>[]
  for (const lost of ['start', 'end', 'transcript']) {
    const [first, ...rest] = structuredClone(utterances)
    delete first?.[lost]
    const cut = {
      ...body,
      results: { ...body.results, utterances: [{ ...first, words: [{ word: 'good' }] }, ...rest] },
    }
    t.match(
      done(next({ diarization: true }, cut)).segments,
      [
        { text: 'Good morning, Larkway support.', speaker: 'speaker_0' },
        { text: 'Hi. My line is down.', speaker: 'speaker_1' },
      ],
      `without ${lost}`,
    )
  }
})

t.test('channels are merged in time, and each counts its own speakers', async (t) => {
  const body = await fixture('deepgram/nova-3.multichannel.json')
  const result = done(next({ multichannel: true, diarization: true }, body))
  isMergedConversation(t, result)
  t.match(result, { language: 'en', languageConfidence: 0.99, durationSeconds: 7 })
  const plain = done(next({ multichannel: true }, body))
  t.notOk(plain.segments.some((segment) => 'speaker' in segment))
})

t.test('what was not redacted does not pass for redacted', async (t) => {
  const german = await fixture('deepgram/nova-3.detected.json')
  t.match(next({ redaction: ['pii'] }, german), { kind: 'failed', failure: { reason: /English only/ } })
  t.match(next({ redaction: ['pii'] }, await fixture('deepgram/nova-3.json')), {
    kind: 'failed',
    failure: { reason: /not known to be English/ },
  })
  t.equal(next({ redaction: ['pii'], language: 'en' }, await fixture('deepgram/nova-3.json')).kind, 'done')
  const channels = JSON.stringify(await fixture('deepgram/nova-3.multichannel.json'))
  t.equal(next({ redaction: ['pii'], multichannel: true }, channels).kind, 'done')
  const mixed = channels.replace('"detected_language":"en"', '"detected_language":"de"')
  t.match(
    next({ redaction: ['pii'], multichannel: true }, mixed),
    { kind: 'failed' },
    'one channel is German',
  )
})

t.test('an answer that lacks what was asked for is a failure', async (t) => {
  const heard = (...channels: unknown[]) => ({ results: { channels } })
  const alternative = (transcript: unknown, words: unknown = []) => ({
    alternatives: [{ transcript, words }],
  })
  const word = { word: 'hi', start: 0, end: 1 }
  const rows: [string, Given, unknown][] = [
    ['word times', { timestamps: 'word' }, heard(alternative('Hi'))],
    ['segment times', { response_format: 'srt' }, heard(alternative('Hi'))],
    ['speakers', { diarization: true }, heard(alternative('Hi', [word]))],
    ['times in the words', { timestamps: 'word' }, heard(alternative('Hi', [{ word: 'hi' }]))],
    ['a place for one channel', { multichannel: true }, heard(alternative('Hi', [word]), alternative('Ho'))],
    ['channels', {}, heard()],
    ['an alternative', {}, heard({ alternatives: [] })],
    ['an alternative of one channel', { multichannel: true }, heard(alternative('Hi', [word]), {})],
    ['text of its type', {}, heard(alternative(7))],
    ['results', {}, { metadata: {} }],
    ['the answer (delivered to a callback)', {}, { request_id: 'x' }],
    ['the JSON', {}, '{"results":'],
  ]
  for (const [name, given, body] of rows) {
    t.match(next(given, body), { kind: 'failed', failure: { kind: 'server', status: 200 } }, name)
  }
  t.equal(done(next({ timestamps: 'both' }, heard(alternative('')))).text, '', 'silence lacks nothing')
})

t.test('fields of the wrong type are as good as none', async (t) => {
  const words = [
    null,
    { word: 'a', start: '0', end: 1 },
    { word: 3, start: 0, end: 1 },
    { word: ' ', start: 0, end: 1 },
    { word: 'a', punctuated_word: 9, start: 2, end: 1, confidence: 2, speaker: 'x' },
  ]
  const channel = {
    alternatives: [{ transcript: ' A ', words }],
    detected_language: 5,
    language_confidence: 'x',
  }
  const utterances = [
    { start: 0, end: 1 },
    7,
    { transcript: 'A', start: 2, end: 2, channel: -1, speaker: 'x' },
  ]
  const body = { metadata: { duration: 'long' }, results: { channels: [channel], utterances } }
  const result = done(next({ timestamps: 'both' }, body))
  t.same(result, {
    text: 'A',
    language: null,
    languageConfidence: null,
    durationSeconds: null,
    words: [{ word: 'a', start: 2, end: 2 }],
    segments: [{ id: 0, start: 2, end: 2, text: 'A' }],
    warnings: ['words: 1 of 2 came without times and were left out; content is not affected'],
  })
})

t.test('a model that gives way to another for a language is not the one that is named', async (t) => {
  const info = (name: unknown, arch: unknown) => ({ 'a-b': { name, version: '1', arch } })
  const rows: [asked: string, info: unknown, served: string | null][] = [
    ['nova-3', info('2-general-nova', 'nova-3'), null],
    ['nova-3', info('general-nova-3', 'nova-3'), null],
    ['nova-3-general', info('general-nova-3', 'nova-3'), null],
    ['nova-3-medical', info('medical-nova-3', 'nova-3'), null],
    ['nova-2-phonecall', info('2-phonecall-nova', 'nova-2'), null],
    ['nova-3-medical', info('general-nova-3', 'nova-3'), 'nova-3'],
    ['nova-3-medical', info('2-general-nova', 'nova-2'), 'nova-2'],
    ['nova-2-meeting', info('2-general-nova', 'nova-2'), 'nova-2'],
    ['nova-3-medical', info('<b>', 'nova-3'), null],
    ['nova-3-medical', info(7, null), null],
    ['nova-3-medical', 'none', null],
  ]
  for (const [asked, model_info, served] of rows) {
    const channels = [{ alternatives: [{ transcript: 'Hallo.' }], detected_language: 'de' }]
    const body = reply({ metadata: { model_info }, results: { channels } })
    const call = { audio: audio(), options: options() }
    const { model, warnings } = done(operation.next(null, body, call, { ...target(), model: asked }))
    t.equal(model ?? null, served, `${asked}: ${JSON.stringify(model_info)}`)
    t.equal(
      warnings.some((line) => /^model: the provider used /.test(line)),
      served !== null,
    )
  }
})

t.test('no word of a channel is lost that has no times', async (t) => {
  const word = (word: string, start?: number) => ({
    word,
    ...(start === undefined ? {} : { start, end: start + 1 }),
  })
  const channels = [
    { alternatives: [{ transcript: 'hello there', words: [word('hello'), word('there', 1)] }] },
    { alternatives: [{ transcript: 'hi bob', words: [word('hi', 3), word('bob', 4)] }] },
  ]
  const result = done(next({ multichannel: true }, { metadata: {}, results: { channels } }))
  t.equal(result.text, 'hello there hi bob')
  t.same(
    result.segments.map(({ text }) => text),
    ['hello there', 'hi bob'],
  )
  t.match(result.warnings, [/^words: 1 of 4 /])
})

t.test('a refusal of the provider is classified', async (t) => {
  const payment = { err_code: 'ASR_PAYMENT_REQUIRED', err_msg: 'no credits' }
  t.match(next({}, payment, 402), { kind: 'failed', failure: { kind: 'credential', status: 402 } })
})

t.test('facts', async (t) => {
  const english = ['nova-3-medical', 'nova-2-meeting', 'nova-2-phonecall', 'nova-2-medical']
  for (const model of ['nova-3', 'nova-3-general', 'nova-2', 'nova-2-general', ...english]) {
    const facts = factsOf('deepgram', model)!
    t.match(facts, {
      languages: { redaction: ['en'], profanity_filter: ['de', 'en', 'es', 'pl', 'pt', 'sv'] },
      limits: { max_channels: 20, max_audio_bytes: 2e9, keyterms: { max_items: 100 } },
      price: { per_channel: true },
    })
    t.equal(facts.price?.per_hour_usd, model.startsWith('nova-3') ? 0.462 : 0.258)
    t.equal(facts.limits.keyterms?.forbidden, model.startsWith('nova-3') ? undefined : ':')
    t.equal(facts.languages?.language?.length === 1, english.includes(model), model)
  }
})
