import t, { type Test } from 'tap'
import type { SpeechCall, TranscriptionOptions } from '../../src/contracts/calls.ts'
import type { Operation, Provider, Step, Target } from '../../src/contracts/provider.ts'
import { openai } from '../../src/gateway/providers/openai/provider.ts'
import { openaiCompatible } from '../../src/gateway/providers/openai-compatible.ts'
import { sandbox as sandboxProvider } from '../../src/gateway/providers/sandbox.ts'
import { unitSeconds } from '../../src/sandbox/morse.ts'
import { startSandbox } from '../../src/sandbox/server.ts'
import { readWav } from '../../src/sandbox/wav.ts'
import { audio, options, speechCall } from '../support/call.ts'
import { bytesOf, requestOf } from '../support/form-of.ts'

// The providers against the sandbox over real HTTP: what one writes, the other, which shares no code with it, reads.

async function drive<Call, Result>(
  operation: Pick<Operation<Call, Result>, 'start' | 'next'>,
  call: Call,
  target: Target,
  bytes?: Uint8Array,
): Promise<Step<Result>> {
  const step = operation.start(call, target)
  const { method, url, headers, ...request } = requestOf(step)
  const reply = await fetch(url, {
    method,
    headers,
    body: Uint8Array.from(bytesOf({ method, url, headers, ...request }, bytes)),
  })
  const body = [new Uint8Array(await reply.arrayBuffer())]
  return operation.next(
    null,
    { status: reply.status, headers: Object.fromEntries(reply.headers), body },
    call,
    target,
  )
}

async function start(t: Test) {
  const { url, close } = await startSandbox()
  t.teardown(close)
  const target = (model: string, given: Target['options'] = {}): Target => ({
    model,
    baseUrl: url,
    credential: null,
    options: given,
  })
  const speech = (provider: Provider, model: string, call: Partial<SpeechCall>, given?: Target['options']) =>
    drive(provider.speech!, speechCall(call).payload, target(model, given))
  const say = async (input: string) => {
    const step = await speech(sandboxProvider, 'morse-1', { input })
    return step.kind === 'done' ? Buffer.concat(step.result.audio) : Buffer.alloc(0)
  }
  const hear = (
    provider: Provider,
    model: string,
    bytes: Buffer,
    given: Partial<TranscriptionOptions> = {},
    faults?: Target['options'],
  ) => {
    const of = audio({ decodedBytes: bytes.length, filename: 'a "b".mp3' })
    return drive(
      provider.transcription!,
      { audio: of, options: options(given) },
      target(model, faults),
      bytes,
    )
  }
  const translate = (model: string, bytes: Buffer) => {
    const of = audio({ decodedBytes: bytes.length })
    return drive(sandboxProvider.translation!, { audio: of, options: options() }, target(model), bytes)
  }
  return { speech, say, hear, translate }
}

t.test('round trips', async (t) => {
  const { speech, say, hear, translate } = await start(t)
  t.match(await speech(sandboxProvider, 'morse-1', {}), { kind: 'done', result: { mediaType: 'audio/wav' } })
  const bytes = await say('good morning. hello')
  t.match(await hear(sandboxProvider, 'morse-1', bytes), {
    kind: 'done',
    result: { text: 'good morning. hello', language: null },
  })
  t.match(await hear(openai, 'whisper-1', bytes, { timestamps: 'both', response_format: 'srt' }), {
    kind: 'done',
    result: {
      text: 'good morning. hello',
      language: 'en',
      segments: [
        { id: 0, text: 'good morning.' },
        { id: 1, text: 'hello' },
      ],
      words: [{ word: 'good' }, { word: 'morning.' }, { word: 'hello' }],
    },
  })
  t.match(await hear(openai, 'gpt-4o-transcribe', bytes), {
    kind: 'done',
    result: { text: 'good morning. hello' },
  })
  for (const provider of [sandboxProvider, openaiCompatible]) {
    t.match(await hear(provider, 'morse-1', bytes, { diarization: true }), {
      kind: 'done',
      result: { segments: [{ speaker: 'speaker_0' }, { speaker: 'speaker_0' }] },
    })
  }
  t.match(await translate('morse-1', bytes), { kind: 'done', result: { text: 'good morning. hello' } })
})

t.test('refusals and faults have their kinds', async (t) => {
  const { speech, say, hear } = await start(t)
  const bytes = await say('sos')
  const kind = async (faults: Target['options']) => {
    const step = await hear(sandboxProvider, 'morse-1', bytes, {}, faults)
    return step.kind === 'failed' ? [step.failure.kind, step.failure.retryAfterMs] : [step.kind, null]
  }
  t.same(await kind({}), ['done', null])
  t.same(await kind({ status: 503, retry_after: 7 }), ['rate', 7000])
  t.same(await kind({ status: 500 }), ['server', null])
  t.same(await kind({ status: 429, code: 'insufficient_quota' }), ['credential', null])
  t.same(await kind({ status: 404 }), ['model', null])
  t.same(await kind({ status: 400 }), ['caller', null])
  t.same(await kind({ fail_times: 1, key: 'x' }), ['server', null])
  t.same(await kind({ fail_times: 1, key: 'x' }), ['done', null])
  t.match(await hear(sandboxProvider, 'morse-1', bytes, {}, { empty: true }), { result: { text: '' } })
  t.match(await hear(openai, 'whisper-9', bytes), { failure: { kind: 'model', status: 404 } })
  t.match(await hear(openai, 'whisper-1', Buffer.from('GIF89a')), {
    failure: { kind: 'caller', status: 400 },
  })
  t.match(await speech(sandboxProvider, 'morse-1', { input: '%' }), {
    failure: { kind: 'caller', status: 400 },
  })
  const opus = { response_format: 'opus' }
  t.match(await speech(openai, 'tts-1', opus), { failure: { kind: 'caller' } }, 'no opus here')
})

t.test('speech with times, and the tones that are there', async (t) => {
  const { speech } = await start(t)
  const timed = { times: true } as const
  for (const [input, speed] of [
    ['Good morning.', null],
    [' so\t e\u0301 É ', 2],
    ['e', 0.5],
  ] as const) {
    const step = await speech(sandboxProvider, 'morse-1', { ...timed, input, speed })
    if (step.kind !== 'done') throw new Error(step.kind)
    const [file] = step.result.audio
    const samples = readWav(Buffer.from(file ?? []))?.channels[0] ?? new Float32Array()
    const { characters = [], starts = [], ends = [] } = step.result.times?.text ?? {}
    t.equal(characters.join(''), input)
    t.equal(step.result.times?.normalized, null)
    const heardFrom = starts.find((start) => start > 0)
    t.equal(heardFrom, 7 * unitSeconds(speed ?? 1), 'the silence before')
    const lit = samples.map(() => 0)
    for (const [index, character] of characters.entries()) {
      const [from, to] = [starts[index] ?? Number.NaN, ends[index] ?? Number.NaN]
      t.ok(from <= to && from >= (ends[index - 1] ?? 0), `${index} follows what is before it`)
      if (!/[\s\p{M}]/u.test(character)) {
        t.ok(to > from, character)
        lit.fill(1, Math.round(from * 8000), Math.round(to * 8000))
        for (const edge of [from, to - 0.01]) t.ok(loudest(samples, edge, edge + 0.01) > 0.4, character)
      }
    }
    // A tone begins to rise half a ramp before its time.
    const between = samples.filter((_, at) => !lit[at - 20] && !lit[at] && !lit[at + 20])
    t.ok(between.length > 0 && between.every((sample) => sample === 0), 'silence between characters')
  }
  t.match(await speech(sandboxProvider, 'morse-1', { ...timed, input: '%' }), {
    failure: { kind: 'caller', status: 400 },
  })
  t.match(await speech(sandboxProvider, 'morse-1', timed, { status: 500 }), { failure: { kind: 'server' } })
})

/** Largest amplitude between two seconds of 8 kHz. */
function loudest(samples: Float32Array, from: number, to: number): number {
  const part = samples.slice(Math.round(from * 8000), Math.round(to * 8000))
  return part.reduce((most, sample) => Math.max(most, Math.abs(sample)), 0)
}
