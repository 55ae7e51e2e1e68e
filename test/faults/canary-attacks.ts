import { request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { makeKey } from '../../src/gateway/catalog/key.ts'
import { RawClient } from '../support/raw-client.ts'
import type { Ask } from './canary-cases.ts'

export interface Told {
  readonly status: number
  /** As they came, one a line. */
  readonly headers: string
  readonly body: Buffer
}

/** Sends a request over a connection of its own and reads the whole answer; null: there was none. */
export function tell(port: number, { method, path, headers = {}, body }: Ask): Promise<Told | null> {
  return new Promise((resolve) => {
    const isFramed = (body === undefined && method === 'GET') || 'transfer-encoding' in headers
    const length = isFramed ? {} : { 'content-length': Buffer.byteLength(body ?? '') }
    const options = {
      host: '127.0.0.1',
      port,
      method,
      path,
      headers: { ...length, ...headers },
      agent: false,
    }
    const sending = request(options, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('error', () => {})
      response.on('close', () => {
        const lines = response.rawHeaders.flatMap((text, at, all) =>
          at % 2 === 0 ? [`${text}: ${all[at + 1]}`] : [],
        )
        resolve({ status: response.statusCode ?? 0, headers: lines.join('\n'), body: Buffer.concat(chunks) })
      })
    })
    sending.on('error', () => resolve(null))
    sending.setTimeout(30_000, () => sending.destroy())
    sending.end(body)
  })
}

/** Texts for the places of a request that are nobody's to repeat. */
export interface Noise {
  /** Letters and digits. */
  readonly text: string
  /** Header of a caller who may do all, and of one who may do nothing of this. */
  readonly all: string
  readonly little: string
}

/** What is wrong with a request, or merely strange about it, whichever path it is for. */
export function attacksOn(ask: Ask, noise: Noise): Ask[] {
  return [...strangers(ask, noise), ...strange(ask, noise), ...misdirected(ask, noise), ...broken(ask, noise)]
}

function strangers(ask: Ask, { text, little }: Noise): Ask[] {
  const values = [
    `Bearer ${text}`,
    `Basic ${Buffer.from(text).toString('base64')}`,
    `Bearer ${makeKey()}`,
    little,
    text,
  ]
  return [undefined, ...values].map((authorization) => ({
    ...ask,
    headers: { ...ask.headers, ...(authorization && { authorization }) },
  }))
}

/** Headers and a query that say too much. */
function strange(ask: Ask, { text, all }: Noise): Ask[] {
  const authorization = all
  const everywhere = {
    cookie: `session=${text}`,
    traceparent: `00-${text}-${text}-01`,
    tracestate: `vendor=${text}`,
    baggage: `user=${text}`,
    'user-agent': text,
    referer: `https://example.com/?token=${text}`,
    'x-forwarded-for': text,
    'x-api-key': text,
    'x-lk-request-id': `not an id ${text}`,
    'x-request-id': text,
    'openai-organization': text,
  }
  const { headers } = ask
  const query = `${ask.path}${ask.path.includes('?') ? '&' : '?'}api_key=${text}&X-Amz-Signature=${text}`
  return [
    { ...ask, headers: { ...headers, authorization, ...everywhere } },
    { ...ask, path: query, headers: { ...headers, authorization } },
    { ...ask, headers: { ...headers, authorization, 'idempotency-key': `no key ${text} é` } },
    { ...ask, headers: { ...headers, authorization, accept: `audio/${text}`, 'accept-language': text } },
    { ...ask, headers: { ...headers, authorization, range: `bytes=${text}` } },
  ]
}

function misdirected(ask: Ask, { text, all }: Noise): Ask[] {
  const headers = { ...ask.headers, authorization: all }
  const elsewhere = [`${ask.path}/${text}`, `/${text}${ask.path}`, `${ask.path}%2e%2e%00${text}`]
  return [
    { ...ask, headers, method: 'PATCH' },
    { method: 'HEAD', path: ask.path, headers: { authorization: all } },
    ...elsewhere.map((path) => ({ ...ask, headers, path })),
  ]
}

/** Bodies that cannot be read, or not as what they should be. */
function broken(ask: Ask, { text, all }: Noise): Ask[] {
  if (ask.method !== 'POST' && ask.method !== 'PUT') return []
  const authorization = all
  const quoted = JSON.stringify(text)
  const fields = [
    ...['input', 'prompt', 'messages', 'audio', 'url', 'domains', 'endpoint', 'payload', 'voice', 'model'],
  ]
  const wrong = [{ [text]: text }, text, [[text]]].map((value) =>
    JSON.stringify(Object.fromEntries(fields.map((name) => [name, value]))),
  )
  const jsons = [
    `{"prompt": ${quoted}`,
    `{"prompt": ${text}}`,
    `{${quoted}: "\\u00${text}"}`,
    `${'['.repeat(5_000)}${quoted}`,
    `{"provider": ${quoted}, "route": ${quoted}, "audio": {"model": ${quoted}, "base64": ${quoted}}}`,
    ...wrong,
  ]
  const parts = `--b\r\nContent-Disposition: form-data; name="${text}"; filename="${text}"\r\n`
  const forms = [
    `${parts}\r\n${text}`,
    `${parts}X-${text}: ${text.repeat(400)}\r\n\r\n${text}\r\n--b--`,
    `--b\r\nContent-Disposition: ${text}\r\n\r\n${text}\r\n--b--`,
    `--b\r\nContent-Disposition: form-data; name="file"\r\n\r\n${text}\r\n--b--`,
  ]
  const asForm = 'multipart/form-data; boundary=b'
  const bodies = [
    ...jsons.map((body) => [body, 'application/json'] as const),
    ...forms.map((body) => [body, asForm] as const),
    [text, `application/json; charset=${text}`] as const,
    [text, `multipart/form-data; b=${text}`] as const,
    [text, `text/${text}`] as const,
    [text, 'audio/wav'] as const,
  ]
  return bodies.map(([body, type]) => ({ ...ask, body, headers: { authorization, 'content-type': type } }))
}

/** What no path gets to see, as it goes over the wire. */
export function rawAttacks({ text, all }: Noise): string[] {
  const head = (...lines: string[]) => `${lines.join('\r\n')}\r\n\r\n`
  const chat = 'POST /v1/chat HTTP/1.1'
  const key = `Authorization: ${all}`
  return [
    head(chat, 'Host: a', key, 'Content-Length: 5', 'Transfer-Encoding: chunked', `X-A: ${text}`) + text,
    head(chat, 'Host: a', key, `Transfer-Encoding: ${text}`) + text,
    head(chat, 'Host: a', key, `Content-Length: ${text}`) + text,
    head(chat, 'Host: a', key, `X-A: ${text}`),
    head(chat, `Host: ${text} ${text}`, key, 'Content-Length: 2') + text,
    head(chat, key, 'Content-Length: 2') + text,
    head(`GET http://${text}/v1/me?${text} HTTP/1.1`, 'Host: a', key),
    head(`${text} /v1/me HTTP/1.1`, 'Host: a', key),
    head(`GET /${text} HTTP/0.9`, key),
    head('GET /v1/me HTTP/1.1', 'Host: a', key, `X-A: ${text.repeat(400)}`),
    `${head(chat, 'Host: a', key, 'Transfer-Encoding: chunked')}zz${text}\r\n${text}\r\n`,
    `${text}\r\n\r\n`,
  ]
}

/** Sends bytes as they are. @returns whatever came back */
export async function tellRaw(port: number, bytes: string): Promise<Buffer> {
  const client = await RawClient.connect(port)
  await client.send(bytes)
  const answer = Buffer.from(await client.rest(400), 'latin1')
  client.destroy()
  return answer
}

/** Leaves in the middle of the body, and another time in the middle of the answer. */
export async function abandon(port: number, { method, path, headers = {}, body = '' }: Ask): Promise<void> {
  const bytes = Buffer.from(body as string)
  const fields = { host: 'a', ...headers, 'content-length': bytes.length }
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`)
  const head = Buffer.from(`${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n`)
  for (const part of [0.5, 1]) {
    const client = await RawClient.connect(port)
    await client.send(head, bytes.subarray(0, Math.floor(bytes.length * part)))
    await sleep(part === 1 ? 150 : 30)
    client.socket.resetAndDestroy()
  }
}
