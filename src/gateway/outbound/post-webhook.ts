import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { TimeoutError, timed, within } from '../../contracts/time.ts'
import type { Posted, PostWebhook, WebhookMessage } from '../../contracts/webhooks.ts'
import { askHost, isUnreadable, type Question, toldCode } from './ask-host.ts'
import { connectAddress, connectPlain } from './connect-address.ts'
import type { HostAccess, HostAccessOptions } from './public-host.ts'
import { HostRefused, hostAccess, publicAddresses } from './public-host.ts'
import { judgeWebhookUrl, type WebhookUrl } from './remote-url.ts'
import { retryAfterMs } from './retry-after.ts'

/** Bytes of an answer's body that are read, and dropped, before the connection is closed. */
const BODY_BYTES_MAX = 64 * 1024

/** Addresses of this machine, for development, without a DNS lookup. */
const LOOPBACK: Readonly<Record<string, readonly string[]>> = {
  '127.0.0.1': ['127.0.0.1'],
  localhost: ['127.0.0.1', '::1'],
}

const TIMING = {
  /** From the look-up of the host to the end of the head of its answer. */
  totalMs: 10_000,
  /** For the body of its answer, on top of that. */
  bodyMs: 1_000,
}
export type PostTiming = Readonly<typeof TIMING>

export interface PosterDependencies extends HostAccessOptions {
  /** For development: also posts to http at 127.0.0.1 and localhost. */
  readonly insecure: boolean
  readonly timing?: Partial<PostTiming>
}

interface Posting extends HostAccess {
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
export function createWebhookPoster(deps: PosterDependencies): PostWebhook {
  const access: Posting = {
    ...hostAccess(deps),
    insecure: deps.insecure,
    timing: { ...TIMING, ...deps.timing },
  }
  return async (url, message) => {
    const target = judgeWebhookUrl(url, access.insecure)
    if ('issue' in target) return { kind: 'refused', reason: `the URL ${target.issue}` }
    try {
      return await post(access, target, message)
    } catch (cause) {
      return toPosted(cause, access.timing)
    }
  }
}

async function post(access: Posting, target: WebhookUrl, message: WebhookMessage): Promise<Posted> {
  const { clock, timing } = access
  const send = async (ended: AbortSignal) => {
    const socket = await connect(access, target, ended)
    try {
      return await askHost(socket, questionOf(target, message), ended)
    } catch (cause) {
      socket.destroy()
      throw cause
    }
  }
  const answer = await timed(timing.totalMs, new AbortController().signal, send, clock)
  // The head says what became of the delivery, and nothing in the body changes it.
  await within(timing.bodyMs, dropped(answer.message), clock).catch(() => {})
  answer.leave()
  const { statusCode: status = 0, headers } = answer.message
  return {
    kind: 'answered',
    status,
    retryAfterMs: retryAfterMs(headers['retry-after'], headers.date, clock.wallNow()),
  }
}

/** The host could not be connected to; the reason is its cause. */
class NoConnection extends Error {
  override readonly name = 'NoConnection'
}

async function connect(
  access: Posting,
  { host, port, local }: WebhookUrl,
  signal: AbortSignal,
): Promise<Socket> {
  const { timing, clock } = access
  const beganMs = clock.now()
  const addresses = local ? (LOOPBACK[host] ?? []) : await publicAddresses(access, host, signal)
  const limitMs = Math.max(1, timing.totalMs - (clock.now() - beganMs))
  const options = { ...access, limitMs, signal }
  try {
    return local
      ? await connectPlain({ addresses, port }, options)
      : await connectAddress({ addresses, port, host }, options)
  } catch (cause) {
    signal.throwIfAborted()
    throw new NoConnection('no connection', { cause })
  }
}

function questionOf({ url }: WebhookUrl, message: WebhookMessage): Question {
  const { method = 'POST', headers, body } = message
  const own = { 'accept-encoding': 'identity', connection: 'close' }
  return { method, path: url.pathname + url.search, headers: { host: url.host, ...headers, ...own }, body }
}

/** Reads to the end of the body, so that an honest target sees its answer taken, and no further than it may be. */
function dropped(message: IncomingMessage): Promise<void> {
  return new Promise((resolve) => {
    let bytes = 0
    message.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes >= BODY_BYTES_MAX) resolve()
    })
    message.once('close', resolve)
    // It may be over already.
    if (message.destroyed) resolve()
  })
}

function toPosted(cause: unknown, { totalMs }: PostTiming): Posted {
  if (cause instanceof HostRefused) {
    return cause.reason === 'address_not_public'
      ? { kind: 'refused', reason: 'the host has an address that is not public' }
      : { kind: 'failed', reason: 'the host has no address in the DNS' }
  }
  const failed = (reason: string): Posted => ({ kind: 'failed', reason })
  if (cause instanceof TimeoutError) return failed(`no answer within ${totalMs} ms`)
  if (cause instanceof NoConnection) return failed(`no connection${toldCode(cause.cause)}`)
  return failed(isUnreadable(cause) ? 'the answer cannot be read' : `the connection broke${toldCode(cause)}`)
}
