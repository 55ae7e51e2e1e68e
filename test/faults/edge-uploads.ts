import { execFile, spawnSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { Agent, request } from 'node:http'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { RawClient } from '../support/raw-client.ts'

const PYTHON_CLIENT = fileURLToPath(new URL('../support/edge-uploads.py', import.meta.url))
const PATH = '/v1/transcription'
const TYPE = 'audio/wav'
const PATIENCE_MS = 30_000

/** How a body says where it ends. */
export interface Framed {
  /** What Content-Length says, true or not. */
  readonly declares: number | 'chunked' | 'none'
  /** What is sent. */
  readonly bytes: number
}

export interface Target {
  readonly port: number
  readonly authorization: string
  /** For files of what is sent. */
  readonly folder: string
}

/** Sends a number of uploads. @returns for each `413 REQUEST_TOO_LARGE` or the like, or how it failed */
export type Uploads = (target: Target, framed: Framed, count: number) => Promise<string[]>

/** At a time, of one client. */
export const UPLOADS_AT_ONCE = 5

/** The socket that writes all it has before it looks for an answer. */
export const rawUploads: Uploads = eachOf(async ({ port, authorization }, framed) => {
  const { declares, bytes } = framed
  const client = await RawClient.connect(port)
  // Nothing is read while there is something to write.
  client.socket.pause()
  const body = Buffer.alloc(bytes)
  const framing = { chunked: 'Transfer-Encoding: chunked\r\n', none: '' }[String(declares)]
  const head =
    `POST ${PATH} HTTP/1.1\r\nHost: a\r\nAuthorization: ${authorization}\r\nContent-Type: ${TYPE}\r\n` +
    `${framing ?? `Content-Length: ${declares}\r\n`}\r\n`
  const pieces = declares === 'chunked' ? [`${bytes.toString(16)}\r\n`, body, '\r\n0\r\n\r\n'] : [body]
  await Promise.race([client.send(head, ...pieces), sleep(3_000)])
  client.socket.resume()
  const answer = await client.response({ timeoutMs: PATIENCE_MS })
  client.destroy()
  return answer === null ? 'no answer' : outcomeOf(answer.status, String(answer.body))
})

/** Node's own client, which keeps connections. */
export const nodeUploads: Uploads = async (target, framed, count) => {
  const agent = new Agent({ keepAlive: true, maxSockets: UPLOADS_AT_ONCE })
  const answered = new WeakSet<object>()
  const upload = ({ port, authorization }: Target, framed: Framed): Promise<string> =>
    new Promise((resolve) => {
      const { declares, bytes } = framed
      const headers: Record<string, string | number> = { authorization, 'content-type': TYPE }
      if (declares === 'chunked') headers['transfer-encoding'] = 'chunked'
      else if (declares !== 'none') headers['content-length'] = declares
      const outgoing = request({ port, method: 'POST', path: PATH, headers, agent }, (incoming) => {
        let text = ''
        incoming.on('data', (chunk) => {
          text += chunk
        })
        incoming.on('error', (error) => resolve(error.message))
        incoming.on('end', () => {
          if (outgoing.socket !== null) answered.add(outgoing.socket)
          if (!outgoing.writableFinished) outgoing.destroy()
          resolve(outcomeOf(incoming.statusCode ?? 0, text))
        })
      })
      // Else Node frames what is not framed.
      if (declares === 'none') outgoing.useChunkedEncodingByDefault = false
      outgoing.on('error', (error: NodeJS.ErrnoException) => {
        // A proxy closes behind an early answer, and Node may have sent the next upload by then: nobody looked at it.
        const isLeft = outgoing.socket !== null && answered.has(outgoing.socket)
        if (isLeft && error.code === 'ECONNRESET') resolve(upload(target, framed))
        else resolve(String(error.code))
      })
      outgoing.write(Buffer.alloc(bytes))
      // Node ends a request that is short with its connection.
      if (!(Number(declares) > bytes)) outgoing.end()
    })
  const outcomes = await eachOf(upload)(target, framed, count)
  agent.destroy()
  return outcomes
}

/** Fetch, which frames its bodies itself: it can tell no lie. */
export const fetchUploads: Uploads = eachOf(async ({ port, authorization }, { declares, bytes }) => {
  const body = new Uint8Array(bytes)
  try {
    const response = await fetch(`http://127.0.0.1:${port}${PATH}`, {
      method: 'POST',
      headers: { authorization, 'content-type': TYPE },
      ...(declares === 'chunked' ? { body: new Blob([body]).stream(), duplex: 'half' } : { body }),
    })
    return outcomeOf(response.status, await response.text())
  } catch (error) {
    return String((error as Error).cause)
  }
})

/** curl; half of the times it asks first whether to go on. */
export const curlUploads: Uploads = eachOf(async ({ port, authorization, folder }, framed, index) => {
  const { declares, bytes } = framed
  const file = await fileOf(folder, bytes)
  const framing = { chunked: 'Transfer-Encoding: chunked', none: 'Content-Length:' }[String(declares)]
  const headers = [
    `Authorization: ${authorization}`,
    `Content-Type: ${TYPE}`,
    framing ?? `Content-Length: ${declares}`,
    index % 2 === 0 ? 'Expect:' : 'Expect: 100-continue',
  ]
  const { stdout, error } = await run('curl', [
    ...['-s', '-S', '--max-time', '30', '-w', ' %{http_code}', '--data-binary', `@${file}`],
    ...headers.flatMap((header) => ['-H', header]),
    `http://127.0.0.1:${port}${PATH}`,
  ])
  if (error !== null) return `curl: ${error}`
  const end = stdout.lastIndexOf(' ')
  return outcomeOf(Number(stdout.slice(end)), stdout.slice(0, end))
})

export const hasPython = spawnSync('python3', ['--version']).status === 0

/** Python's http.client. */
export const pythonUploads: Uploads = async ({ port, authorization }, { declares, bytes }, count) => {
  const args = [PYTHON_CLIENT, port, authorization, declares, bytes, count].map(String)
  const { stdout, error } = await run('python3', args)
  return error === null ? stdout.trim().split('\n') : [error]
}

const files = new Map<string, Promise<string>>()

/** A file of so many bytes, made once. */
function fileOf(folder: string, bytes: number): Promise<string> {
  const path = join(folder, String(bytes))
  const made = files.get(path) ?? writeFile(path, Buffer.alloc(bytes)).then(() => path)
  files.set(path, made)
  return made
}

function eachOf(upload: (target: Target, framed: Framed, index: number) => Promise<string>): Uploads {
  return async (target, framed, count) => {
    const outcomes: string[] = []
    let next = 0
    const work = async () => {
      while (next < count) outcomes.push(await upload(target, framed, next++))
    }
    await Promise.all(Array.from({ length: UPLOADS_AT_ONCE }, work))
    return outcomes
  }
}

/** The native parser's own refusals are no JSON, and have no code. */
function outcomeOf(status: number, body: string): string {
  return body.startsWith('{') ? `${status} ${JSON.parse(body).error.code}` : `${status}`
}

async function run(file: string, args: readonly string[]): Promise<{ stdout: string; error: string | null }> {
  try {
    const { stdout } = await promisify(execFile)(file, args)
    return { stdout, error: null }
  } catch (error) {
    return { stdout: '', error: (error as { stderr: string }).stderr.trim() }
  }
}
