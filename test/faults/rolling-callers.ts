import { Agent, type IncomingMessage, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { toDots } from '../../src/sandbox/morse.ts'
import { speak } from '../../src/sandbox/speak.ts'
import { multipart } from '../support/bodies.ts'
import { Dice } from '../support/dice.ts'
import { filledWav } from '../support/wav.ts'

/** What callers do, over and over, each on a connection that it keeps unless it says otherwise. */
export const CALLER_KINDS = [
  ...['asks who it is', 'uploads a little', 'uploads 3 MB', 'uploads slowly', 'reads a stream'],
  ...['waits for its answer', 'has a key for each call', 'connects for each call'],
  'is idle for long between calls',
] as const
export type CallerKind = (typeof CALLER_KINDS)[number]

export interface CallersOptions {
  readonly port: number
  /** The header for a workspace of that name: `plain`, `waiting` or `piecewise`. */
  readonly authorizationOf: (workspace: string) => string
  readonly counts: Readonly<Record<CallerKind, number>>
  /** How long a slow upload takes. */
  readonly slowMs: number
  /** How long a connection is idle at most between two calls of the last kind, and how long at least. */
  readonly idleMs: readonly [number, number]
}

/** What became of the requests so far. */
export interface CallersTally {
  readonly requests: number
  readonly byKind: Readonly<Record<CallerKind, number>>
  /** One for each request that was not answered as it should have been. */
  readonly faults: readonly string[]
  readonly longestMs: number
  /** Ids of all POSTs. */
  readonly posts: ReadonlySet<string>
}

interface Call {
  readonly method?: string
  readonly path: string
  readonly workspace: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: Buffer
  /** Over this time the body is sent, in pieces. */
  readonly overMs?: number
  readonly isRight: (body: Buffer, headers: IncomingMessage['headers']) => boolean
}

const ANSWER_MS = 60_000
const PIECES = 20
const SOS = speak('sos', 600, 1)
const CHAT = 'a stream of many words that are one piece each'

/** Callers that go on until they are stopped. Whatever is not the answer to their call is a fault. */
export class RollingCallers {
  readonly #options: CallersOptions
  readonly #running: Promise<void>[] = []
  readonly #byKind = Object.fromEntries(CALLER_KINDS.map((kind) => [kind, 0])) as Record<CallerKind, number>
  readonly #faults: string[] = []
  readonly #posts = new Set<string>()
  readonly #large = multipartOf(filledWav(3_000_000))
  readonly #small = multipartOf(SOS)
  #requests = 0
  #longestMs = 0
  #stopped = false

  constructor(options: CallersOptions) {
    this.#options = options
    for (const kind of CALLER_KINDS)
      for (let number = 0; number < options.counts[kind]; number += 1)
        this.#running.push(this.#repeat(kind, this.#running.length))
  }

  get tally(): CallersTally {
    return {
      requests: this.#requests,
      byKind: this.#byKind,
      faults: this.#faults,
      longestMs: this.#longestMs,
      posts: this.#posts,
    }
  }

  /** Lets every caller end its last call. */
  async stop(): Promise<CallersTally> {
    this.#stopped = true
    await Promise.all(this.#running)
    return this.tally
  }

  async #repeat(kind: CallerKind, seed: number): Promise<void> {
    const dice = new Dice(seed)
    const agent = new Agent({ keepAlive: kind !== 'connects for each call', maxSockets: 1 })
    for (let number = 0; !this.#stopped; number += 1) {
      await this.#act(kind, agent, `${seed}-${number}`, dice)
    }
    agent.destroy()
  }

  async #act(kind: CallerKind, agent: Agent, id: string, dice: Dice): Promise<void> {
    const [leastIdleMs, mostIdleMs] = this.#options.idleMs
    const ask = (call: Call) => this.#ask(kind, call, agent, `${id}-${call.path.length}`)
    switch (kind) {
      case 'asks who it is':
        await ask(whoAmI)
        return void (await sleep(dice.below(40)))
      case 'uploads a little':
        await ask(this.#small)
        return void (await sleep(dice.below(60)))
      case 'uploads 3 MB':
        await ask(this.#large)
        return void (await sleep(500 + dice.below(500)))
      case 'uploads slowly':
        return void (await ask({ ...this.#small, overMs: this.#options.slowMs * (0.5 + dice.roll() / 2) }))
      case 'reads a stream':
        return void (await ask(stream))
      case 'waits for its answer':
        return void (await ask({ ...this.#small, workspace: 'waiting' }))
      case 'has a key for each call':
        return void (await this.#askTwice(kind, agent, id))
      case 'connects for each call':
        await ask(dice.chance(0.5) ? whoAmI : this.#small)
        return void (await sleep(dice.below(40)))
      case 'is idle for long between calls':
        await ask(this.#small)
        return void (await sleep(leastIdleMs + dice.below(mostIdleMs - leastIdleMs), undefined, {
          ref: false,
        }))
    }
  }

  async #askTwice(kind: CallerKind, agent: Agent, id: string): Promise<void> {
    const headers = { ...this.#small.headers, 'idempotency-key': `rolling-${id}` }
    const first = await this.#ask(kind, { ...this.#small, headers }, agent, `${id}-first`)
    await sleep(200)
    const isRight: Call['isRight'] = (body, answer) =>
      first?.equals(body) === true && answer['x-lk-idempotent-replay'] === 'true'
    await this.#ask(kind, { ...this.#small, headers, isRight }, agent, `${id}-again`)
  }

  async #ask(kind: CallerKind, call: Call, agent: Agent, id: string): Promise<Buffer | null> {
    const startMs = performance.now()
    const requestId = `rolling-${id}`
    if (call.method !== 'GET') this.#posts.add(requestId)
    let body: Buffer | null = null
    try {
      const answer = await this.#send(call, agent, requestId)
      body = await read(answer)
      const { statusCode, headers } = answer
      if (statusCode !== 200) throw new Error(`${statusCode} ${body.toString().slice(0, 300)}`)
      if (!call.isRight(body, headers)) throw new Error(`not its answer: ${body.toString().slice(0, 300)}`)
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException
      const afterMs = Math.round(performance.now() - startMs)
      this.#faults.push(
        `${new Date().toISOString()} ${requestId} ${kind}: ${code ?? ''} ${message} after ${afterMs} ms`,
      )
    }
    this.#requests += 1
    this.#byKind[kind] += 1
    this.#longestMs = Math.max(this.#longestMs, performance.now() - startMs)
    return body
  }

  #send(call: Call, agent: Agent, requestId: string): Promise<IncomingMessage> {
    const { port, authorizationOf } = this.#options
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
    const body = call.body ?? Buffer.alloc(0)
    const length = call.method === 'GET' ? {} : { 'content-length': String(body.length) }
    const sending = request({
      agent,
      host: '127.0.0.1',
      port,
      method: call.method ?? 'POST',
      path: call.path,
      headers: {
        authorization: authorizationOf(call.workspace),
        'x-lk-request-id': requestId,
        ...length,
        ...call.headers,
      },
      timeout: ANSWER_MS,
    })
    sending.on('response', resolve)
    sending.on('error', reject)
    sending.on('timeout', () => sending.destroy(new Error('no answer')))
    if (call.overMs === undefined) sending.end(body)
    else void trickle(body, call.overMs, sending).catch(reject)
    return promise
  }
}

const whoAmI: Call = {
  method: 'GET',
  path: '/v1/me',
  workspace: 'plain',
  isRight: (body) => (JSON.parse(body.toString()) as { workspace: { id: string } }).workspace.id === 'plain',
}

const stream: Call = {
  path: '/v1/chat',
  workspace: 'piecewise',
  headers: { 'content-type': 'application/json' },
  body: Buffer.from(JSON.stringify({ messages: [{ role: 'user', content: CHAT }], stream: true })),
  isRight: (body) => {
    const events = body.toString().split('\n\n')
    const text = events
      .filter((event) => event.startsWith('data: {"type":"delta"'))
      .map((event) => (JSON.parse(event.slice('data: '.length)) as { content: string }).content)
      .join('')
    return text === toDots(CHAT) && events.at(-2) === 'data: [DONE]'
  },
}

function multipartOf(audio: Buffer): Call {
  const { contentType, body } = multipart([
    { name: 'file', filename: 'a.wav', type: 'audio/wav', body: audio },
  ])
  return {
    path: '/v1/transcription',
    workspace: 'plain',
    headers: { 'content-type': contentType },
    body,
    isRight: (answer) => (JSON.parse(answer.toString()) as { status: string }).status === 'succeeded',
  }
}

async function trickle(body: Buffer, overMs: number, sending: NodeJS.WritableStream): Promise<void> {
  const size = Math.ceil(body.length / PIECES)
  for (let start = 0; start < body.length; start += size) {
    sending.write(body.subarray(start, start + size))
    await sleep(overMs / PIECES)
  }
  sending.end()
}

/** @throws when it breaks off */
async function read(answer: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of answer) chunks.push(chunk as Buffer)
  if (!answer.complete) throw new Error('the answer is cut')
  return Buffer.concat(chunks)
}
