import { type IncomingMessage, request } from 'node:http'
import type { Socket } from 'node:net'

/** Largest head of an answer, bytes. */
const HEAD_BYTES_MAX = 16 * 1024

/** A request, with each of its headers but Content-Length. */
export interface Question {
  readonly method: 'GET' | 'POST' | 'PUT'
  /** With the query. */
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | null
}

/** An answer whose body is still on its way, and what goes wrong with the connection meanwhile. */
export interface Answer {
  readonly message: IncomingMessage
  /** Why the connection broke, also when it did after the last byte of the body; null when it did not. */
  broken(): unknown
  /** Ends the connection. */
  leave(): void
}

/**
 * Sends one request to a host on a connection used for nothing else. By node:http: given a socket, it makes one request
 * on it without any pool, and its parser itself refuses what readers could understand in two ways, such as two
 * Content-Lengths, or one beside Transfer-Encoding.
 *
 * @param signal ends the request at once; until the head is here
 * @throws what the connection or the parser failed with; the signal's reason when aborted
 */
export function askHost(socket: Socket, question: Question, signal: AbortSignal): Promise<Answer> {
  const { method, path, headers, body } = question
  const { promise, resolve, reject } = Promise.withResolvers<Answer>()
  let failure: unknown = null
  const asked = request({
    createConnection: () => socket,
    method,
    path,
    setHost: false,
    headers: body === null ? headers : { ...headers, 'content-length': Buffer.byteLength(body) },
    maxHeaderSize: HEAD_BYTES_MAX,
    insecureHTTPParser: false,
  })
  // By default header lines from the 2,001st on are dropped unread, whatever they say.
  asked.maxHeadersCount = 0

  const fail = (cause: unknown) => {
    failure ??= cause
    reject(cause)
  }
  const leave = () => {
    fail(signal.reason)
    asked.destroy()
    socket.destroy()
  }
  asked.on('error', fail)
  asked.on('close', () => reject(new Error('the connection ended before the head of the answer')))
  asked.on('response', (message) => {
    message.on('error', fail)
    resolve({
      message,
      broken: () => failure,
      leave: () => {
        message.destroy()
        asked.destroy()
        socket.destroy()
      },
    })
  })
  signal.addEventListener('abort', leave, { once: true })
  if (signal.aborted) leave()
  asked.end(body)
  return promise.finally(() => signal.removeEventListener('abort', leave))
}

/** The connection broke because the parser of node:http could not read the answer. */
export function isUnreadable(cause: unknown): boolean {
  return codeOf(cause).startsWith('HPE_')
}

/** The unreadable part was a length that could be understood in two ways, or in none. */
export function isBadLength(cause: unknown): boolean {
  return /^HPE_(?:(?:UNEXPECTED|INVALID)_CONTENT_LENGTH|INVALID_TRANSFER_ENCODING)$/.test(codeOf(cause))
}

/** Error code of Node or OpenSSL; empty: none. */
export function codeOf(cause: unknown): string {
  return cause instanceof Error && 'code' in cause ? String(cause.code) : ''
}

/** Error code of Node or OpenSSL, in parentheses; no code contains text from the target. */
export function toldCode(cause: unknown): string {
  const code = codeOf(cause)
  return /^[A-Z][A-Z0-9_]{1,63}$/.test(code) ? ` (${code})` : ''
}
