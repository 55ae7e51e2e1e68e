import t from 'tap'
import type { SpeechCall, SpeechResult } from '../../../../src/contracts/calls.ts'
import type { Step } from '../../../../src/contracts/provider.ts'
import { gemini } from '../../../../src/gateway/providers/gemini/provider.ts'
import { speechCall } from '../../../support/call.ts'
import { bytesOf, requestOf } from '../../../support/form-of.ts'
import { fixture, reply } from '../../../support/replies.ts'
import { done } from '../step-result.ts'

type Given = Partial<SpeechCall>

const BASE = 'https://generativelanguage.googleapis.com/v1beta'
const TARGET = { model: 'gemini-3.8-flash-tts', baseUrl: BASE, credential: 'AIza-secret', options: {} }
const L16 = 'audio/L16;codec=pcm;rate=24000'

const start = (given: Given) => gemini.speech!.start(speechCall(given).payload, TARGET)
const next = (given: Given, body: unknown, status = 200) =>
  gemini.speech!.next(null, reply(body, status), speechCall(given).payload, TARGET)

function sent(given: Given) {
  const request = requestOf(start(given))
  return { url: request.url, body: JSON.parse(bytesOf(request).toString()) as unknown }
}

function heard(step: Step<SpeechResult>): { readonly mediaType: string; readonly bytes: Buffer } {
  const { mediaType, audio } = done(step)
  return { mediaType, bytes: Buffer.concat(audio) }
}

/** An answer with these clips. */
function spoken(...clips: readonly (readonly [mimeType: string, bytes: Uint8Array])[]) {
  const parts = clips.map(([mimeType, bytes]) => ({
    inlineData: { mimeType, data: Buffer.from(bytes).toString('base64') },
  }))
  return { candidates: [{ content: { parts, role: 'model' }, finishReason: 'STOP', index: 0 }] }
}

function interaction(contents: readonly unknown[], status = 'completed') {
  return { id: 'v1_x', status, steps: [{ type: 'model_output', content: contents }] }
}

interface WavShape {
  readonly rate?: number
  readonly channels?: number
  readonly bits?: number
  readonly format?: number
  /** What the head says of the length of the samples. */
  readonly size?: number
}

/** A WAV file with a chunk before its samples, as Gemini's may have. */
function wav(samples: Uint8Array, shape: WavShape = {}): Buffer {
  const { rate = 24_000, channels = 1, bits = 16, format = 1, size = samples.length } = shape
  const head = Buffer.alloc(58)
  head.write('RIFF\0\0\0\0WAVEfmt \x10\0\0\0', 'latin1')
  head.writeUInt32LE(50 + samples.length, 4)
  head.writeUInt16LE(format, 20)
  head.writeUInt16LE(channels, 22)
  head.writeUInt32LE(rate, 24)
  head.writeUInt32LE((rate * channels * bits) / 8, 28)
  head.writeUInt16LE((channels * bits) / 8, 32)
  head.writeUInt16LE(bits, 34)
  head.write('LIST\x05\0\0\0INFO.\0data', 36, 'latin1')
  head.writeUInt32LE(size >>> 0, 54)
  return Buffer.concat([head, samples])
}

const SAMPLES = Buffer.from([1, 0, 2, 0, 0xff, 0x7f])

t.test('samples are asked of generateContent', async (t) => {
  const url = `${BASE}/models/gemini-3.8-flash-tts:generateContent`
  const body = (text: string, voiceName: string) => ({
    contents: [{ role: 'user', parts: [{ text }] }],
    generationConfig: {
      responseModalities: ['AUDIO'],
      speechConfig: { voiceConfig: { prebuiltVoiceConfig: { voiceName } } },
    },
  })
  t.same(sent({}), { url, body: body('hello', 'Kore') })
  t.same(sent({ response_format: 'wav' }), { url, body: body('hello', 'Kore') })
  t.same(sent({ response_format: 'pcm', voice: 'Puck', input: '"é', speed: 1 }), {
    url,
    body: body('"é', 'Puck'),
  })
})

t.test('encoded formats are asked of an interaction that is not kept', async (t) => {
  const body = (mime_type: string, voice: string) => ({
    model: 'gemini-3.8-flash-tts',
    input: 'hello',
    store: false,
    response_format: { type: 'audio', mime_type, delivery: 'inline' },
    generation_config: { speech_config: [{ voice }] },
  })
  t.same(sent({ response_format: 'mp3' }), { url: `${BASE}/interactions`, body: body('audio/mp3', 'Kore') })
  t.same(sent({ response_format: 'opus', voice: 'Zephyr' }), {
    url: `${BASE}/interactions`,
    body: body('audio/ogg_opus', 'Zephyr'),
  })
})

t.test('what the provider does not make is refused', async (t) => {
  const formats = ['flac', 'aac', 'MP3', 'mp3_44100_128', 'ogg', '']
  for (const given of [
    ...formats.map((response_format) => ({ response_format })),
    { speed: 1.1 },
    { speed: 0.9 },
  ]) {
    const expected = { kind: 'failed', failure: { kind: 'model', status: null } }
    t.match(start(given), expected, JSON.stringify(given))
  }
})

t.test('wav and pcm, whichever of them Gemini makes', async (t) => {
  const file = wav(SAMPLES)
  const rows: [string | null, unknown, string, Buffer][] = [
    [null, spoken(['audio/wav', file]), 'audio/wav', file],
    ['wav', spoken(['audio/x-wav', file]), 'audio/wav', file],
    ['pcm', spoken(['audio/wav', file]), 'audio/pcm', SAMPLES],
    ['pcm', spoken(['audio/wav', wav(SAMPLES, { size: 0xffffffff })]), 'audio/pcm', SAMPLES],
    ['pcm', spoken([L16, SAMPLES]), 'audio/pcm', SAMPLES],
    ['pcm', spoken(['audio/l16', SAMPLES]), 'audio/pcm', SAMPLES],
    ['pcm', spoken([L16, SAMPLES], [L16, SAMPLES]), 'audio/pcm', Buffer.concat([SAMPLES, SAMPLES])],
    ['pcm', spoken(['audio/wav', file], [L16, SAMPLES]), 'audio/pcm', Buffer.concat([SAMPLES, SAMPLES])],
  ]
  for (const [format, body, mediaType, bytes] of rows) {
    t.same(heard(next({ response_format: format }, body)), { mediaType, bytes }, `${format} ${mediaType}`)
  }
})

t.test('samples become a WAV file that says what they are', async (t) => {
  const { mediaType, bytes } = heard(next({}, spoken(['audio/L16;codec=pcm;rate=16000', SAMPLES])))
  t.equal(mediaType, 'audio/wav')
  t.equal(bytes.length, 44 + SAMPLES.length)
  t.equal(bytes.toString('latin1', 0, 4) + bytes.toString('latin1', 8, 16), 'RIFFWAVEfmt ')
  t.equal(bytes.readUInt32LE(4), bytes.length - 8)
  t.same([bytes.readUInt32LE(16), bytes.readUInt16LE(20), bytes.readUInt16LE(22)], [16, 1, 1])
  t.same([bytes.readUInt32LE(24), bytes.readUInt32LE(28)], [16_000, 32_000])
  t.same([bytes.readUInt16LE(32), bytes.readUInt16LE(34)], [2, 16])
  t.equal(bytes.toString('latin1', 36, 40), 'data')
  t.equal(bytes.readUInt32LE(40), SAMPLES.length)
  t.same(bytes.subarray(44), SAMPLES)
})

t.test('mp3 and opus', async (t) => {
  const data = Buffer.from('encoded').toString('base64')
  const rows: [string, string, string][] = [
    ['mp3', 'audio/mp3', 'audio/mpeg'],
    ['mp3', 'audio/mpeg', 'audio/mpeg'],
    ['opus', 'audio/ogg_opus', 'audio/ogg'],
    ['opus', 'audio/ogg; codecs=opus', 'audio/ogg'],
    ['opus', 'audio/opus', 'audio/ogg'],
  ]
  for (const [format, mime_type, mediaType] of rows) {
    const thought = { type: 'thought', content: [{ type: 'text', text: 'hm' }] }
    const body = interaction([{ type: 'audio', mime_type, data }])
    const found = heard(next({ response_format: format }, { ...body, steps: [thought, ...body.steps] }))
    t.same(found, { mediaType, bytes: Buffer.from('encoded') }, mime_type)
  }
})

t.test('answers that are no such audio', async (t) => {
  const data = Buffer.from('encoded').toString('base64')
  const file = { type: 'audio', mime_type: 'audio/mp3', data }
  const inline = (inlineData: unknown) => ({
    candidates: [{ content: { parts: [{ inlineData }] }, finishReason: 'STOP' }],
  })
  const rows: [string, unknown][] = [
    ['wav', ''],
    ['wav', {}],
    ['wav', { candidates: [{ content: { parts: [{ text: 'I cannot' }] }, finishReason: 'STOP' }] }],
    ['wav', inline({ mimeType: 'audio/wav', data: '' })],
    ['wav', inline({ mimeType: 'audio/wav', data: 'not base64, not base64!' })],
    ['pcm', inline({ mimeType: L16, data: 'AAAA!!!!AAAA' })],
    ['wav', inline({ mimeType: 7, data })],
    ['wav', spoken(['audio/mp3', SAMPLES])],
    ['wav', spoken(['audio/wav', SAMPLES])],
    ['pcm', spoken(['audio/wav', wav(SAMPLES, { channels: 2 })])],
    ['pcm', spoken(['audio/wav', wav(SAMPLES, { bits: 8 })])],
    ['pcm', spoken(['audio/wav', wav(SAMPLES, { format: 7 })])],
    ['pcm', spoken(['audio/wav', wav(SAMPLES, { rate: 48_000 })])],
    ['pcm', spoken(['audio/wav', wav(SAMPLES).subarray(0, 30)])],
    ['pcm', spoken(['audio/wav', wav(SAMPLES).subarray(0, 50)])],
    ['pcm', spoken(['audio/wav', wav(Buffer.alloc(0))])],
    ['pcm', spoken([L16, SAMPLES.subarray(0, 3)])],
    ['pcm', spoken(['audio/L16;rate=8000', SAMPLES])],
    ['pcm', spoken(['audio/L16;rate=24000;channels=2', SAMPLES])],
    ['pcm', spoken(['audio/L16;rate=fast', SAMPLES])],
    ['wav', spoken([L16, SAMPLES], ['audio/L16;rate=8000', SAMPLES])],
    ['mp3', {}],
    ['mp3', interaction([])],
    ['mp3', interaction([file, file])],
    ['mp3', interaction([{ ...file, mime_type: 'audio/l16' }])],
    ['mp3', interaction([file], 'in_progress')],
    ['mp3', interaction([file], 'incomplete')],
    ['mp3', { id: 'v1_x', status: 'completed', steps: [{ type: 'user_input', content: [file] }] }],
    ['opus', interaction([file])],
  ]
  for (const [format, body] of rows) {
    const step = next({ response_format: format }, body)
    t.match(step, { kind: 'failed', failure: { kind: 'server' } }, `${format} ${JSON.stringify(body)}`)
  }
})

t.test('speech that was cut is none; content that was refused is said to be', async (t) => {
  const [candidate] = spoken([L16, SAMPLES]).candidates
  const cut = { candidates: [{ ...candidate, finishReason: 'MAX_TOKENS' }] }
  t.match(next({}, cut), { kind: 'failed', failure: { kind: 'server', reason: 'the answer was cut short' } })
  const safety = { candidates: [{ ...candidate, finishReason: 'SAFETY' }] }
  t.match(next({}, safety), { failure: { kind: 'content' } })
  t.match(next({}, { promptFeedback: { blockReason: 'PROHIBITED_CONTENT' } }), {
    failure: { kind: 'content' },
  })
  const refusal = interaction([{ type: 'text', text: 'I cannot say that.' }])
  t.match(next({ response_format: 'mp3' }, refusal), { failure: { kind: 'content', providerMessage: null } })
  const failed = { ...interaction([], 'failed'), errors: [{ code: 'SAFETY', message: 'blocked' }] }
  t.match(next({ response_format: 'mp3' }, failed), { failure: { kind: 'content' } })
  t.match(next({ response_format: 'mp3' }, interaction([], 'budget_exceeded')), {
    failure: { kind: 'credential' },
  })
})

t.test('a refusal of the provider is classified', async (t) => {
  for (const response_format of ['wav', 'mp3']) {
    const rate = next({ response_format }, await fixture('gemini/error.rate.json'), 429)
    t.match(rate, { kind: 'failed', failure: { kind: 'rate', status: 429, retryAfterMs: 30_000 } })
    const key = next({ response_format }, await fixture('gemini/error.key.json'), 400)
    t.match(key, { kind: 'failed', failure: { kind: 'credential' } })
  }
})
