import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Posted, PostWebhook, WebhookMessage } from '../schema/webhooks.ts'
import { type Answer, askHost, isUnreadable } from './ask-host.ts'
import { connectAddress, connectPlain } from './connect-address.ts'
import { HostRefused, publicAddresses, type Way, type WayParts, wayOf } from './public-host.ts'
import { retryAfterMs } from './retry-after.ts'
import { TimeOver, timed } from './timed.ts'
import { judgeWebhookUrl, type WebhookUrl } from './webhook-url.ts'

/** Bytes of an answer's body that are read, and dropped, before the connection is closed. */
const BODY_BYTES_MAX = 64 * 1024

/** This machine, for development: asked of nobody. */
const LOOPBACK: Readonly<Record<string, readonly string[]>> = {
  '127.0.0.1': ['127.0.0.1'],
  localhost: ['127.0.0.1', '::1'],
}

export interface PostTiming {
  /** From the look-up of the host to the end of the head of its answer. */
  readonly totalMs: number
  /** For the body of its answer, on top of that. */
  readonly bodyMs: number
}

const TIMING: PostTiming = { totalMs: 10_000, bodyMs: 1_000 }

export interface PosterParts extends WayParts {
  /** For development: also posts to http at 127.0.0.1 and localhost. */
  readonly insecure: boolean
  readonly timing?: Partial<PostTiming>
}

interface Posting extends Way {
  readonly insecure: boolean
  readonly timing: PostTiming
}

/**
 * Posts to hosts that customers name, and keeps them from reaching anything else through this process: the URL is
 * judged anew for each delivery, its host resolved and refused unless all of its addresses are public, and one of these
 * is dialled. A redirect is an answer like any other.
 *
 * Each delivery has a connection of its own: they are minutes apart for most targets, and none is kept open for them.
 */
export function createWebhookPoster(parts: PosterParts): PostWebhook {
  const way: Posting = {
    ...wayOf(parts),
    insecure: parts.insecure,
    timing: { ...TIMING, ...parts.timing },
  }
  return async (url, message) => {
    const target = judgeWebhookUrl(url, way.insecure)
    if ('fault' in target) return { kind: 'refused', reason: `the URL ${target.fault}` }
    try {
      return await post(way, target, message)
    } catch (cause) {
      return toPosted(cause, way.timing)
    }
  }
}

async function post(way: Posting, target: WebhookUrl, message: WebhookMessage): Promise<Posted> {
  const { totalMs, bodyMs } = way.timing
  const answer = await timed(totalMs, new AbortController().signal, async (ended) => {
    const socket = await connect(way, target, ended)
    try {
      return await ask(socket, target, message, ended)
    } catch (cause) {
      socket.destroy()
      throw cause
    }
  })
  // By now it is known what became of the delivery, and nothing in the body changes it.
  await dropBody(answer, bodyMs)
  const { statusCode: status = 0, headers } = answer.message
  return {
    kind: 'answered',
    status,
    retryAfterMs: retryAfterMs(headers['retry-after'], headers.date, Date.now()),
  }
}

/** What the host could not be connected for. */
class NoConnection extends Error {
  override readonly name = 'NoConnection'
}

async function connect(
  way: Posting,
  { host, port, local }: WebhookUrl,
  signal: AbortSignal,
): Promise<Socket> {
  const { dial, verifyPeer, ca, timing } = way
  const beganMs = performance.now()
  const addresses = local ? (LOOPBACK[host] ?? []) : await publicAddresses(way, host, signal)
  const limitMs = Math.max(1, timing.totalMs - (performance.now() - beganMs))
  const options = { dial, verifyPeer, ca, limitMs, signal }
  try {
    return local
      ? await connectPlain({ addresses, port }, options)
      : await connectAddress({ addresses, port, host }, options)
  } catch (cause) {
    signal.throwIfAborted()
    throw new NoConnection('no connection', { cause })
  }
}

function ask(socket: Socket, { url }: WebhookUrl, { headers, body }: WebhookMessage, signal: AbortSignal) {
  const path = url.pathname + url.search
  const question = {
    method: 'POST',
    path,
    headers: { host: url.host, ...headers, 'accept-encoding': 'identity', connection: 'close' },
    body,
  } as const
  return askHost(socket, question, signal)
}

/** To the end of the body, so that an honest target sees its answer taken; and no further than it may be. */
async function dropBody(answer: Answer, limitMs: number): Promise<void> {
  const timer = setTimeout(() => answer.leave(), limitMs)
  try {
    await dropped(answer.message)
  } finally {
    clearTimeout(timer)
    answer.leave()
  }
}

function dropped(message: IncomingMessage): Promise<void> {
  return new Promise((resolve) => {
    let bytes = 0
    message.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes >= BODY_BYTES_MAX) resolve()
    })
    message.once('close', resolve)
    // It may be over before anybody listened.
    if (message.destroyed) resolve()
  })
}

function toPosted(cause: unknown, { totalMs }: PostTiming): Posted {
  if (cause instanceof HostRefused) {
    return cause.reason === 'address_not_public'
      ? { kind: 'refused', reason: 'the host has an address that is not public' }
      : { kind: 'failed', reason: 'the host has no address in the DNS' }
  }
  return { kind: 'failed', reason: failureOf(cause, totalMs) }
}

function failureOf(cause: unknown, totalMs: number): string {
  if (cause instanceof TimeOver) return `no answer within ${totalMs} ms`
  if (cause instanceof NoConnection) return `no connection${codeOf(cause.cause)}`
  return isUnreadable(cause) ? 'the answer cannot be read' : `the connection broke${codeOf(cause)}`
}

/** The name that Node or OpenSSL has for it, of which none holds a word of the target. */
function codeOf(cause: unknown): string {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : ''
  return /^[A-Z][A-Z0-9_]{1,63}$/.test(code) ? ` (${code})` : ''
}
