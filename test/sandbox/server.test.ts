import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { startSandbox } from '../../src/sandbox/server.ts'
import { decodeSpeech, heardIn, probed } from '../support/decoded-speech.ts'
import { RawClient } from '../support/raw-client.ts'
import { melody, noise, wav } from '../support/tone.ts'

const run = promisify(execFile)

async function start(t: Test) {
  const sandbox = await startSandbox()
  t.teardown(() => sandbox.close())
  const { url } = sandbox
  const post = (path: string, body: FormData | object) =>
    body instanceof FormData
      ? fetch(url + path, { method: 'POST', body })
      : fetch(url + path, { method: 'POST', body: JSON.stringify(body), headers: JSON_TYPE })
  return {
    url,
    post,
    async speak(body: object): Promise<Buffer> {
      const reply = await post('/audio/speech', { model: 'tts-1', ...body })
      t.equal(reply.status, 200)
      return Buffer.from(await reply.arrayBuffer())
    },
    transcribe: (audio: Uint8Array, fields: Record<string, string | string[]> = {}) =>
      post('/audio/transcriptions', form(audio, fields)),
  }
}

const JSON_TYPE = { 'content-type': 'application/json' }

function form(audio: Uint8Array | null, fields: Record<string, string | string[]> = {}): FormData {
  const body = new FormData()
  if (audio !== null)
    body.append('file', new Blob([Uint8Array.from(audio)], { type: 'audio/wav' }), 'talk.wav')
  for (const [name, values] of Object.entries({ model: 'morse-1', ...fields })) {
    for (const value of [values].flat()) body.append(name, value)
  }
  return body
}

async function refusalOf(reply: Response) {
  const { error } = (await reply.json()) as {
    error: { message: string; param: string; code: string; type: string }
  }
  return { status: reply.status, ...error }
}

t.test('what is spoken is heard, through curl', async (t) => {
  const { url } = await start(t)
  const folder = await mkdtemp(join(tmpdir(), 'sandbox-'))
  t.teardown(() => rm(folder, { recursive: true }))
  const file = join(folder, 'hello.wav')
  const body = JSON.stringify({ model: 'tts-1', input: 'Hello, world!', voice: 'nova' })
  await run('curl', [
    '-sf',
    `${url}/audio/speech`,
    '-H',
    'content-type: application/json',
    '-d',
    body,
    '-o',
    file,
  ])
  const upload = ['-sf', `${url}/audio/transcriptions`, '-F', `file=@${file}`, '-F', 'model=whisper-1']
  t.match(JSON.parse((await run('curl', upload)).stdout), { text: 'hello, world!' })
  t.equal((await run('curl', [...upload, '-F', 'response_format=text'])).stdout, 'hello, world!\n')
})

t.test('speech', async (t) => {
  const { post, speak } = await start(t)
  const reply = await post('/audio/speech', { model: 'morse-1', input: 'hello world' })
  const bytes = Buffer.from(await reply.arrayBuffer())
  t.equal(reply.headers.get('content-type'), 'audio/wav')
  t.equal(reply.headers.get('x-sandbox-audio-sha256'), createHash('sha256').update(bytes).digest('hex'))
  t.equal(reply.headers.get('x-sandbox-audio-bytes'), String(bytes.length))
  t.match(reply.headers.get('x-request-id'), /^req_[0-9a-f]{32}$/)
  t.ok(bytes.length < 200_000, `"hello world" takes ${bytes.length} bytes`)
  t.ok(
    (await speak({ input: 'hello world', speed: 2 })).length < bytes.length * 0.6,
    'twice as fast is half as long',
  )
  const [echo, onyx] = [
    await speak({ input: 'e', voice: 'echo' }),
    await speak({ input: 'e', voice: 'onyx' }),
  ]
  t.notOk(echo.equals(onyx), 'voices differ')
})

t.test('speech as mp3, and its times with it', async (t) => {
  const { post } = await start(t)
  const body = { model: 'morse-1', input: 'hello world', response_format: 'mp3' }
  const reply = await post('/audio/speech', body)
  const bytes = Buffer.from(await reply.arrayBuffer())
  t.equal(reply.headers.get('content-type'), 'audio/mpeg')
  t.equal(reply.headers.get('x-sandbox-audio-sha256'), createHash('sha256').update(bytes).digest('hex'))
  t.match(await probed(bytes), { format: 'mp3', channels: 1 })
  t.equal(heardIn(await decodeSpeech(bytes, 'mp3')), 'hello world')
  const timed = await post('/audio/speech/with-timestamps', body)
  const { audio_base64: audio, alignment } = (await timed.json()) as {
    audio_base64: string
    alignment: object
  }
  t.ok(Buffer.from(audio, 'base64').equals(bytes))
  t.match(alignment, { characters: [...'hello world'] })
})

t.test('speech that is refused', async (t) => {
  const { post } = await start(t)
  const rows: [object, number, string | null][] = [
    [{ input: 'hello' }, 400, 'model'],
    [{ model: 'tts-2', input: 'hello' }, 404, 'model'],
    [{ model: 'morse-1-mini', input: 'hello' }, 404, 'model'],
    [{ model: 'tts-1' }, 400, 'input'],
    [{ model: 'tts-1', input: '100%' }, 400, 'input'],
    [{ model: 'tts-1', input: 'e'.repeat(4097) }, 400, 'input'],
    [{ model: 'tts-1', input: '0'.repeat(4096), speed: 0.25 }, 400, 'input'],
    [{ model: 'tts-1', input: 'hello', voice: 'constructor' }, 400, 'voice'],
    [{ model: 'tts-1', input: 'hello', response_format: 'opus' }, 400, 'response_format'],
    [{ model: 'tts-1', input: 'hello', speed: 5 }, 400, 'speed'],
    [{ model: 'tts-1', input: 'hello', speed: 'x' }, 400, 'speed'],
    [[1], 400, null],
  ]
  for (const [body, status, param] of rows) {
    const refusal = await refusalOf(await post('/audio/speech', body))
    t.match(refusal, { status, param, type: 'invalid_request_error' }, JSON.stringify(body).slice(0, 80))
  }
})

t.test('a transcript in each format', async (t) => {
  const { speak, transcribe } = await start(t)
  const audio = await speak({ input: 'Who? Me.' })
  const get = async (fields: Record<string, string | string[]>) => (await transcribe(audio, fields)).text()
  const verbose = async (granularities: string[]) =>
    JSON.parse(await get({ response_format: 'verbose_json', 'timestamp_granularities[]': granularities }))

  t.match(JSON.parse(await get({})), { text: 'who? me.', usage: { type: 'duration' } })
  t.equal(await get({ response_format: 'text' }), 'who? me.\n')
  const whole = await verbose([])
  t.match(whole, { task: 'transcribe', language: 'english', text: 'who? me.' })
  t.ok(Math.abs(whole.duration - (audio.length - 44) / 16_000) < 0.001)
  t.match(
    whole.segments.map(({ id, text }: { id: number; text: string }) => [id, text]),
    [
      [0, 'who?'],
      [1, 'me.'],
    ],
  )
  t.notOk('words' in whole)
  const words = await verbose(['word'])
  t.notOk('segments' in words)
  t.same(
    words.words.map(({ word }: { word: string }) => word),
    ['who?', 'me.'],
  )
  t.ok(words.words[0].start > 0.3 && words.words[0].end < words.words[1].start)
  t.hasProps(await verbose(['word', 'segment']), ['words', 'segments'])
  const times = (point: string) => `00:00:0\\d\\${point}\\d{3} --> 00:00:0\\d\\${point}\\d{3}\n`
  const srt = new RegExp(`^1\n${times(',')}who\\?\n\n2\n${times(',')}me\\.\n\n$`)
  const vtt = new RegExp(`^WEBVTT\n\n${times('.')}who\\?\n\n${times('.')}me\\.\n\n$`)
  t.match(await get({ response_format: 'srt' }), srt)
  t.match(await get({ response_format: 'vtt' }), vtt)
})

t.test('tones are speakers, in several channels too', async (t) => {
  const { speak, transcribe } = await start(t)
  const samples = (file: Buffer) =>
    Float32Array.from({ length: (file.length - 44) / 2 }, (_, at) => file.readInt16LE(44 + at * 2) / 32_768)
  const alloy = samples(await speak({ input: 'who is it', voice: 'alloy' }))
  const echo = samples(await speak({ input: 'me', voice: 'echo' }))
  const both = Float32Array.from([...alloy, ...echo, ...alloy])
  const stereo = wav([noise(both.length, 0.001), both], 8000, { kind: 's24' })
  const reply = (await (await transcribe(stereo, { response_format: 'diarized_json' })).json()) as {
    segments: { speaker: string; text: string }[]
  }
  t.same(
    reply.segments.map(({ speaker, text }) => [speaker, text]),
    [
      ['A', 'who is it'],
      ['B', 'me'],
      ['A', 'who is it'],
    ],
  )
})

t.test('sound without Morse code is described', async (t) => {
  const { transcribe } = await start(t)
  const music = melody(2, 44_100)
  const rows: [string, Buffer, RegExp][] = [
    [
      'music',
      wav([music, music], 44_100),
      /^2 seconds of sound without morse code at -1\d(\.\d)? dbfs in 2 channels of 44100 hz$/,
    ],
    ['silence', wav([new Float32Array(8000)], 8000), /^1 seconds of silence in 1 channel of 8000 hz$/],
    ['an empty wav', wav([new Float32Array(0)], 8000), /^0 seconds of silence in 1 channel of 8000 hz$/],
    ['a wav of unknown coding', unknownCoding(), /^\d+ bytes of wav$/],
    ['flac', Buffer.from('fLaC and more'), /^13 bytes of flac$/],
    ['ogg', Buffer.from('OggS and more'), /^13 bytes of ogg$/],
    ['mp3 with a tag', Buffer.from('ID3 and more'), /^12 bytes of mp3$/],
    ['mp3', Buffer.from([0xff, 0xfb, 0x90, 0x00]), /^4 bytes of mp3$/],
    ['mp4', Buffer.from('\0\0\0 ftypM4A '), /^12 bytes of mp4$/],
    ['webm', Buffer.from([0x1a, 0x45, 0xdf, 0xa3, 1]), /^5 bytes of webm$/],
  ]
  for (const [name, audio, expected] of rows) {
    const reply = (await (await transcribe(audio)).json()) as { text: string; x_sandbox: object }
    t.match(reply.text, expected, name)
    const sha256 = createHash('sha256').update(audio).digest('hex')
    t.match(reply.x_sandbox, { sha256, bytes: audio.length, filename: 'talk.wav' })
  }
})

function unknownCoding(): Buffer {
  const file = wav([new Float32Array(10)], 8000)
  file.writeUInt16LE(85, 20)
  return file
}

t.test('transcriptions that are refused', async (t) => {
  const { speak, transcribe, post, url } = await start(t)
  const audio = await speak({ input: 'e' })
  const rows: [Record<string, string>, number, string][] = [
    [{ model: 'whisper-9' }, 404, 'model'],
    [{ response_format: 'xml' }, 400, 'response_format'],
    [{ model: 'whisper-1', response_format: 'diarized_json' }, 400, 'response_format'],
    [{ model: 'morse-1-mini', response_format: 'verbose_json' }, 400, 'response_format'],
    [{ model: 'gpt-4o-transcribe', response_format: 'srt' }, 400, 'response_format'],
    [{ 'timestamp_granularities[]': 'word' }, 400, 'timestamp_granularities'],
    [
      { response_format: 'verbose_json', 'timestamp_granularities[]': 'line' },
      400,
      'timestamp_granularities',
    ],
  ]
  for (const [fields, status, param] of rows) {
    t.match(await refusalOf(await transcribe(audio, fields)), { status, param }, JSON.stringify(fields))
  }
  t.match(await refusalOf(await transcribe(Buffer.from('GIF89a'))), { status: 400, param: 'file' })
  t.match(await refusalOf(await transcribe(Buffer.alloc(0))), { status: 400, param: 'file' })
  t.match(await refusalOf(await post('/audio/transcriptions', form(null))), { status: 400, param: 'file' })
  t.match(await refusalOf(await post('/audio/transcriptions', { model: 'morse-1' })), {
    status: 400,
    param: 'file',
  })
  t.match(await refusalOf(await post('/audio/nothing', {})), { status: 404, code: 'unknown_url' })
  t.match(await refusalOf(await fetch(`${url}/audio/speech`)), { status: 404 })
  const broken = { 'content-type': 'multipart/form-data; boundary=x' }
  t.equal(
    (await fetch(`${url}/audio/transcriptions`, { method: 'POST', body: 'no form', headers: broken })).status,
    400,
  )
  const text = { 'content-type': 'text/plain' }
  t.equal((await fetch(`${url}/audio/speech`, { method: 'POST', body: 'hello', headers: text })).status, 400)
})

t.test('the largest file and one that is larger', async (t) => {
  const { transcribe } = await start(t)
  const audio = Buffer.alloc(26_214_401)
  audio.write('fLaC')
  const largest = await transcribe(audio.subarray(0, -1))
  t.match(await largest.json(), { text: '26214400 bytes of flac' })
  t.equal((await transcribe(audio)).status, 413)
})

t.test('translations, models, and the log of calls', async (t) => {
  const { url, post, speak } = await start(t)
  const audio = await speak({ input: 'sos' })
  const headers = { traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01' }
  const body = form(audio, { response_format: 'verbose_json', prompt: 'x'.repeat(300) })
  const reply = await fetch(`${url}/audio/translations`, { method: 'POST', body, headers })
  t.match(await reply.json(), { task: 'translate', text: 'sos' })
  t.match(await (await fetch(`${url}/models`)).json(), {
    object: 'list',
    data: [{ id: 'morse-1', object: 'model' }],
  })
  await post('/audio/speech', { model: 'tts-1', input: '%' })

  const log = new URL('/sandbox/calls', url)
  const { calls } = (await (await fetch(log)).json()) as { calls: Record<string, unknown>[] }
  t.match(calls, [
    { path: '/v1/audio/speech', model: 'tts-1', status: 200, fields: { input: ['sos'] } },
    {
      path: '/v1/audio/translations',
      model: 'morse-1',
      bytes: audio.length,
      sha256: createHash('sha256').update(audio).digest('hex'),
      traceparent: headers.traceparent,
      request_id: reply.headers.get('x-request-id'),
      status: 200,
      fields: { prompt: ['x'.repeat(200)] },
    },
    { method: 'GET', path: '/v1/models', status: 200 },
    { path: '/v1/audio/speech', status: 400 },
  ])
  t.equal(calls.length, 4)
  t.equal((await fetch(log, { method: 'DELETE' })).status, 204)
  t.same(await (await fetch(log)).json(), { calls: [] })
  t.equal((await fetch(log, { method: 'PUT' })).status, 405)
})

t.test('a request target that is no path is refused like an unknown one', async (t) => {
  const { url } = await start(t)
  const client = await RawClient.connect(Number(new URL(url).port))
  t.teardown(() => client.destroy())
  for (const target of ['//', 'http://[', '*']) {
    await client.send(`GET ${target} HTTP/1.1\r\nHost: a\r\n\r\n`)
    t.equal((await client.response())?.status, 404, target)
  }
})
