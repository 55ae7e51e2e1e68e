/** Head of an answer. */
export interface AnswerHead {
  readonly status: number
  readonly reason: string
  /** Lower-case names; of a repeated header the last value. */
  readonly headers: ReadonlyMap<string, string>
  /** Length of the body; null: unknown until it ends. */
  readonly length: number | null
}

/** Reads a status line and header lines; null when they are none. */
export function parseHead(text: string): AnswerHead | null {
  const [first = '', ...lines] = text.split('\r\n')
  const [, digits, reason = ''] = /^HTTP\/1\.[01] (\d{3})(?: (.*))?$/.exec(first) ?? []
  if (digits === undefined) return null
  const headers = new Map<string, string>()
  for (const line of lines) {
    const colon = line.indexOf(':')
    if (colon <= 0) return null
    headers.set(line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim())
  }
  if (first.startsWith('HTTP/1.0')) headers.set('connection', 'close')
  const status = Number(digits)
  const length = headers.get('content-length')
  if (status === 204 || status === 304) return { status, reason, headers, length: 0 }
  if (headers.has('transfer-encoding')) return { status, reason, headers, length: null }
  if (length !== undefined && !/^\d{1,15}$/.test(length)) return null
  return { status, reason, headers, length: length === undefined ? null : Number(length) }
}

type ChunkedState = 'size' | 'data' | 'data-end' | 'trailers' | 'done'

const LF = 0x0a
/** No size or trailer line is longer. */
const LINE_CHARACTERS = 8 * 1024

/** Takes the sizes out of a body with `Transfer-Encoding: chunked`: few servers send one. */
export class ChunkedDecoder {
  #state: ChunkedState = 'size'
  #line = ''
  #left = 0

  get isDone(): boolean {
    return this.#state === 'done'
  }

  /**
   * Moves the body's own bytes to the front of `bytes`.
   *
   * @returns how many they are
   */
  decode(bytes: Uint8Array): number {
    let kept = 0
    for (let at = 0; at < bytes.length && !this.isDone; ) {
      if (this.#state === 'data') {
        const count = Math.min(this.#left, bytes.length - at)
        bytes.copyWithin(kept, at, at + count)
        kept += count
        at += count
        this.#left -= count
        if (this.#left === 0) this.#state = 'data-end'
        continue
      }
      const end = bytes.indexOf(LF, at)
      const stop = end < 0 ? bytes.length : end
      this.#line += Buffer.from(bytes.buffer, bytes.byteOffset + at, stop - at).toString('latin1')
      if (this.#line.length > LINE_CHARACTERS) throw new Error('a line of a chunked body is too long')
      at = stop + 1
      if (end >= 0) this.#endLine()
    }
    return kept
  }

  #endLine(): void {
    const line = this.#line.trim()
    this.#line = ''
    if (this.#state === 'data-end') this.#state = 'size'
    else if (this.#state === 'trailers') this.#state = line === '' ? 'done' : 'trailers'
    else {
      const [, size] = /^([0-9a-f]{1,12})(?:[;\s]|$)/i.exec(line) ?? []
      if (size === undefined) throw new Error('a chunked body has no size where one belongs')
      this.#left = Number.parseInt(size, 16)
      this.#state = this.#left === 0 ? 'trailers' : 'data'
    }
  }
}
