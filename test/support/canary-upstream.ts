import type { IncomingMessage, ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { serveHttp } from './http-server.ts'
import type { Teardown } from './scratch.ts'

/** What a provider does with whatever it is asked. */
export type Mood = 'good' | 'long' | 'slow' | 'hang' | 'cut' | 'garbage' | 'html' | 'policy' | number

/** What it says, each a canary or with one in it. */
export interface Sayings {
  /** In good answers. */
  readonly said: string
  readonly sound: Buffer
  /** In the bodies and headers of all others. */
  readonly complaint: string
  /** In headers of every answer. */
  readonly header: string
}

export interface SingingUpstream {
  /** As `base_url`, by the name of the provider. */
  readonly url: (provider: string) => string
  set(provider: string, mood: Mood): void
  /** How many requests came, by provider. */
  readonly asked: ReadonlyMap<string, number>
}

const STEP_MS = 300
/** Makes a transcript too large to stand in the job object. */
const LONG_TIMES = 6_000

/** A server that speaks OpenAI's wire format in all operations, as several providers of one mood each. */
export async function startSingingUpstream(t: Teardown, sayings: Sayings): Promise<SingingUpstream> {
  const moods = new Map<string, Mood>()
  const asked = new Map<string, number>()
  const origin = await serveHttp(t as Parameters<typeof serveHttp>[0], (request, response) => {
    const [, provider = '', ...path] = (request.url ?? '').split('?', 1)[0]?.split('/') ?? []
    asked.set(provider, (asked.get(provider) ?? 0) + 1)
    const mood = moods.get(provider) ?? 'good'
    const answering = answer(request, response, `/${path.slice(1).join('/')}`, mood, sayings)
    answering.catch(() => response.destroy())
  })
  return {
    url: (provider) => `${origin}/${provider}/v1`,
    set: (provider, mood) => void moods.set(provider, mood),
    asked,
  }
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  path: string,
  mood: Mood,
  sayings: Sayings,
): Promise<void> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  const sent = Buffer.concat(chunks)
  const { complaint, header } = sayings
  response.setHeader('x-request-id', header)
  response.setHeader('set-cookie', `session=${header}`)
  response.setHeader('openai-organization', header)
  if (mood === 'hang') return
  if (typeof mood === 'number')
    return refuse(response, mood, { message: complaint, code: complaint, type: complaint })
  if (mood === 'policy') {
    return refuse(response, 400, { message: complaint, code: 'content_policy_violation', param: complaint })
  }
  if (mood === 'html')
    return void response.setHeader('content-type', 'text/html').end(`<h1>${complaint}</h1>`)
  if (mood === 'garbage') return json(response, `{"text": ${complaint}, "choices": [${complaint}`)
  if (mood === 'cut') {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': '100000' })
    response.write(`{"text": "${complaint}`)
    await sleep(50)
    return void response.destroy()
  }
  if (mood === 'slow') await sleep(STEP_MS)
  const streamed = /"stream":\s*true|name="stream"\r\n\r\ntrue/.test(sent.toString('latin1'))
  if (streamed && !path.startsWith('/videos')) return stream(response, path, mood, sayings)
  const { said } = sayings
  whole(response, path, mood === 'long' ? { ...sayings, said: said.repeat(LONG_TIMES) } : sayings)
}

function refuse(response: ServerResponse, status: number, error: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify({ error }))
}

function json(response: ServerResponse, body: object | string): void {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  response.setHeader('content-type', 'application/json').end(text)
}

const USAGE = { prompt_tokens: 5, completion_tokens: 3, total_tokens: 8 }

function whole(response: ServerResponse, path: string, { said, sound }: Sayings): void {
  const choice = { index: 0, finish_reason: 'stop' }
  const usage = USAGE
  const texts = { text: said, language: 'english', duration: 1 }
  const jsons: Readonly<Record<string, object>> = {
    '/chat/completions': {
      choices: [{ ...choice, message: { role: 'assistant', content: said } }],
      usage,
    },
    '/completions': { choices: [{ ...choice, text: said }], usage },
    '/embeddings': { data: [{ index: 0, embedding: [0.5, 0.25] }], usage: { prompt_tokens: 1 } },
    '/images/generations': { data: [{ b64_json: sound.toString('base64') }] },
    '/audio/transcriptions': texts,
    '/audio/translations': texts,
    '/videos': { id: 'video_1', status: 'completed', seconds: '4' },
  }
  const answer = jsons[path]
  if (answer !== undefined) json(response, answer)
  else if (path === '/audio/speech') response.setHeader('content-type', 'audio/wav').end(sound)
  else if (path.endsWith('/content')) response.setHeader('content-type', 'video/mp4').end(sound)
  else refuse(response, 404, { message: said })
}

/** In pieces that are canaries each; a slow one leaves time to leave. */
async function stream(response: ServerResponse, path: string, mood: Mood, { said }: Sayings): Promise<void> {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  const event = (body: object) => response.write(`data: ${JSON.stringify(body)}\n\n`)
  for (let piece = 0; piece < 3; piece++) {
    if (mood === 'slow') await sleep(STEP_MS)
    if (path.startsWith('/audio')) event({ type: 'transcript.text.delta', delta: said })
    else if (path === '/completions') event({ choices: [{ index: 0, text: said }] })
    else event({ choices: [{ index: 0, delta: { content: said } }] })
  }
  if (path.startsWith('/audio')) event({ type: 'transcript.text.done', text: said.repeat(3) })
  else {
    event({ choices: [{ index: 0, finish_reason: 'stop', delta: {}, text: '' }] })
    event({ choices: [], usage: USAGE })
    response.write('data: [DONE]\n\n')
  }
  response.end()
}
