import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { DEFAULT_LIMITS, type Limits } from '../../../src/contracts/limits.ts'
import { receiveAudio, receiveFields } from '../../../src/gateway/edge/body.ts'
import type { AudioTap } from '../../../src/gateway/edge/scanner.ts'
import { cutsOf, fragment, type MultipartBody, multipart, noise } from '../../support/bodies.ts'
import { FakeExchange, type FakeRequest } from '../../support/fake-exchange.ts'
import { MemorySpool } from './memory-spool.ts'

/** Keeps what it is given. */
class RecordingTap implements AudioTap {
  readonly encodings = new Set<string>()
  readonly #views: Buffer[] = []

  take(view: Uint8Array, encoding: 'identity' | 'base64'): void {
    this.encodings.add(encoding)
    this.#views.push(Buffer.from(view))
  }

  get bytes(): Buffer {
    return Buffer.concat(this.#views)
  }
}

/** Receives a body, kept and tapped; what the tap has got must be what the audio is found to be in the body. */
async function receive(request: FakeRequest, limits: Partial<Limits> = {}) {
  const spool = new MemorySpool()
  const passing = new RecordingTap()
  const unneeded = { spool, passing, unless: null }
  const options = { spool, limits: { ...DEFAULT_LIMITS, ...limits }, workspace: 'acme', unneeded }
  const received = await receiveFields(new FakeExchange(request), options).catch((error: Error) => error)
  return { received, passing, stored: spool.writers[0]?.bytes }
}

const JSON_TYPE = 'application/json'

/** Bodies, and the audio in them as it was sent. */
function bodiesOf(audio: Buffer): { name: string; contentType: string; body: Buffer; tapped: Buffer }[] {
  const parts = [
    { name: 'language', body: 'de' },
    { name: 'file', filename: 'a.wav', type: 'audio/wav', body: audio },
    { name: 'prompt', body: 'audio that is none' },
  ]
  const form = multipart(parts, { preamble: 'a preamble', epilogue: '\r\nan epilogue' })
  const base64 = audio.toString('base64')
  const json = (text: string, around: [string, string]) => ({
    name: `${around[0]}…`,
    contentType: JSON_TYPE,
    body: Buffer.from(around.join(text)),
    tapped: Buffer.from(text),
  })
  return [
    { name: 'multipart', contentType: form.contentType, body: form.body, tapped: audio },
    { name: 'raw', contentType: 'audio/wav', body: audio, tapped: audio },
    json(base64, ['{"audio":{"base64":"', '","filename":"b"},"prompt":"c"}']),
    json(base64, ['{"audio":{"data":"data:audio/wav;base64,', '"}}']),
    json(base64, ['{"prompt":"audio","audio":"', '"}']),
    json(base64.replace(/.{6}/g, '$&\\r\\n').replaceAll('/', '\\/'), ['{"audio_base64":"', '"}']),
    // Held back as the front of a data: URL until it proves to be none.
    json('data', ['{"audio":"', '"}']),
    json('dat\\u0061AAAA', ['{"audio":"', '"}']),
  ]
}

t.test('a tap gets the audio as it was sent, and nothing else', async (t) => {
  for (const { name, contentType, body, tapped } of bodiesOf(noise(500))) {
    for (const chunks of cutsOf(body)) {
      const { received, passing, stored } = await receive({ contentType, chunks })
      if (received instanceof Error) throw received
      const { source } = received
      if (source.kind !== 'audio') throw new Error('no audio')
      const { offset, length, encoding } = source.audio
      t.ok(passing.bytes.equals(tapped), `${name} in ${chunks.length}`)
      t.ok(stored?.subarray(offset, offset + length).equals(tapped), 'the same that a reader would find')
      t.same([...passing.encodings], [encoding])
    }
  }
})

t.test('bytes of a file that look like its delimiter are audio', async (t) => {
  const boundary = 'lark'
  const lookalikes = [
    '\r\n--lar',
    `\r\n--${boundary}x`,
    `\r\n--${boundary} -`,
    '\r',
    `\r\n--${boundary}--y`,
    'z',
  ]
  const pieces = fc.array(fc.constantFrom(...lookalikes), { minLength: 1, maxLength: 20 })
  const property = fc.asyncProperty(
    pieces,
    fc.array(fc.nat(600), { maxLength: 20 }),
    async (pieces, cuts) => {
      const audio = Buffer.from(`${pieces.join('')}.`)
      const form: MultipartBody = multipart([{ name: 'file', body: audio }], { boundary })
      const { contentType, body } = form
      const { received, passing } = await receive({ contentType, chunks: fragment(body, cuts) })
      if (received instanceof Error) throw received
      assert.ok(passing.bytes.equals(audio))
    },
  )
  await t.resolves(fc.assert(property, { numRuns: 300 }))
})

t.test('a URL, a body without audio and one that is refused give it nothing', async (t) => {
  const url = Buffer.from('{"audio":{"url":"https://example.com/a.wav"},"prompt":"audio"}')
  const form = multipart([{ name: 'prompt', body: 'audio' }])
  const foreign = multipart([{ name: 'document', filename: 'a.wav', body: noise(100) }])
  for (const [contentType, body] of [
    [JSON_TYPE, url],
    [JSON_TYPE, Buffer.from('{"prompt":"audio"}')],
    [form.contentType, form.body],
    [foreign.contentType, foreign.body],
    ['text/plain', noise(100)],
  ] as const) {
    const { passing } = await receive({ contentType, chunks: [body] })
    t.equal(passing.bytes.length, 0)
  }
})

t.test('what crosses the limit is not handed over', async (t) => {
  for (const { name, contentType, body } of bodiesOf(noise(500)).slice(0, 5)) {
    for (const chunks of cutsOf(body)) {
      const { received, passing } = await receive({ contentType, chunks }, { max_audio_bytes: 300 })
      t.match(received, { code: 'AUDIO_TOO_LARGE' })
      // One character more than 300 bytes take is not yet another byte.
      const most = passing.encodings.has('base64') ? 401 : 300
      t.ok(passing.bytes.length <= most, `${name}: ${passing.bytes.length} bytes were handed over`)
    }
  }
})

t.test('receiveAudio takes a tap as well', async (t) => {
  const passing = new RecordingTap()
  const spool = new MemorySpool()
  const unneeded = { spool, passing, unless: null }
  const options = { spool, limits: DEFAULT_LIMITS, workspace: 'acme', unneeded }
  await receiveAudio(new FakeExchange({ contentType: 'audio/wav', chunks: [noise(10)] }), options)
  t.ok(passing.bytes.equals(noise(10)))
})

/** Where a flag can stand, and whether the body is kept for it. */
function flaggedBodies(audio: Buffer) {
  const file = { name: 'file', filename: 'a.wav', type: 'audio/wav', body: audio }
  const field = (body: string) => ({ name: 'stream', body })
  const base64 = audio.toString('base64')
  const form = (kept: boolean, ...parts: Parameters<typeof multipart>[0]) => ({
    ...multipart(parts),
    query: '',
    kept,
    tapped: audio,
  })
  const json = (kept: boolean, text: string) => ({
    contentType: JSON_TYPE,
    query: '',
    body: Buffer.from(text),
    kept,
    tapped: Buffer.from(base64),
  })
  const raw = (kept: boolean, query: string) => ({
    contentType: 'audio/wav',
    query,
    body: audio,
    kept,
    tapped: audio,
  })
  return {
    'form, true before': form(true, field('true'), file),
    'form, 1 before': form(true, field('1'), file),
    'form, false before': form(false, field('false'), file),
    'form, 0 before, another field too': form(false, { name: 'language', body: 'de' }, field('0'), file),
    'form, empty before': form(false, field(''), file),
    'form, true behind': form(true, file, field('true')),
    'form, false behind': form(true, file, field('false')),
    'form, nowhere': form(true, file),
    'json, true before': json(true, `{"stream": true, "audio":{"base64":"${base64}"}}`),
    'json, false before': json(false, `{"a":[{"stream":true}],"stream":false,"audio":"${base64}"}`),
    'json, null before': json(false, `{"stream":null,"audio_base64":"${base64}"}`),
    'json, escaped, the last of two': json(true, `{"stream":false,"str\\u0065am":true,"audio":"${base64}"}`),
    'json, only in a member of another name': json(true, `{"x":{"stream":false},"audio":"${base64}"}`),
    'json, true behind': json(true, `{"audio":{"data":"${base64}"},"stream":true}`),
    'json, nowhere': json(true, `{"audio":"${base64}"}`),
    'raw, true': raw(true, 'stream=true'),
    'raw, false': raw(false, 'stream=0'),
    'raw, nowhere': raw(false, 'language=de'),
  }
}

t.test('a body that a flag makes needed is kept unless the fields before its audio say no', async (t) => {
  for (const [name, { contentType, query, body, kept, tapped }] of Object.entries(
    flaggedBodies(noise(300)),
  )) {
    for (const chunks of cutsOf(body)) {
      const [spool, discard, passing] = [new MemorySpool(), new MemorySpool(), new RecordingTap()]
      const unneeded = { spool: discard, passing, unless: 'stream' }
      const options = { spool, limits: DEFAULT_LIMITS, workspace: 'acme', unneeded }
      const exchange = new FakeExchange({ contentType, query, chunks })
      const received = await receiveAudio(exchange, options)
      assert.equal(received.kept, kept, name)
      if (kept) {
        assert.ok(spool.writers[0]?.bytes.equals(body), `${name}: the whole body is there`)
        assert.equal(discard.writers.length + passing.bytes.length, 0, name)
      } else {
        assert.ok(passing.bytes.equals(tapped), `${name}: its audio went by`)
        assert.ok(
          spool.writers.every(({ state }) => state === 'aborted'),
          `${name}: nothing is held`,
        )
      }
      received.release()
      assert.equal(spool.held + discard.held, 0, `${name}: and nothing is left`)
    }
    t.pass(name)
  }
})
