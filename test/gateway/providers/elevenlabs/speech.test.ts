import t from 'tap'
import type { SpeechCall } from '../../../../src/contracts/calls.ts'
import { elevenlabs } from '../../../../src/gateway/providers/elevenlabs/provider.ts'
import { factsOf } from '../../../../src/gateway/providers/facts.ts'
import { speechCall } from '../../../support/call.ts'
import { bytesOf, requestOf } from '../../../support/form-of.ts'
import { reply } from '../../../support/replies.ts'

type Given = Partial<SpeechCall>

const operation = elevenlabs.speech!
const streamed = operation.streamed!
const TARGET = {
  model: 'eleven_flash_v2_5',
  baseUrl: 'https://api.elevenlabs.io',
  credential: 'xi-secret',
  options: {},
}
const FACTS = factsOf('elevenlabs', 'eleven_flash_v2_5')!

const call = (given: Given) => speechCall(given).payload
const start = (given: Given) => operation.start(call(given), TARGET)
const json = (given: Given) => JSON.parse(bytesOf(requestOf(start(given))).toString())

t.test('the request', async (t) => {
  const request = requestOf(start({}))
  t.match(request, {
    method: 'POST',
    url: 'https://api.elevenlabs.io/v1/text-to-speech/JBFqnCBsd6RMkjVDRZzb?output_format=mp3_44100_128',
    headers: { 'xi-api-key': 'xi-secret', 'content-type': 'application/json' },
  })
  t.same(json({}), { text: 'hello', model_id: 'eleven_flash_v2_5' })
  t.same(json({ input: '"\r\né', speed: 0.7, seed: 4_294_967_295 }), {
    text: '"\r\né',
    model_id: 'eleven_flash_v2_5',
    voice_settings: { speed: 0.7 },
    seed: 4_294_967_295,
  })
  t.ok(operation.takesSeed)
  const voiced = requestOf(start({ voice: '21m00Tcm4TlvDq8ikWAM' })).url
  t.match(voiced, '/v1/text-to-speech/21m00Tcm4TlvDq8ikWAM?')
})

t.test('formats: two short names, the native tokens, and nothing else', async (t) => {
  const rows: [string | null, string, string][] = [
    [null, 'mp3_44100_128', 'audio/mpeg'],
    ['mp3', 'mp3_44100_128', 'audio/mpeg'],
    ['pcm', 'pcm_24000', 'audio/pcm;rate=24000'],
    ['mp3_22050_32', 'mp3_22050_32', 'audio/mpeg'],
    ['mp3_44100_192', 'mp3_44100_192', 'audio/mpeg'],
    ['opus_48000_64', 'opus_48000_64', 'audio/ogg'],
    ['pcm_8000', 'pcm_8000', 'audio/pcm;rate=8000'],
    ['pcm_48000', 'pcm_48000', 'audio/pcm;rate=48000'],
    ['wav_22050', 'wav_22050', 'audio/wav'],
    ['ulaw_8000', 'ulaw_8000', 'audio/basic'],
    ['alaw_8000', 'alaw_8000', 'audio/PCMA'],
  ]
  for (const [asked, token, mediaType] of rows) {
    const given = { response_format: asked }
    t.equal(new URL(requestOf(start(given)).url).searchParams.get('output_format'), token, String(asked))
    const answer = operation.next(
      null,
      reply('bytes', 200, { 'content-type': 'audio/x' }),
      call(given),
      TARGET,
    )
    t.match(answer, { kind: 'done', result: { mediaType } }, String(asked))
  }
  for (const asked of [
    ...['wav', 'opus', 'flac', 'aac', 'MP3', 'mp3_44100', 'mp3_44100_256', 'pcm_11025', '', 'mp3&x=1'],
  ]) {
    const refusal = { kind: 'failed', failure: { kind: 'model', status: null, reason: /^response_format/ } }
    t.match(start({ response_format: asked }), refusal, JSON.stringify(asked))
  }
})

t.test('the table lists what is sent, and all of it', async (t) => {
  const formats = FACTS.limits.speech_formats ?? []
  t.equal(formats.length, 30)
  t.equal(new Set(formats).size, 30)
  for (const format of formats) t.equal(start({ response_format: format }).kind, 'send', format)
  t.same(FACTS.limits.speed, { min: 0.7, max: 1.2 })
  const pattern = new RegExp(FACTS.limits.voice_pattern ?? '')
  t.ok(pattern.test('JBFqnCBsd6RMkjVDRZzb'))
  for (const voice of ['alloy', 'thalia-en', 'Kore', '../voices']) t.notOk(pattern.test(voice), voice)
  const rows: [string, number, number | undefined][] = [
    ['eleven_flash_v2_5', 40_000, 0.05],
    ['eleven_turbo_v2_5', 40_000, 0.05],
    ['eleven_flash_v2', 30_000, 0.05],
    ['eleven_turbo_v2', 30_000, 0.05],
    ['eleven_multilingual_v2', 10_000, 0.1],
    ['eleven_v3', 3000, 0.1],
    ['eleven_v4', 10_000, undefined],
    ['eleven_v4_turbo', 10_000, undefined],
  ]
  for (const [model, characters, price] of rows) {
    const facts = factsOf('elevenlabs', model)
    t.equal(facts?.limits.max_input_characters, characters, model)
    t.equal(facts?.price?.per_1k_characters_usd, price, model)
  }
})

t.test('what the provider does not take is refused, never replaced', async (t) => {
  const rows: [Given, RegExp][] = [
    [{ voice: '../models' }, /^voice/],
    [{ voice: 'a/b' }, /^voice/],
    [{ voice: 'a?b' }, /^voice/],
    [{ voice: '' }, /^voice/],
    [{ voice: 'é' }, /^voice/],
    [{ voice: 'x'.repeat(65) }, /^voice/],
    [{ speed: 0.69 }, /^speed/],
    [{ speed: 1.21 }, /^speed/],
    [{ speed: Number.NaN }, /^speed/],
    [{ seed: -1 }, /^seed/],
    [{ seed: 4_294_967_296 }, /^seed/],
  ]
  for (const [given, reason] of rows) {
    const refusal = { kind: 'failed', failure: { kind: 'model', status: null, reason } }
    t.match(start(given), refusal, JSON.stringify(given))
    t.match(streamed.start(call(given), TARGET), refusal)
  }
  for (const speed of [0.7, 1, 1.2]) t.equal(start({ speed }).kind, 'send')
})

t.test('the answer is the audio, or a failure', async (t) => {
  const next = (body: string, contentType: string) =>
    operation.next(null, reply(body, 200, { 'content-type': contentType }), call({}), TARGET)
  const good = next('ID3 bytes', 'audio/mpeg')
  t.equal(good.kind === 'done' ? Buffer.concat(good.result.audio).toString() : '', 'ID3 bytes')
  for (const [body, contentType] of [
    ['', 'audio/mpeg'],
    ['{"detail":"x"}', 'application/json'],
    ['<html>', 'text/html; charset=utf-8'],
  ] as const) {
    t.match(
      next(body, contentType),
      { kind: 'failed', failure: { kind: 'server', status: 200 } },
      contentType,
    )
  }
  const missing = { detail: { status: 'missing_permissions', message: 'text_to_speech' } }
  const refusal = operation.next(null, reply(missing, 401), call({}), TARGET)
  t.match(refusal, { kind: 'failed', failure: { kind: 'credential' } })
})

t.test('the audio as it is made', async (t) => {
  const ordered = streamed.start(call({ response_format: 'pcm' }), TARGET)
  t.equal(
    requestOf(ordered).url,
    'https://api.elevenlabs.io/v1/text-to-speech/JBFqnCBsd6RMkjVDRZzb/stream?output_format=pcm_24000',
  )
  const head = { status: 200, headers: { 'content-type': 'audio/pcm' } }
  const reader = streamed.read(head, call({ response_format: 'pcm' }), TARGET)
  const mediaType = 'audio/pcm;rate=24000'
  t.same(reader.push(Buffer.from('ab')), [{ bytes: Buffer.from('ab'), mediaType }])
  t.same(reader.push(Buffer.alloc(0)), [])
  t.same(reader.push(Buffer.from('c')), [{ bytes: Buffer.from('c'), mediaType }])
  t.same(reader.end(), { result: { audio: [], mediaType } })

  t.match(streamed.read(head, call({}), TARGET).end(), { kind: 'server' }, 'no audio at all')
  const page = streamed.read({ status: 200, headers: { 'content-type': 'text/html' } }, call({}), TARGET)
  t.match(page.push(Buffer.from('<html>')), { kind: 'server', status: 200 })
  t.match(page.end(), { kind: 'server' })
  t.match(streamed.refused(reply({ detail: { status: 'system_busy' } }, 429)), { kind: 'rate' })
})

t.test('with times', async (t) => {
  const timed = { times: true } as const
  const base = 'https://api.elevenlabs.io/v1/text-to-speech/JBFqnCBsd6RMkjVDRZzb'
  t.equal(requestOf(start(timed)).url, `${base}/with-timestamps?output_format=mp3_44100_128`)
  t.equal(
    requestOf(streamed.start(call(timed), TARGET)).url,
    `${base}/stream/with-timestamps?output_format=mp3_44100_128`,
  )
  t.same(json(timed), json({}))

  const alignment = {
    characters: ['h', 'é'],
    character_start_times_seconds: [0, 0.1],
    character_end_times_seconds: [0.1, 0.25],
  }
  const text = { characters: ['h', 'é'], starts: [0, 0.1], ends: [0.1, 0.25] }
  const audio_base64 = Buffer.from('hé').toString('base64')
  const read = (body: object) => operation.next(null, reply(body), call(timed), TARGET)
  const mediaType = 'audio/mpeg'
  t.same(read({ audio_base64, alignment, normalized_alignment: null }), {
    kind: 'done',
    result: { audio: [Buffer.from('hé')], mediaType, times: { text, normalized: null } },
  })
  t.match(read({ audio_base64, normalized_alignment: alignment }), {
    result: { times: { text: null, normalized: text } },
  })
  const wrong: object[] = [
    { audio_base64 },
    { audio_base64, alignment: null, normalized_alignment: null },
    { alignment },
    { audio_base64: '', alignment },
    { audio_base64: '!', alignment },
    { audio_base64, alignment: [] },
    { audio_base64, alignment: { ...alignment, characters: ['h'] } },
    { audio_base64, alignment: { ...alignment, character_end_times_seconds: [0.1, '1'] } },
    { audio_base64, alignment: { ...alignment, character_start_times_seconds: [-1, 0] } },
    { audio_base64, alignment: { ...alignment, characters: [1, 2] } },
  ]
  const head = { status: 200, headers: { 'content-type': 'application/json' } }
  const readerOf = () => streamed.read(head, call(timed), TARGET)
  for (const body of wrong) {
    t.match(read(body), { kind: 'failed', failure: { kind: 'server', status: 200 } }, JSON.stringify(body))
    const reader = readerOf()
    const pushed = reader.push(Buffer.from(`${JSON.stringify(body)}\n`))
    t.match('kind' in pushed ? pushed : reader.end(), { kind: 'server' }, JSON.stringify(body))
  }

  await t.test('line by line, cut anywhere', async (t) => {
    const lines = [{ audio_base64, alignment }, { audio_base64 }, { audio_base64: '', alignment }]
    const bytes = Buffer.from(`${lines.map((line) => JSON.stringify(line)).join('\n\r\n')}\n`)
    const times = { text, normalized: null }
    const pieces = [
      { bytes: Buffer.from('hé'), mediaType, times },
      { bytes: Buffer.from('hé'), mediaType },
      { bytes: new Uint8Array(), mediaType, times },
    ]
    for (const size of [1, 7, 64, bytes.length]) {
      const reader = readerOf()
      const deltas: unknown[] = []
      for (let at = 0; at < bytes.length; at += size) {
        const pushed = reader.push(bytes.subarray(at, at + size))
        if ('kind' in pushed) t.fail(pushed.reason)
        else deltas.push(...pushed)
      }
      t.same(deltas, pieces, `${size}`)
      t.same(reader.end(), { result: { audio: [], mediaType } })
    }
    const cut = readerOf()
    cut.push(bytes.subarray(0, bytes.length - 1))
    t.match(cut.end(), { kind: 'ambiguous' }, 'a line without its end')
    t.match(readerOf().end(), { kind: 'server' }, 'nothing at all')
    t.match(readerOf().push(Buffer.from('<html>\n')), { kind: 'server', status: 200 })
    const refusal = { error: { code: 'quota_exceeded', message: 'no' } }
    t.match(readerOf().push(Buffer.from(`${JSON.stringify(refusal)}\n`)), { status: 200 })
  })
})
