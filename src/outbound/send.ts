import type { Readable } from 'node:stream'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { Agent } from 'undici'
import type { AudioReader } from '../schema/audio.ts'
import {
  type Failure,
  type Piece,
  type Send,
  type SendOptions,
  UpstreamFailure,
  type UpstreamReply,
  type UpstreamRequest,
} from '../schema/upstream.ts'
import { collect, ReplyTooLarge } from './collect.ts'

/** Longest wait for a connection, TLS included. */
const CONNECT_TIMEOUT_MS = 5_000

/** Idle connections are given up before the usual 5 s of front ends, so that none is reused while it closes. */
const KEEP_ALIVE_MS = 4_000

export interface Sender {
  readonly send: Send
  close(): Promise<void>
}

/** Sends requests to providers over pooled HTTP/1.1 connections, one request on a connection at a time. */
export function createSender(options: { reader: AudioReader }): Sender {
  const agent = new Agent({
    connect: { timeout: CONNECT_TIMEOUT_MS },
    connections: null,
    pipelining: 1,
    keepAliveTimeout: KEEP_ALIVE_MS,
    headersTimeout: 0,
    bodyTimeout: 0,
    allowH2: false,
  })
  return {
    send: (request, sendOptions) => send(agent, options.reader, request, sendOptions),
    close: () => agent.destroy(),
  }
}

async function send(
  agent: Agent,
  reader: AudioReader,
  request: UpstreamRequest,
  options: SendOptions,
): Promise<UpstreamReply> {
  options.signal.throwIfAborted()
  const reading = new Reading()
  const pathAt = request.url.indexOf('/', request.url.indexOf('://') + 3)
  const sending = collect(
    agent,
    {
      origin: request.url.slice(0, pathAt),
      path: request.url.slice(pathAt),
      method: request.method,
      headers: { ...request.headers, 'content-length': String(bodyLength(request.body)) },
      // undici takes any async iterable; its types name only Readable.
      body: encodeBody(request.body, reader, reading) as Readable | Buffer | null,
    },
    options.onHeld,
  )
  const giveUp = (reason: Error): void => {
    reading.controller.abort(reason)
    sending.abort(reason)
  }
  const timer = setTimeout(() => giveUp(new DeadlinePassed()), Math.max(1, options.deadlineMs))
  const leave = (): void => giveUp(options.signal.reason)
  options.signal.addEventListener('abort', leave, { once: true })
  try {
    return await sending.reply
  } catch (cause) {
    options.signal.throwIfAborted()
    if (reading.failed) throw reading.error
    throw new UpstreamFailure(toFailure(cause), cause)
  } finally {
    clearTimeout(timer)
    options.signal.removeEventListener('abort', leave)
    await reading.ended
  }
}

/** What the audio generator met: its failures are the store's, not the provider's. */
class Reading {
  readonly controller = new AbortController()
  failed = false
  error: unknown = undefined
  /** Settles when no generator reads the body any more, so that its memory may be given back. */
  ended: Promise<void> = Promise.resolve()
}

class DeadlinePassed extends Error {
  override readonly name = 'DeadlinePassed'
}

function bodyLength(pieces: readonly Piece[]): number {
  let bytes = 0
  for (const piece of pieces) {
    if (piece instanceof Uint8Array) bytes += piece.length
    else
      bytes += piece.as === 'bytes' ? piece.audio.decodedBytes : 4 * Math.ceil(piece.audio.decodedBytes / 3)
  }
  return bytes
}

/**
 * A body with audio goes out as a generator: handed a pooled Buffer, undici leaves what the provider did not
 * read queued on a connection that it uses again, and by then the buffer holds another caller's audio.
 */
function encodeBody(pieces: readonly Piece[], reader: AudioReader, reading: Reading) {
  const plain = pieces.filter((piece) => piece instanceof Uint8Array)
  if (plain.length === pieces.length) return pieces.length === 0 ? null : Buffer.concat(plain)
  return streamPieces(pieces, reader, reading)
}

async function* streamPieces(pieces: readonly Piece[], reader: AudioReader, reading: Reading) {
  const { signal } = reading.controller
  const { promise, resolve } = Promise.withResolvers<void>()
  reading.ended = promise
  try {
    for (const piece of pieces) {
      if (piece instanceof Uint8Array) yield piece
      else if (piece.as === 'bytes') yield* inTurns(reader.bytes(piece.audio, signal))
      else yield* inTurns(reader.base64(piece.audio, signal))
    }
  } catch (error) {
    reading.failed = !signal.aborted
    reading.error = error
    throw error
  } finally {
    resolve()
  }
}

/** What is handed to a socket in one turn of the event loop. */
const TURN_BYTES = 512 * 1024

/**
 * Cuts large chunks and lets the event loop turn between the pieces: a provider that takes them as fast as they come
 * would otherwise hold up everybody else for the whole of a body, some 10 ms for 25 MB.
 */
async function* inTurns(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let leftBytes = TURN_BYTES
  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.length; ) {
      const part = chunk.subarray(at, at + leftBytes)
      yield part
      at += part.length
      leftBytes -= part.length
      if (leftBytes > 0) continue
      leftBytes = TURN_BYTES
      await nextTurn()
    }
  }
}

/** Codes of failures before the first byte of the request left: the provider cannot have done anything. */
const CONNECT_CODES = new Set([
  'UND_ERR_CONNECT_TIMEOUT',
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EADDRNOTAVAIL',
  'CERT_HAS_EXPIRED',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'ERR_TLS_CERT_ALTNAME_INVALID',
])

function toFailure(cause: unknown): Failure {
  const plain = { status: null, retryAfterMs: null, providerMessage: null }
  if (cause instanceof DeadlinePassed)
    return { ...plain, kind: 'ambiguous', reason: 'no answer before its deadline' }
  if (cause instanceof ReplyTooLarge) return { ...plain, kind: 'server', reason: 'its answer is over 64 MiB' }
  if (CONNECT_CODES.has(codeOf(cause))) return { ...plain, kind: 'connect', reason: 'no connection' }
  return { ...plain, kind: 'ambiguous', reason: 'the connection broke' }
}

function codeOf(cause: unknown): string {
  const { code, errors } = cause as { code?: unknown; errors?: unknown[] }
  if (typeof code === 'string') return code
  return Array.isArray(errors) && errors.length > 0 ? codeOf(errors[0]) : ''
}
