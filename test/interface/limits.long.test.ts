import { execFile } from 'node:child_process'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { DEFAULT_LIMITS } from '../../src/contracts/limits.ts'
import { multipart } from '../support/bodies.ts'
import { type DemoRoute, startDemoRoute } from '../support/demo-route.ts'
import { RawClient } from '../support/raw-client.ts'
import { filledWav } from '../support/wav.ts'

const run = promisify(execFile)
const LIMIT = DEFAULT_LIMITS.max_audio_bytes

interface Body {
  readonly type: string
  readonly body: Buffer
}

function bodiesOf(wav: Buffer): Record<string, Body> {
  const file = { name: 'file', filename: 'a.wav', type: 'audio/wav', body: wav }
  const { contentType, body } = multipart([file, { name: 'language', body: 'en' }])
  const base64 = Buffer.from(JSON.stringify({ audio: { base64: wav.toString('base64') } }))
  return {
    multipart: { type: contentType, body },
    'base64 JSON': { type: 'application/json', body: base64 },
    raw: { type: 'audio/wav', body: wav },
  }
}

type Framing = 'length' | 'chunked' | 'lying length'

/** Writes a request as framed and reads the answer while it still sends. */
async function post(gateway: DemoRoute, { type, body }: Body, framing: Framing) {
  const client = await RawClient.connect(gateway.port)
  const head = (length: string) =>
    `POST /v1/transcription HTTP/1.1\r\nHost: a\r\nAuthorization: ${gateway.authorization.authorization}\r\n` +
    `Content-Type: ${type}\r\n${length}\r\n\r\n`
  const answer = client.response({ timeoutMs: 60_000 })
  if (framing === 'chunked') {
    void client.send(
      head('Transfer-Encoding: chunked'),
      `${body.length.toString(16)}\r\n`,
      body,
      '\r\n0\r\n\r\n',
    )
  } else {
    // The lie promises more than comes at first sight, and less than the limit of a body.
    const length = framing === 'length' ? body.length : DEFAULT_LIMITS.max_request_body_bytes
    void client.send(head(`Content-Length: ${length}`), body)
  }
  const response = await answer
  client.destroy()
  const parsed = JSON.parse(response?.body.toString() ?? '{}') as Record<string, unknown>
  return { status: response?.status, code: (parsed.error as { code?: string } | undefined)?.code, parsed }
}

async function assertNothingLeft(t: Test, gateway: DemoRoute): Promise<void> {
  const files = await readdir(gateway.dataFolder, { recursive: true, withFileTypes: true })
  const objects = files.filter((file) => file.isFile() && file.parentPath.includes('spool'))
  t.same(
    objects.map(({ name }) => name),
    [],
    'no object is left behind',
  )
}

for (const memory of ['256', '24']) {
  t.test(
    `audio of exactly the limit passes, one byte more does not (${memory} MiB)`,
    { timeout: 240_000 },
    async (t) => {
      const gateway = await startDemoRoute(t, { env: { LARKWAY_MEMORY_MIB: memory } })
      const fitting = bodiesOf(filledWav(LIMIT))
      const over = bodiesOf(filledWav(LIMIT + 1))
      for (const framing of ['length', 'chunked'] as const) {
        for (const [kind, body] of Object.entries(fitting)) {
          const { status, parsed } = await post(gateway, body, framing)
          t.equal(status, 200, `${kind}, ${framing}: ${JSON.stringify(parsed).slice(0, 300)}`)
        }
      }
      await gateway.forget()
      for (const framing of ['length', 'chunked', 'lying length'] as const) {
        for (const [kind, body] of Object.entries(over)) {
          const { status, code, parsed } = await post(gateway, body, framing)
          t.same([status, code], [413, 'AUDIO_TOO_LARGE'], `${kind}, ${framing}`)
          t.match(parsed, { error: { details: { limit: 'max_audio_bytes', limit_bytes: LIMIT } } })
        }
      }
      t.same(await gateway.calls(), [], 'no provider was called')
      await assertNothingLeft(t, gateway)
    },
  )
}

t.test('a body over max_request_body_bytes', { timeout: 120_000 }, async (t) => {
  const gateway = await startDemoRoute(t, { config: { limits: { max_request_body_bytes: 3_000_000 } } })
  const fill = Buffer.alloc(3_000_100, 'x')
  const declared = await post(gateway, { type: 'text/plain', body: fill }, 'length')
  t.same(
    [declared.status, declared.code],
    [413, 'REQUEST_TOO_LARGE'],
    'by its Content-Length, whatever it is',
  )
  const { contentType, body } = multipart([{ name: 'file', body: filledWav(3_000_000) }])
  const counted = await post(gateway, { type: contentType, body }, 'chunked')
  t.same([counted.status, counted.code], [413, 'REQUEST_TOO_LARGE'], 'by what arrived')
  t.match(counted.parsed, { error: { details: { limit: 'max_request_body_bytes', limit_bytes: 3_000_000 } } })
  await assertNothingLeft(t, gateway)
})

const ROUNDS = 100

t.test('no 413 is lost on its way', { timeout: 280_000 }, async (t) => {
  const limit = 1_000_000
  const gateway = await startDemoRoute(t, { config: { limits: { max_audio_bytes: limit } } })
  const wav = filledWav(6_000_000)
  const folder = await mkdtemp(join(tmpdir(), 'limits-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const path = join(folder, 'over.wav')
  await writeFile(path, wav)
  const { authorization } = gateway.authorization
  const url = `${gateway.url}/v1/transcription`

  const clients: Record<string, (chunked: boolean) => Promise<string>> = {
    curl: async (chunked) => {
      const headers = [`Authorization: ${authorization}`, 'Content-Type: audio/wav', 'Expect:']
      if (chunked) headers.push('Transfer-Encoding: chunked')
      const flags = headers.flatMap((header) => ['-H', header])
      const { stdout } = await run('curl', [
        '-sS',
        '--max-time',
        '30',
        ...flags,
        '--data-binary',
        `@${path}`,
        url,
      ])
      return stdout
    },
    'node:http': (chunked) =>
      new Promise((resolve, reject) => {
        const headers = { authorization, 'content-type': 'audio/wav' }
        const framing = chunked
          ? { 'transfer-encoding': 'chunked' }
          : { 'content-length': String(wav.length) }
        const sent = request(url, { method: 'POST', headers: { ...headers, ...framing }, agent: false })
        let text = ''
        sent.on('response', (response) => {
          response.setEncoding('utf8').on('data', (chunk: string) => {
            text += chunk
          })
          response.on('end', () => resolve(text))
        })
        // Node reports the connection closed under the rest of its body; the answer came before that.
        sent.on('error', (error) =>
          text === '' ? setTimeout(() => (text === '' ? reject(error) : resolve(text)), 100) : resolve(text),
        )
        sent.end(wav)
      }),
    fetch: async (chunked) => {
      const body = chunked ? new Blob([wav]).stream() : wav
      const headers = { authorization, 'content-type': 'audio/wav' }
      const init: RequestInit = { method: 'POST', headers, body, ...(chunked ? { duplex: 'half' } : {}) }
      return (await fetch(url, init)).text()
    },
    'a raw socket': async (chunked) => {
      const sent = await post(gateway, { type: 'audio/wav', body: wav }, chunked ? 'chunked' : 'length')
      return JSON.stringify(sent.parsed)
    },
  }
  for (const [name, send] of Object.entries(clients)) {
    for (const chunked of [false, true]) {
      const lost: string[] = []
      for (let round = 0; round < ROUNDS / 2; round += 1) {
        const text = await send(chunked).catch((error: unknown) => `${error} ${(error as Error).cause ?? ''}`)
        if (!text.includes('"AUDIO_TOO_LARGE"')) lost.push(text.slice(0, 200))
      }
      t.same(lost.slice(0, 3), [], `${name}, ${chunked ? 'chunked' : 'with a length'}: ${lost.length} lost`)
    }
  }
  t.same(await gateway.calls(), [])
})
