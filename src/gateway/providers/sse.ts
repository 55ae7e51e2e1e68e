/** Longest event that is put together, UTF-16 units: whoever sends more is not speaking the protocol. */
const EVENT_MAX_LENGTH = 64 * 1024 * 1024

/**
 * Reads a `text/event-stream` chunk by chunk, cut anywhere, inside a character too. As the HTML standard has it: lines
 * end with LF, CR LF or CR, comments and unknown fields are skipped, an event ends with an empty line; what follows the
 * last empty line is no event. Names of events are not looked at: what a provider streams says in its data what it is.
 *
 * Each character is looked at once, however the stream is cut: an event of many megabytes may come in thousands of
 * pieces.
 */
export class SseParser {
  readonly #decoder = new TextDecoder()
  /** The line whose end is not here yet. */
  #line = ''
  /** The last character was CR: a LF that follows belongs to the same end of line. */
  #returned = false
  #data: string[] = []
  /** Total length of the lines in `#data`, each with its end. */
  #dataLength = 0

  /**
   * The data of the events that `chunk` completes.
   *
   * @throws RangeError when an event has no end in sight
   */
  push(chunk: Uint8Array): string[] {
    const decoded = this.#decoder.decode(chunk, { stream: true })
    if (decoded === '') return []
    const text = this.#returned && decoded.startsWith('\n') ? decoded.slice(1) : decoded
    this.#returned = text.endsWith('\r')
    const lines = text.split(/\r\n|[\r\n]/)
    const rest = lines.pop() ?? ''
    const events: string[] = []
    for (const line of lines) {
      this.#take(this.#line + line, events)
      this.#line = ''
    }
    this.#line += rest
    if (this.#line.length + this.#dataLength > EVENT_MAX_LENGTH) {
      throw new RangeError('an event of the stream has no end')
    }
    return events
  }

  #take(line: string, events: string[]): void {
    if (line === '') {
      if (this.#data.length > 0) events.push(this.#data.join('\n'))
      this.#data = []
      this.#dataLength = 0
      return
    }
    const colon = line.indexOf(':')
    const field = colon < 0 ? line : line.slice(0, colon)
    if (field !== 'data') return
    const value = colon < 0 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1)
    this.#data.push(value)
    this.#dataLength += value.length + 1
  }
}
