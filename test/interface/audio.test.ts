import { readdir } from 'node:fs/promises'
import t, { type Test } from 'tap'
import { speak } from '../../src/sandbox/speak.ts'
import { multipart, type Part } from '../support/bodies.ts'
import { type DemoRoute, startDemoRoute } from '../support/demo-route.ts'
import { eventsOf } from '../support/event-source.ts'
import { assertStopsClean } from '../support/gateway.ts'
import { RawClient } from '../support/raw-client.ts'
import { filledWav } from '../support/wav.ts'

/** A body of so many bytes does not fit into 8 MiB, and into 64 MiB it does. */
const LIMIT = 9_000_000
const TEXT = 'one. two'
const WAV = speak(TEXT, 600, 1)

type Value = string | number | boolean | null | object
type Fields = Readonly<Record<string, Value>>

interface Body {
  readonly type: string
  readonly body: Buffer | string
  readonly query?: string
}

const file = (wav: Buffer): Part => ({ name: 'file', filename: 'a.wav', type: 'audio/wav', body: wav })
const partsOf = (fields: Fields): Part[] =>
  Object.entries(fields).map(([name, value]) => ({ name, body: String(value) }))

function form(parts: readonly Part[]): Body {
  const { contentType, body } = multipart(parts)
  return { type: contentType, body }
}

const json = (fields: Fields): Body => ({ type: 'application/json', body: JSON.stringify(fields) })

/** The same request in every form that a body with audio can have. */
function withAudio(fields: Fields, wav = WAV): Record<string, Body> {
  const base64 = wav.toString('base64')
  return {
    'form, fields before': form([...partsOf(fields), file(wav)]),
    'form, fields behind': form([file(wav), ...partsOf(fields)]),
    'JSON, fields before': json({ ...fields, audio: { base64 } }),
    'JSON, fields behind': json({ audio: base64, ...fields }),
    raw: { type: 'audio/wav', body: wav, query: `?${new URLSearchParams(fields as Record<string, string>)}` },
  }
}

function withoutAudio(fields: Fields): Record<string, Body> {
  return { form: form(partsOf(fields)), JSON: json(fields) }
}

function post(gateway: DemoRoute, { type, body, query = '' }: Body, headers: Record<string, string> = {}) {
  const given = { ...gateway.authorization, 'content-type': type, ...headers }
  return fetch(`${gateway.url}/v1/audio${query}`, { method: 'POST', headers: given, body })
}

type Answer = Record<string, unknown> & { warnings: string[]; error?: Record<string, unknown> }
const answerOf = async (response: Response) => (await response.json()) as Answer

async function pathsOf(gateway: DemoRoute): Promise<string[]> {
  return (await gateway.calls()).map(({ path }) => path)
}

async function assertNothingLeft(t: Test, gateway: DemoRoute): Promise<void> {
  const files = await readdir(gateway.dataFolder, { recursive: true, withFileTypes: true })
  const spooled = files.filter((entry) => entry.isFile() && entry.parentPath.includes('spool'))
  t.same(spooled, [], 'no object is left behind')
}

for (const [tier, memory] of [
  ['memory', '64'],
  ['store', '8'],
] as const) {
  t.test(
    `transcription and translation, wherever the task stands: ${tier} tier`,
    { timeout: 120_000 },
    async (t) => {
      const gateway = await startDemoRoute(t, { env: { LARKWAY_MEMORY_MIB: memory } })
      const wav = tier === 'memory' ? WAV : Buffer.concat([WAV], 9_000_000)
      if (tier === 'store') {
        wav.writeUInt32LE(wav.length - 8, 4)
        wav.writeUInt32LE(wav.length - 44, 40)
      }
      const rows: [Fields, string][] = [
        [{}, 'transcriptions'],
        [{ task: '' }, 'transcriptions'],
        [{ task: 'transcription' }, 'transcriptions'],
        [{ task: 'translation' }, 'translations'],
      ]
      // How a task is read has nothing to do with where the audio goes meanwhile: there, none and another are enough.
      for (const [fields, path] of rows.filter((_, row) => tier === 'memory' || row === 0 || row === 3)) {
        for (const [kind, body] of Object.entries(withAudio(fields, wav))) {
          // An empty value counts as not sent, in forms.
          if (fields.task === '' && kind.startsWith('JSON')) continue
          await gateway.forget()
          const label = `${JSON.stringify(fields)}, ${kind}`
          const answer = await answerOf(await post(gateway, body))
          t.match(answer, { content: TEXT, status: 'succeeded', segments: [], words: [] }, label)
          t.same(answer.warnings, [], label)
          t.same(await pathsOf(gateway), [`/v1/audio/${path}`], label)
        }
      }
      await assertStopsClean(t, gateway)
      t.match(gateway.log.at(-1), { bodies: tier === 'memory' ? { stored: 0 } : { held: 0 } })
    },
  )
}

t.test('the fields of the endpoint, and its answers', async (t) => {
  const gateway = await startDemoRoute(t)
  const fields = { task: 'transcription', timestamps: 'word', colour: 'red', purpose: 'none' }
  for (const [kind, body] of Object.entries(withAudio(fields))) {
    const answer = await answerOf(await post(gateway, body))
    t.equal((answer.words as unknown[]).length, 2, kind)
    t.same(answer.warnings, ['colour: unknown field, ignored'], kind)
    t.equal(answer.lk_purpose_source, 'purpose_unknown', kind)
  }
  const vtt = await post(gateway, withAudio({ task: 'translation', response_format: 'vtt' }).raw!)
  t.match(vtt.headers.get('content-type'), /^text\/vtt/)
  t.match(await vtt.text(), /^WEBVTT\n/)
  const events = await eventsOf(await post(gateway, withAudio({ stream: 'true' }).raw!))
  t.match(events, [
    { type: 'transcript.text.delta', delta: TEXT },
    { type: 'transcript.text.done', content: TEXT },
  ])

  const elsewhere = await fetch(`${gateway.url}/v1/transcription?task=translation`, {
    method: 'POST',
    headers: { ...gateway.authorization, 'content-type': 'audio/wav' },
    body: WAV,
  })
  t.same((await answerOf(elsewhere)).warnings, ['task: unknown field, ignored'], 'there it has no meaning')
  await assertStopsClean(t, gateway)
})

t.test('speech', async (t) => {
  const gateway = await startDemoRoute(t)
  const fields = {
    task: 'speech',
    input: 'sos',
    voice: 'echo',
    speed: 2,
    response_format: 'wav',
    purpose: 'p',
  }
  const spoken = speak('sos', 600, 2).length
  const bodies = [
    withoutAudio(fields),
    withoutAudio({ input: 'sos', speed: 2, voice: 'echo', task: 'speech' }),
  ]
  for (const [kind, body] of bodies.flatMap((forms) => Object.entries(forms))) {
    await gateway.forget()
    const answer = await answerOf(await post(gateway, body))
    t.match(answer, { content: '', usage: { audio_output_characters: 3 }, warnings: [] }, kind)
    const [block] = answer.content_blocks as { type: string; base64: string; media_type: string }[]
    t.match(block, { type: 'output_audio', media_type: 'audio/wav' }, kind)
    t.equal(Buffer.from(block?.base64 ?? '', 'base64').length, spoken, kind)
    t.match((await gateway.calls())[0]?.fields, { voice: ['echo'], speed: ['2'] }, kind)

    const streamed = await post(gateway, body, { accept: 'audio/wav' })
    t.equal(streamed.headers.get('content-type'), 'audio/wav', kind)
    t.equal((await streamed.arrayBuffer()).byteLength, spoken, kind)
  }
  // Fields that would choose a provider are ignored by speech; other unknown ones are named.
  const more = { task: 'speech', input: 'sos', model: 'mine', provider: 'x', language: 'en' }
  for (const [kind, body] of Object.entries(withoutAudio(more))) {
    t.same((await answerOf(await post(gateway, body))).warnings, ['language: unknown field, ignored'], kind)
  }
  for (const [kind, body] of Object.entries(withAudio({ task: 'speech', input: 'sos' }))) {
    const { warnings } = await answerOf(await post(gateway, body))
    t.same(warnings, ['audio: unknown field, ignored'], `${kind}: it is not heard`)
  }
  await assertStopsClean(t, gateway)
})

t.test('what is refused, with its code and field', { timeout: 60_000 }, async (t) => {
  const gateway = await startDemoRoute(t)
  const refuse = async (bodies: Record<string, Body>, status: number, error: object, label: string) => {
    for (const [kind, body] of Object.entries(bodies)) {
      const response = await post(gateway, body)
      t.equal(response.status, status, `${label}, ${kind}`)
      t.match((await answerOf(response)).error, error, `${label}, ${kind}`)
    }
  }
  const invalid = (param: string) => ({ code: 'INVALID_REQUEST', param })
  for (const task of ['transcription', 'translation'])
    await refuse(withoutAudio({ task }), 400, invalid('audio'), `${task} of nothing`)
  await refuse(withoutAudio({ language: 'en' }), 400, invalid('audio'), 'no task and no audio')
  for (const task of ['chat', 'Speech', 'constructor'])
    await refuse(withAudio({ task }), 400, invalid('task'), `task ${task}`)
  await refuse({ JSON: json({ task: 1 }), list: json({ task: ['speech'] }) }, 400, invalid('task'), 'no text')
  const twice = [...partsOf({ task: 'speech', input: 'sos' }), ...partsOf({ task: 'transcription' })]
  await refuse({ form: form(twice) }, 400, invalid('task'), 'two tasks')

  for (const name of ['provider', 'model', 'models', 'route', 'route_id', 'fallbacks', 'strategy']) {
    const error = { code: 'ROUTE_CONTROL_NOT_ALLOWED', param: name }
    const bodies = withAudio({ [name]: 'x', task: name.length > 5 ? 'translation' : 'transcription' })
    await refuse(bodies, 400, error, name)
  }
  const nested = { audio: { base64: WAV.toString('base64'), model: 'x' } }
  const within = { code: 'ROUTE_CONTROL_NOT_ALLOWED', param: 'audio.model' }
  await refuse({ JSON: json(nested) }, 400, within, 'within audio')

  for (const task of ['transcription', 'translation'])
    await refuse(withAudio({ task, mode: 'async' }), 400, invalid('mode'), `${task}, async`)
  await refuse(withAudio({ task: 'translation', stream: 'true' }), 400, { param: 'stream' }, 'a stream')
  await refuse(withoutAudio({ task: 'speech' }), 400, invalid('input'), 'speech of nothing')
  await refuse(withoutAudio({ task: 'speech', input: 'sos', speed: 9 }), 400, invalid('speed'), 'too fast')
  await refuse(withoutAudio({ task: 'speech', input: 'sos', speed: 'x' }), 400, invalid('speed'), 'a word')
  const flac = withoutAudio({ task: 'speech', input: 'sos', response_format: 'flac' })
  await refuse(flac, 400, invalid('response_format'), 'a format')
  const noise = withAudio({}, Buffer.alloc(300, 'x'))
  await refuse(noise, 415, { code: 'UNSUPPORTED_AUDIO_FORMAT', param: 'audio' }, 'no audio by its bytes')
  const text = { csv: { type: 'text/csv', body: 'a,b' } }
  await refuse(text, 415, { code: 'UNSUPPORTED_MEDIA_TYPE' }, 'another type')

  const strange = await post(gateway, withAudio({}).raw!, { authorization: 'Bearer none' })
  t.equal(strange.status, 401)
  t.same(await pathsOf(gateway), [], 'no provider was called for any of them')
  await assertNothingLeft(t, gateway)
  await assertStopsClean(t, gateway)
})

/** Sends and reads the answer while it still sends. */
async function upload(gateway: DemoRoute, { type, body, query = '' }: Body, chunked: boolean) {
  const client = await RawClient.connect(gateway.port)
  const answer = client.response({ timeoutMs: 60_000 })
  const framing = chunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${Buffer.byteLength(body)}`
  const head =
    `POST /v1/audio${query} HTTP/1.1\r\nHost: a\r\nAuthorization: ${gateway.authorization.authorization}\r\n` +
    `Content-Type: ${type}\r\n${framing}\r\n\r\n`
  const pieces = chunked ? [`${Buffer.byteLength(body).toString(16)}\r\n`, body, '\r\n0\r\n\r\n'] : [body]
  void client.send(head, ...pieces)
  const response = await answer
  client.destroy()
  const { error } = JSON.parse(response?.body.toString() ?? '{}') as Partial<Answer>
  return { status: response?.status, error }
}

for (const memory of ['64', '8']) {
  t.test(`audio of exactly the limit, and one byte more (${memory} MiB)`, { timeout: 240_000 }, async (t) => {
    const limits = { max_audio_bytes: LIMIT }
    const gateway = await startDemoRoute(t, { env: { LARKWAY_MEMORY_MIB: memory }, config: { limits } })
    for (const [kind, body] of Object.entries(withAudio({ task: 'transcription' }, filledWav(LIMIT)))) {
      const { status, error } = await upload(gateway, body, kind.endsWith('behind'))
      t.equal(status, 200, `${kind}: ${JSON.stringify(error)}`)
    }
    await gateway.forget()
    for (const task of ['transcription', 'speech']) {
      for (const [kind, body] of Object.entries(withAudio({ task, input: 'sos' }, filledWav(LIMIT + 1)))) {
        const { status, error } = await upload(gateway, body, kind.endsWith('behind'))
        t.same([status, error?.code], [413, 'AUDIO_TOO_LARGE'], `${task}, ${kind}`)
        t.match(error, { details: { limit: 'max_audio_bytes', limit_bytes: LIMIT } })
      }
    }
    t.same(await pathsOf(gateway), [], 'no provider was called')
    await assertNothingLeft(t, gateway)
    await assertStopsClean(t, gateway)
  })
}

t.test('a body over max_request_body_bytes', { timeout: 60_000 }, async (t) => {
  const gateway = await startDemoRoute(t, { config: { limits: { max_request_body_bytes: 1_000_000 } } })
  for (const [kind, body] of Object.entries(withAudio({ task: 'speech' }, filledWav(1_000_000)))) {
    for (const chunked of [false, true]) {
      const { status, error } = await upload(gateway, body, chunked)
      // The raw body is exactly as long as its audio.
      const expected = kind === 'raw' ? [400, 'INVALID_REQUEST'] : [413, 'REQUEST_TOO_LARGE']
      t.same([status, error?.code], expected, `${kind}, ${chunked ? 'chunked' : 'with a length'}`)
    }
  }
  t.same(await pathsOf(gateway), [])
  await assertNothingLeft(t, gateway)
  await assertStopsClean(t, gateway)
})
