import t, { type Test } from 'tap'
import { GatewayError } from '../../../src/contracts/errors.ts'
import { DEFAULT_LIMITS, type Limits } from '../../../src/contracts/limits.ts'
import { type ReceivedAudio, receiveAudio } from '../../../src/gateway/edge/body.ts'
import { multipart, noise, readAudio, slices } from '../../support/bodies.ts'
import { FakeExchange, type FakeRequest } from '../../support/fake-exchange.ts'
import { MemorySpool, type MemorySpoolOptions } from './memory-spool.ts'

const AUDIO = noise(1000)

interface Setting {
  readonly limits?: Partial<Limits>
  readonly spool?: MemorySpoolOptions
  readonly job?: string
}

function start(request: FakeRequest, { limits = {}, spool: behaviour, ...filed }: Setting = {}) {
  const exchange = new FakeExchange(request)
  const spool = new MemorySpool(behaviour)
  const options = { spool, limits: { ...DEFAULT_LIMITS, ...limits }, workspace: 'acme', ...filed }
  return { exchange, spool, received: receiveAudio(exchange, options) }
}

/** Receives and checks that nothing is left of it, neither a pause nor a body, once it has been released. */
async function receive(
  t: Test,
  request: FakeRequest,
  setting: Setting = {},
): Promise<ReceivedAudio & { stored: Buffer }> {
  const { exchange, spool, received } = start(request, setting)
  const result = await received
  t.notOk(exchange.paused, 'no pause is left in place')
  const stored = spool.writers[0]?.bytes ?? Buffer.alloc(0)
  result.release()
  t.equal(spool.held, 0, 'nothing is held after release')
  return { ...result, stored }
}

async function refuse(t: Test, request: FakeRequest, setting: Setting = {}) {
  const { exchange, spool, received } = start(request, setting)
  const error: unknown = await received.then(
    () => new Error('was accepted'),
    (thrown) => thrown,
  )
  t.notOk(exchange.paused, 'no pause is left in place')
  t.equal(spool.held, 0, 'nothing is held')
  if (!(error instanceof GatewayError)) throw error
  return { error, spool, exchange }
}

/** One audio in every content type, with where it must be found in the body. */
function bodiesOf(audio: Buffer) {
  const form = multipart([
    { name: 'language', body: 'de' },
    { name: 'file', filename: 'a.wav', type: 'audio/wav', body: audio },
    { name: 'prompt', body: 'x' },
  ])
  const json = (text: string) => Buffer.from(text)
  const base64 = audio.toString('base64')
  return [
    { name: 'multipart', contentType: form.contentType, body: form.body },
    { name: 'raw', contentType: 'audio/wav', body: audio },
    { name: 'octets', contentType: 'application/octet-stream', body: audio },
    { name: 'audio.base64', contentType: 'application/json', body: json(`{"audio":{"base64":"${base64}"}}`) },
    {
      name: 'audio.data',
      contentType: 'application/json; charset=utf-8',
      body: json(`{"audio":{"data":"data:audio/wav;base64,${base64}"}}`),
    },
    { name: 'audio', contentType: 'Application/JSON', body: json(`{"audio":"${base64}"}`) },
    { name: 'audio_base64', contentType: 'application/json', body: json(`{"audio_base64":"${base64}"}`) },
    {
      name: 'escaped',
      contentType: 'application/json',
      body: json(`{"audio":"${base64.replace(/\//g, '\\/')}"}`),
    },
  ]
}

t.test('stores every kind of body and finds its audio', async (t) => {
  for (const { name, contentType, body } of bodiesOf(AUDIO)) {
    for (const size of [1, 100, 10_000]) {
      for (const contentLength of [body.length, null]) {
        const request = { contentType, contentLength, chunks: slices(body, size) }
        const { source, stored } = await receive(t, request)
        t.ok(stored.equals(body), 'the body is stored as it came')
        if (source.kind !== 'audio') throw new Error('no audio')
        t.ok(readAudio(stored, source.audio).equals(AUDIO), `${name} in ${size}s`)
        t.equal(source.audio.decodedBytes, AUDIO.length)
      }
    }
  }
})

t.test('hands over fields, source and what the spool needs to know', async (t) => {
  const raw = {
    contentType: 'audio/webm; codecs=opus',
    query: 'language=de&keyterms=a&keyterms=b%20c',
    chunks: [AUDIO],
  }
  const { exchange, spool, received } = start(raw)
  const { fields, source, body } = await received
  t.same(fields.kind === 'form' && Object.fromEntries(fields.values), {
    language: ['de'],
    keyterms: ['a', 'b c'],
  })
  t.match(source, { audio: { mediaType: 'audio/webm; codecs=opus', filename: null, source: body?.source } })
  const { opened } = spool.writers[0]!
  t.match(opened, { workspace: 'acme', contentLength: AUDIO.length })
  t.not(opened.id, exchange.requestId, 'a caller cannot choose a key of the store')
  t.equal(opened.kind, undefined)
  const octets = await receive(t, { contentType: 'application/octet-stream', chunks: [AUDIO] })
  t.match(octets.source, { audio: { mediaType: null } })
})

t.test('the body of a job is filed under the job', async (t) => {
  const { spool, received } = start({ contentType: 'audio/wav', chunks: [AUDIO] }, { job: 'tj_1' })
  await received
  const { sendingMs, ...opened } = spool.writers[0]!.opened
  t.type(sendingMs, 'function')
  t.same(opened, {
    ...{ workspace: 'acme', contentLength: AUDIO.length, sealed: false },
    ...{ id: 'tj_1', kind: 'job' },
  })
})

t.test('keeps nothing of a body whose audio is behind a URL', async (t) => {
  const body = Buffer.from('{"audio":{"url":"https://a.example/x.mp3"},"language":"de"}')
  for (const size of [7, 1000]) {
    const { exchange, spool, received } = start({
      contentType: 'application/json',
      chunks: slices(body, size),
    })
    t.match(await received, { source: { kind: 'url', url: 'https://a.example/x.mp3' }, body: null })
    t.match(spool.writers, size === 7 ? [{ state: 'aborted' }] : [{ state: 'aborted', writtenBytes: 0 }])
    t.notOk(exchange.paused)
  }
})

t.test('refuses what it has no reader for', async (t) => {
  const types = [
    undefined,
    '',
    'text/plain',
    'video/mp4',
    'audio/',
    'multipart/mixed; boundary=x',
    'application/x-www-form-urlencoded',
    'application/json+x',
  ]
  for (const contentType of types) {
    const { error } = await refuse(t, {
      ...(contentType === undefined ? {} : { contentType }),
      chunks: [AUDIO],
    })
    t.equal(error.code, 'UNSUPPORTED_MEDIA_TYPE', String(contentType))
  }
  const zipped = { contentType: 'audio/wav', headers: { 'content-encoding': 'gzip' }, chunks: [AUDIO] }
  t.equal((await refuse(t, zipped)).error.code, 'UNSUPPORTED_MEDIA_TYPE', 'a compressed body')
})

t.test('takes a file of exactly the limit and refuses one byte more', async (t) => {
  const limits = { max_audio_bytes: AUDIO.length }
  const exact = bodiesOf(AUDIO)
  const over = bodiesOf(noise(AUDIO.length + 1))
  for (const [index, { name, contentType, body }] of over.entries()) {
    for (const size of [1, 100, 10_000]) {
      for (const declared of [true, false]) {
        const request = (bytes: Buffer) => ({
          contentType,
          contentLength: declared ? bytes.length : null,
          chunks: slices(bytes, size),
        })
        t.match((await receive(t, request(exact[index]!.body), { limits })).source, {
          audio: { decodedBytes: 1000 },
        })
        const { error } = await refuse(t, request(body), { limits })
        t.equal(error.code, 'AUDIO_TOO_LARGE', `${name} in ${size}s`)
        t.same(error.extra.details, { limit: 'max_audio_bytes', limit_bytes: 1000, received_bytes: 1001 })
      }
    }
  }
})

t.test('counts the raw body, whatever its length is said to be', async (t) => {
  for (const { name, contentType, body } of bodiesOf(AUDIO)) {
    const limits = { max_request_body_bytes: body.length }
    for (const contentLength of [body.length, null, 1]) {
      for (const size of [1, 100, 10_000]) {
        await receive(t, { contentType, contentLength, chunks: slices(body, size) }, { limits })
        const chunks = slices(body, size)
        const refused = await refuse(
          t,
          { contentType, contentLength: contentLength === null ? null : 1, chunks },
          { limits: { max_request_body_bytes: body.length - 1 } },
        )
        t.equal(refused.error.code, 'REQUEST_TOO_LARGE', `${name} in ${size}s`)
        t.same(refused.error.extra.details, {
          limit: 'max_request_body_bytes',
          limit_bytes: body.length - 1,
          received_bytes: body.length,
        })
      }
    }
  }
})

t.test('refuses a length over the limit before anything is read or reserved', async (t) => {
  const request = { contentType: 'audio/wav', contentLength: 1001, chunks: [noise(10)] }
  const { error, exchange, spool } = await refuse(t, request, {
    limits: { max_request_body_bytes: 1000, max_audio_bytes: 5 },
  })
  t.match(error, {
    code: 'REQUEST_TOO_LARGE',
    extra: { details: { limit_bytes: 1000, declared_bytes: 1001 } },
  })
  t.notOk(exchange.consumed)
  t.same(spool.writers, [])
})

t.test('reports the limit that the stream crosses first, also within one chunk', async (t) => {
  const request = { contentType: 'audio/wav', contentLength: null, chunks: [noise(3000)] }
  const code = async (limits: Partial<Limits>) => (await refuse(t, request, { limits })).error.code
  t.equal(await code({ max_request_body_bytes: 2000, max_audio_bytes: 1999 }), 'AUDIO_TOO_LARGE')
  t.equal(await code({ max_request_body_bytes: 1999, max_audio_bytes: 2000 }), 'REQUEST_TOO_LARGE')
})

t.test('stores nothing of a small body that is refused', async (t) => {
  const form = multipart([{ name: 'language', body: 'de' }])
  const { error, spool } = await refuse(t, { contentType: form.contentType, chunks: [form.body] })
  t.match(error, { code: 'INVALID_REQUEST', extra: { param: 'audio' } })
  t.match(spool.writers, [{ writtenBytes: 0 }])
  for (const { contentType } of bodiesOf(AUDIO)) {
    t.equal(
      (await refuse(t, { contentType, chunks: [Buffer.alloc(0)] })).error.code,
      'INVALID_REQUEST',
      'an empty body',
    )
  }
})

t.test('drops a body that is refused at its end', async (t) => {
  const { contentType, body } = bodiesOf(AUDIO)[0]!
  const cut = slices(body.subarray(0, body.length - 20), 100)
  const { error, spool } = await refuse(t, { contentType, contentLength: null, chunks: cut })
  t.equal(error.code, 'INVALID_REQUEST')
  t.match(spool.writers, [{ state: 'aborted', writtenBytes: body.length - 20 - cut.at(-1)!.length }])
})

t.test('pauses the sender while the spool is not ready, and takes what still comes', async (t) => {
  const audio = noise(400_000)
  const chunks = slices(audio, 10_000)
  const spool = { startMs: 30, stallMs: 10, windowBytes: 100_000 }
  const {
    exchange,
    received,
    spool: made,
  } = start({ contentType: 'audio/wav', chunks, overshoot: 2 }, { spool })
  await received
  t.ok(made.writers[0]!.bytes.equals(audio))
  t.ok(exchange.pauses >= 3, `${exchange.pauses} pauses`)
  t.notOk(exchange.paused)
})

t.test('gives up when the spool does', async (t) => {
  const overloaded = new GatewayError('OVERLOADED')
  const unavailable = new GatewayError('DEPENDENCY_UNAVAILABLE')
  const chunks = slices(AUDIO, 100)
  const request = { contentType: 'audio/wav', chunks }
  const failures: [string, MemorySpoolOptions, GatewayError][] = [
    ['at the start', { startMs: 5, startError: overloaded }, overloaded],
    ['on the way', { failAfterBytes: 500, failure: unavailable }, unavailable],
    ['with the last byte', { failAfterBytes: AUDIO.length, failure: unavailable }, unavailable],
    ['at the end', { finishError: unavailable }, unavailable],
  ]
  for (const [name, spool, expected] of failures) {
    t.equal((await refuse(t, request, { spool })).error, expected, name)
    t.equal(
      (await refuse(t, { ...request, chunks: [AUDIO] }, { spool })).error,
      expected,
      `${name}, in one chunk`,
    )
  }
})

t.test('gives up when the body does', async (t) => {
  const timeout = new GatewayError('REQUEST_TIMEOUT')
  for (const before of [0, 1, 9]) {
    const request = { contentType: 'audio/wav', chunks: slices(AUDIO, 100) }
    t.equal((await refuse(t, { ...request, breaks: { before, error: timeout } })).error, timeout)
    t.equal((await refuse(t, { ...request, breaks: { before, error: 'leave' } })).error.code, 'CLIENT_CLOSED')
  }
})

t.test('gives up when the client leaves while the body waits or is being finished', async (t) => {
  const slow: MemorySpoolOptions[] = [{ startMs: 60 }, { finishMs: 60 }]
  for (const spool of slow) {
    for (const chunks of [[AUDIO], slices(AUDIO, 400)]) {
      const run = start({ contentType: 'audio/wav', chunks }, { spool })
      setTimeout(() => run.exchange.leave(), 20)
      await t.rejects(run.received, { code: 'CLIENT_CLOSED' })
      await new Promise((resolve) => setTimeout(resolve, 80))
      t.equal(run.spool.held, 0, 'also what was finished after that is released')
    }
  }
  const gone = start({ contentType: 'audio/wav', chunks: [AUDIO] })
  gone.exchange.leave()
  await t.rejects(gone.received, { code: 'CLIENT_CLOSED' })
  t.equal(gone.spool.held, 0)
})
